"""The table of conformance reports in a page of the documentation, between two marks."""

from __future__ import annotations

from collections.abc import Sequence

from seqsmooth.conformance.contract import RULES, ConformanceReport
from seqsmooth.conformance.known import ISSUES
from seqsmooth.ops import checks

BEGIN = "<!-- conformance: begin (written by `seqsmooth conformance --known --page`; change nothing by hand) -->"
END = "<!-- conformance: end -->"
CELLS = {"holds": "holds", "fails": "**fails**", "absent": "–", "skipped": "?"}


def fill(page: str, reports: Sequence[ConformanceReport], where: str) -> str:
    """The page with the table of these reports between its marks; `where` names the machine they ran on."""
    ordered = page.count(BEGIN) == page.count(END) == 1 and page.index(BEGIN) < page.index(END)
    sentence = f"The page must have the marks of the table, once each and in order:\n{BEGIN}\n{END}"
    checks.require(ordered, sentence)
    before, after = page[: page.index(BEGIN)], page[page.index(END) :]
    ours = [report for report in reports if report.subject.startswith("ss.")]
    others = [report for report in reports if report not in ours]
    tables = [table(group) for group in (others, ours) if group]  # two narrow ones, since a wide one breaks its names
    parts = [*tables, f"On {where}. {_versions(reports)}", *_notes(reports)]
    return f"{before}{BEGIN}\n\n" + "\n\n".join(part for part in parts if part) + f"\n\n{after}"


def table(reports: Sequence[ConformanceReport]) -> str:
    """A table with a row for each rule and a column for each loss."""
    lines = ["| " + " | ".join(["rule", *(f"`{report.subject}`" for report in reports)]) + " |"]
    lines.append("|" + "---|" * (len(reports) + 1))
    for number, rule in enumerate(RULES):
        cells = [CELLS[report.results[number].verdict] for report in reports]
        lines.append("| " + " | ".join([rule.name, *cells]) + " |")
    return "\n".join(lines)


def _versions(reports: Sequence[ConformanceReport]) -> str:
    known = {package: version for report in reports for package, version in report.versions.items()}
    return "Versions: " + ", ".join(f"{package} {version}" for package, version in sorted(known.items())) + "."


def _notes(reports: Sequence[ConformanceReport]) -> Sequence[str]:
    """A list of failures, with the thread of those that somebody has reported, and a list of losses not run."""
    failures, others = [], []
    for report in reports:
        for result in report.failures:
            thread, link = ISSUES.get((report.subject, result.rule), ("", ""))
            cited = f" Reported: [{thread}]({link})." if link else ""
            failures.append(f"- `{report.subject}`, {result.rule}: {result.detail}.{cited}")
        reasons = {result.detail for result in report.results if result.verdict == "skipped"}
        others += [f"- `{report.subject}` was not run: {reason}." for reason in sorted(reasons)]
    titled = ["What fails:\n\n" + "\n".join(failures)] if failures else []
    return [*titled, "\n".join(others)]
