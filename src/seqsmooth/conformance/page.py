"""Reports as a table in a page of the documentation, between two marks."""

from __future__ import annotations

from collections.abc import Sequence

from seqsmooth.conformance.contract import RULES, Report
from seqsmooth.conformance.known import ISSUES
from seqsmooth.ops import checks

BEGIN = "<!-- conformance: begin (written by `seqsmooth conformance --known --page`; change nothing by hand) -->"
END = "<!-- conformance: end -->"
CELLS = {"holds": "holds", "fails": "**fails**", "absent": "–", "skipped": "?"}


def filled(page: str, reports: Sequence[Report], where: str) -> str:
    """The page with these reports in place of what was between its marks; `where` says what they ran on."""
    ordered = page.count(BEGIN) == page.count(END) == 1 and page.index(BEGIN) < page.index(END)
    checks.must(ordered, "page", "a page with the marks of the table, once each and in order", "one without")
    before, after = page[: page.index(BEGIN)], page[page.index(END) :]
    parts = [table(reports), f"On {where}. {_versions(reports)}", *_notes(reports)]
    return f"{before}{BEGIN}\n\n" + "\n\n".join(part for part in parts if part) + f"\n\n{after}"


def table(reports: Sequence[Report]) -> str:
    """A row a rule, a column a loss."""
    lines = ["| " + " | ".join(["rule", *(f"`{report.subject}`" for report in reports)]) + " |"]
    lines.append("|" + "---|" * (len(reports) + 1))
    for number, rule in enumerate(RULES):
        cells = [CELLS[report.findings[number].verdict] for report in reports]
        lines.append("| " + " | ".join([rule.name, *cells]) + " |")
    return "\n".join(lines)


def _versions(reports: Sequence[Report]) -> str:
    known = {package: version for report in reports for package, version in report.versions.items()}
    return "Versions: " + ", ".join(f"{package} {version}" for package, version in sorted(known.items())) + "."


def _notes(reports: Sequence[Report]) -> Sequence[str]:
    """Each failure with its number and, where somebody has reported it, the thread; each loss that was not run."""
    failures, others = [], []
    for report in reports:
        for finding in report.failures:
            told, link = ISSUES.get((report.subject, finding.rule), ("", ""))
            cited = f" Reported: [{told}]({link})." if link else ""
            failures.append(f"- `{report.subject}`, {finding.rule}: {finding.told}.{cited}")
        reasons = {finding.told for finding in report.findings if finding.verdict == "skipped"}
        others += [f"- `{report.subject}` was not run: {reason}." for reason in sorted(reasons)]
    titled = ["What fails:\n\n" + "\n".join(failures)] if failures else []
    return [*titled, "\n".join(others)]
