"""Reports in a page of the documentation: tables in Markdown between two marks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import claims
from benchmarks.records import TimingReport, TimingTable
from benchmarks.report import columns, heading, notes
from seqsmooth.ops import checks

BEGIN = "<!-- results: begin (written by `python -m benchmarks page`; change nothing by hand) -->"
END = "<!-- results: end -->"
NOTHING = "No results are committed yet."


def fill(page: str, reports: Sequence[TimingReport]) -> str:
    """The page with these reports, in alphabetical order, in place of what was between its marks."""
    rule = "a page with the marks of the results, once each and in order"
    ordered = page.count(BEGIN) == page.count(END) == 1 and page.index(BEGIN) < page.index(END)
    checks.must(ordered, "page", rule, "one without")
    before, after = page[: page.index(BEGIN)], page[page.index(END) :]
    ordered_reports = sorted(reports, key=lambda report: report.benchmark)
    parts = [_promises(reports), *([_section(report) for report in ordered_reports] or [NOTHING])]
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{after}"


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
