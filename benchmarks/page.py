"""Reports in a page of the documentation: tables in Markdown between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks import claims, head, loss, sampler
from benchmarks.paths import named
from benchmarks.records import TimingReport, TimingRow, TimingTable
from benchmarks.report import columns, heading, is_on_cpu, notes, number, per_item
from seqsmooth.ops import checks

NOTE = "(written by `python -m benchmarks page`; change nothing by hand)"
GLANCE = f"<!-- glance: begin {NOTE} -->", "<!-- glance: end -->"
RESULTS = BEGIN, END = f"<!-- results: begin {NOTE} -->", "<!-- results: end -->"
CPU_GLANCE = f"<!-- CPU glance: begin {NOTE} -->", "<!-- CPU glance: end -->"
CPU_RESULTS = f"<!-- CPU results: begin {NOTE} -->", "<!-- CPU results: end -->"
SPACE = "\N{NO-BREAK SPACE}"
NOTHING = "No results are committed yet."
LARGE = {"name": "d", "dtype": "bfloat16"}
CAPTIONS = {"name": "captions"}
BATCH = {"B": 50, "L": 5}
PAIRS: tuple[tuple[str, str, Mapping[str, int | str], str, str], ...] = (
    ("MLE, 8192 x 128256 logits", "loss", LARGE, "MLE", loss.PEER),
    ("label smoothing, same logits", "loss", LARGE, "Label smoothing", loss.SMOOTHED),
    ("Tok top-64, same logits", "loss", LARGE, "Tok top-64", loss.SPARSE),
    ("lazy Seq with 5 samples, same logits", "loss", LARGE, "Seq lazy, L=5", loss.LOOP),
    ("MLE from 8192 x 4096 hidden states", "head", LARGE, "MLE", head.LINEAR + loss.PEER),
    ("label smoothing, same states", "head", LARGE, "Label smoothing", head.LINEAR + loss.SMOOTHED),
    ("Tok top-64, same states", "head", LARGE, "Tok top-64", head.LINEAR + loss.SPARSE),
    ("5 Hamming samples of 50 captions", "sampler", CAPTIONS, "Hamming vocab, L=5", sampler.LOOP.format(5)),
    ("CIDEr-D of one of 250 candidates", "rewards", BATCH, "CIDEr-D", "pycocoevalcap CIDEr"),
)
"""The rows at a glance: title, benchmark, shape of the table, our row, the peer's row."""
CPU_LOSS, CPU_LLM = ({"name": name, "dtype": "float32", "threads": 1} for name in ("captions", "llm"))
CPU_PAIRS: tuple[tuple[str, str, Mapping[str, int | str], str, str], ...] = (
    ("MLE, 850 x 9800 logits", "loss", CPU_LOSS, "MLE", loss.PEER),
    ("label smoothing, same logits", "loss", CPU_LOSS, "Label smoothing", loss.SMOOTHED),
    ("Tok, same logits", "loss", CPU_LOSS, "Tok dense", loss.TABLE),
    ("lazy Seq with 5 samples, same logits", "loss", CPU_LOSS, "Seq lazy, L=5", loss.LOOP),
    ("MLE, 512 x 128256 logits", "loss", CPU_LLM, "MLE", loss.PEER),
    ("label smoothing, same logits", "loss", CPU_LLM, "Label smoothing", loss.SMOOTHED),
    ("MLE from 850 x 512 hidden states", "head", CPU_LOSS, "MLE", head.LINEAR + loss.PEER),
    ("Tok, same states", "head", CPU_LOSS, "Tok dense", head.LINEAR + loss.TABLE),
)
"""The same on a CPU, our rows without their path."""


def fill(page: str, reports: Sequence[TimingReport]) -> str:
    """Put these reports, in alphabetical order, in place of what is between the marks of a page.

    The marks of the results must be there; those of the tables at a glance and of the results of CPUs may be.
    """
    on_cpu = [report for report in reports if is_on_cpu(report)]
    on_gpu = [report for report in reports if not is_on_cpu(report)]
    page = _replace(page, RESULTS, _results(on_gpu, claims.GPU, "The promises, one by one"))
    if CPU_RESULTS[0] in page:
        page = _replace(page, CPU_RESULTS, _results(on_cpu, claims.CPU, "The promises for a CPU, one by one"))
    if CPU_GLANCE[0] in page:
        page = _replace(page, CPU_GLANCE, _glance_at_cpu(on_cpu) or NOTHING)
    return _replace(page, GLANCE, _glance(on_gpu) or NOTHING) if GLANCE[0] in page else page


def _results(reports: Sequence[TimingReport], device: str, title: str) -> str:
    """Write the promises of one kind of device, and all tables."""
    ordered_reports = sorted(reports, key=lambda report: report.benchmark)
    sections = [_section(report) for report in ordered_reports] or [NOTHING]
    return "\n\n".join([_promises(reports, device, title), *sections])


