"""What is published about known losses is what is found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from seqsmooth.cli.main import main
from seqsmooth.conformance import RULES, Report, known, page
from seqsmooth.conformance.contract import Finding, skipped

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")


def published() -> dict[str, dict[str, str]]:
    """Loss -> rule -> cell, as the page has it."""
    lines = [line for line in PAGE[PAGE.index(page.BEGIN) :].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [name.strip("`") for name in cells[0][1:]]
    return {name: {row[0]: row[number + 1] for row in cells[2:]} for number, name in enumerate(names)}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the page is about the CPU, kernels in Triton's interpreter")
def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    """`seqsmooth conformance --known --page docs/conformance.md` brings it up to date."""
    copy, file = tmp_path / "page.md", tmp_path / "found.json"
    copy.write_text(PAGE, encoding="utf-8")
    assert main(["conformance", "--known", "--page", str(copy), "--json", str(file)]) == 0
    apart = []
    for report in json.loads(file.read_text(encoding="utf-8")):
        cells = {finding["rule"]: page.CELLS[finding["verdict"]] for finding in report["findings"]}
        told = [f"{package} {version}" for package, version in report["versions"].items()]
        if "?" in cells.values() or any(version not in PAGE for version in told):
            apart.append(f"{report['subject']} ({', '.join(told) or report['findings'][0]['told']})")
        else:
            assert published()[report["subject"]] == cells
    if apart:
        pytest.skip(f"not here, or in another version than on the page: {', '.join(apart)}")
    assert copy.read_text(encoding="utf-8") == PAGE


def test_the_page_explains_every_rule() -> None:
    explained = PAGE[PAGE.index("## The rules") : PAGE.index("## The table")]
    rows = re.findall(r"^\| ([^|]+) \|", explained, re.MULTILINE)
    assert rows[1:] == [rule.name for rule in RULES]


def test_ours_keep_every_rule_that_can_be_asked() -> None:
    ours = {name: cells for name, cells in published().items() if name.startswith("ss.")}
    assert len(ours) == 6
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
