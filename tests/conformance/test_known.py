"""What is published about known losses is what is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from seqsmooth.conformance import RULES, Report, examine, known, page
from seqsmooth.conformance.contract import Finding, skipped

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")


def published() -> dict[str, dict[str, str]]:
    """Loss -> rule -> cell, as the page has it."""
    lines = [line for line in PAGE[PAGE.index(page.BEGIN) :].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [name.strip("`") for name in cells[0][1:]]
    return {name: {row[0]: row[number + 1] for row in cells[2:]} for number, name in enumerate(names)}


@pytest.mark.parametrize(
    ("name", "package", "make"), known.LOSSES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_page_says_what_is_found(name: str, package: str, make: object) -> None:
    version = known.installed(package)
    if version is None:
        pytest.skip(f"{package} is not installed")
    if package != "seqsmooth" and f"{package} {version}" not in PAGE:
        pytest.skip(f"the page is about another version of {package} than {version}")
    subject = make()  # type: ignore[operator]
    found = {finding.rule: page.CELLS[finding.verdict] for finding in examine(subject).findings}
    assert published()[name] == found


def test_the_page_explains_every_rule() -> None:
    explained = PAGE[PAGE.index("## The rules") : PAGE.index("## The table")]
    rows = re.findall(r"^\| ([^|]+) \|", explained, re.MULTILINE)
    assert rows[1:] == [rule.name for rule in RULES]


def test_ours_keep_every_rule_that_can_be_asked() -> None:
    ours = {name: cells for name, cells in published().items() if name.startswith("ss.")}
    assert len(ours) == 4
    assert {cell for cells in ours.values() for cell in cells.values()} == {"holds", "–"}


def test_failures_of_others_are_cited_and_each_citation_is_a_failure() -> None:
    table = published()
    assert len(known.ISSUES) >= 4
    for (name, rule), (_, link) in known.ISSUES.items():
        assert table[name][rule] == "**fails**"
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", link)
        assert link in PAGE


def test_a_package_that_is_not_there_is_skipped_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(known, "LOSSES", (("a loss", "package_of_nobody", known._torch), ("ours", "torch", broken)))
    missing, failing = known.reports(torch.device("cpu"))
    assert {finding.verdict for finding in (*missing.findings, *failing.findings)} == {"skipped"}
    assert missing.findings[0].told == "package_of_nobody is not installed"
    assert failing.findings[0].told == "ImportError: no such kernel"


def broken() -> known.Subject:
    raise ImportError("no such kernel")


def test_a_page_is_filled_between_its_marks() -> None:
    failing = Report(
        "LabelSmoother",
        {"transformers": "5"},
        (
            *tuple(Finding(rule.name, "holds") for rule in RULES[:-1]),
            Finding("inputs kept", "fails", "the loss is off"),
        ),
    )
    text = page.filled(
        f"before\n{page.BEGIN}\nyesterday\n{page.END}\nafter\n", [failing, skipped("x", {}, "no GPU")], "a toaster"
    )
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "yesterday" not in text
    assert "| inputs kept | **fails** | ? |" in text
    assert "On a toaster. Versions: transformers 5." in text
    assert "- `LabelSmoother`, inputs kept: the loss is off." in text
    assert "- `x` was not run: no GPU." in text
    assert page.filled(text, [failing], "b") == page.filled(page.filled(text, [], "a"), [failing], "b")
    with pytest.raises(ValueError, match="`page` must be a page with the marks of the table, once each and in order"):
        page.filled("nothing", [failing], "b")