def _replace(page: str, marks: tuple[str, str], text: str) -> str:
    begin, end = marks
    ordered = page.count(begin) == page.count(end) == 1 and page.index(begin) < page.index(end)
    checks.must(ordered, "page", "a page with the marks of the results, once each and in order", "one without")
    return f"{page[: page.index(begin)]}{begin}\n\n{text}\n\n{page[page.index(end) :]}"


def _glance(reports: Sequence[TimingReport]) -> str:
    """A few rows of ours beside what they replace; empty where a row was not measured."""
    lines = ["| what | ours | memory | what people use | time | memory |", "|---|---:|---:|---|---:|---:|"]
    for title, benchmark, shape, name, peer in PAIRS:
        tables = [table for report in reports if report.benchmark == benchmark for table in report.tables]
        rows = [
            (table, ours, theirs)
            for table in tables
            if shape.items() <= table.shape.items()
            and (ours := table.row(name)) is not None
            and (theirs := table.row(peer)) is not None
        ]
        if not rows:
            return ""
        table, ours, theirs = rows[0]
        cells = [cell for row in (ours, theirs) for cell in (_time_each(row, table), _memory(row))]
        lines.append(f"| {title} | {cells[0]} | {cells[1]} | {theirs.name} | {cells[2]} | {cells[3]} |")
    return "\n".join(lines)


def _glance_at_cpu(reports: Sequence[TimingReport]) -> str:
    """A few rows of ours on each path beside what they replace; a path that was not measured has no times."""
    lines = [
        "| what | ours, native | memory | ours, plain torch | memory | what people use | time | memory |",
        "|---|---:|---:|---:|---:|---|---:|---:|",
    ]
    for title, benchmark, shape, name, peer in CPU_PAIRS:
        tables = [table for report in reports if report.benchmark == benchmark for table in report.tables]
        table = next((table for table in tables if shape.items() <= table.shape.items()), None)
        theirs = None if table is None else table.row(peer)
        if table is None or theirs is None:
            return ""
        cells = [title]
        for path in ("native", "torch"):
            row = table.row(named(name, path))
            cells += ["-", "-"] if row is None else [_time_each(row, table), _memory(row)]
        lines.append("| " + " | ".join([*cells, theirs.name, _time_each(theirs, table), _memory(theirs)]) + " |")
    return "\n".join(lines)


def _time_each(row: TimingRow, table: TimingTable) -> str:
    best = row.best()
    if best is None:
        return "-"
    each = best.median / per_item(row, table)
    return f"{number(each, 3)}{SPACE}ms" if each > 0.1 else f"{number(1000 * each, 3)}{SPACE}us"


def _memory(row: TimingRow) -> str:
    if row.extra_bytes is None:
        return "-"
    mebibytes = row.extra_bytes / 2**20
    return f"{mebibytes:,.{0 if mebibytes > 10 else 1}f}{SPACE}MiB"


def _promises(reports: Sequence[TimingReport], device: str, title: str) -> str:
    results = claims.check(reports, device)
    lines = ["| " + " | ".join(claims.HEADINGS) + " |", "|---|---|---|---|"]
    for result in results:
        *cells, verdict = result.cells()
        lines.append("| " + " | ".join([*cells, verdict if result.verdict == "held" else f"**{verdict}**"]) + " |")
    return f"### {title}\n\n" + "\n".join(lines) + f"\n\n{claims.summary(results)}"


def _section(report: TimingReport) -> str:
    facts = "\n".join(f"{line}  " for line in heading(report).splitlines()[1:])
    commit, date = report.machine["commit"] or "unknown", report.machine["date"]
    kind = " on a CPU" if is_on_cpu(report) else ""
    head = f"### `{report.benchmark}`{kind}\n\nCommit {commit}, {date}.  "
    return "\n\n".join([f"{head}\n{facts.rstrip()}", *(_table(table, report) for table in report.tables)])


def _table(table: TimingTable, report: TimingReport) -> str:
    shown = columns(table, report)
    lines = [
        f"**{table.title}**",
        "",
        "| " + " | ".join(["contestant", *(column.heading for column in shown)]) + " |",
        "|" + "|".join(["---", *("---:" for _ in shown)]) + "|",
    ]
    for row in sorted(table.rows, key=lambda row: not row.ours):
        name = f"**{row.name}**" if row.ours else row.name
        lines.append("| " + " | ".join([name, *(column.cell(row) for column in shown)]) + " |")
    remarks = notes(table, report)
    return "\n".join(lines) + ("\n\n" + "\n".join(f"- {note}" for note in remarks) if remarks else "")
