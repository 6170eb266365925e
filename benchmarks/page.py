"""Reports in a page of the documentation: tables in Markdown between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks import claims, head, loss, sampler
from benchmarks.records import TimingReport, TimingRow, TimingTable
from benchmarks.report import columns, heading, notes, number, per_item
from seqsmooth.ops import checks

NOTE = "(written by `python -m benchmarks page`; change nothing by hand)"
GLANCE = f"<!-- glance: begin {NOTE} -->", "<!-- glance: end -->"
RESULTS = BEGIN, END = f"<!-- results: begin {NOTE} -->", "<!-- results: end -->"
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


def fill(page: str, reports: Sequence[TimingReport]) -> str:
    """Put these reports, in alphabetical order, in place of what is between the marks of a page.

    The marks of the results must be there; those of the table at a glance may be.
    """
    ordered_reports = sorted(reports, key=lambda report: report.benchmark)
    parts = [_promises(reports), *([_section(report) for report in ordered_reports] or [NOTHING])]
    page = _replace(page, RESULTS, "\n\n".join(parts))
    return _replace(page, GLANCE, _glance(reports) or NOTHING) if GLANCE[0] in page else page


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


def _promises(reports: Sequence[TimingReport]) -> str:
    results = claims.check(reports)
    lines = ["| " + " | ".join(claims.HEADINGS) + " |", "|---|---|---|---|"]
    for result in results:
        *cells, verdict = result.cells()
        lines.append("| " + " | ".join([*cells, verdict if result.verdict == "held" else f"**{verdict}**"]) + " |")
    return "### The promises, one by one\n\n" + "\n".join(lines) + f"\n\n{claims.summary(results)}"


def _section(report: TimingReport) -> str:
    facts = "\n".join(f"{line}  " for line in heading(report).splitlines()[1:])
    commit, date = report.machine["commit"] or "unknown", report.machine["date"]
    head = f"### `{report.benchmark}`\n\nCommit {commit}, {date}.  "
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
