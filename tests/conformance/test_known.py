"""What docs/conformance.md publishes about known losses is what the contract says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from oracles.interpreter import quicken
from seqsmooth.cli.main import main
from seqsmooth.conformance import RULES, ConformanceReport, known, page
from seqsmooth.conformance.contract import RuleResult, not_run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")


def published() -> dict[str, dict[str, str]]:
    """Loss -> rule -> cell, as the tables of the page have it."""
    cells: dict[str, dict[str, str]] = {}
    for table in PAGE[PAGE.index(page.BEGIN) :].split("| rule |")[1:]:
        lines = [line for line in f"| rule |{table}".splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        for number, name in enumerate(rows[0][1:], 1):
            cells[name.strip("`")] = {row[0]: row[number] for row in rows[2:]}
    return cells


@pytest.mark.skipif(torch.cuda.is_available(), reason="the page is about the CPU, kernels in Triton's interpreter")
def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    """`seqsmooth conformance --known --page docs/conformance.md` brings it up to date."""
    quicken()
    copy, file = tmp_path / "page.md", tmp_path / "found.json"
    copy.write_text(PAGE, encoding="utf-8")
    assert main(["conformance", "--known", "--page", str(copy), "--json", str(file)]) == 0
    apart = []
    for report in json.loads(file.read_text(encoding="utf-8")):
        cells = {result["rule"]: page.CELLS[result["verdict"]] for result in report["results"]}
        versions = [f"{package} {version}" for package, version in report["versions"].items()]
        if "?" in cells.values() or any(version not in PAGE for version in versions):
            apart.append(f"{report['subject']} ({', '.join(versions) or report['findings'][0]['told']})")
        else:
            assert published()[report["subject"]] == cells
    if apart:
        pytest.skip(f"not here, or in another version than on the page: {', '.join(apart)}")
    assert copy.read_text(encoding="utf-8") == PAGE


def test_the_page_explains_every_rule() -> None:
    explained = PAGE[PAGE.index("## The rules") : PAGE.index("## The tables")]
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
    monkeypatch.setattr(known, "LOSSES", (("a loss", "package_of_nobody", broken), ("ours", "torch", broken)))
    missing, failing = known.reports(torch.device("cpu"))
    assert {result.verdict for result in (*missing.results, *failing.results)} == {"skipped"}
    assert missing.results[0].detail == "package_of_nobody is not installed"
    assert failing.results[0].detail == "ImportError: no such kernel"


def broken() -> known.Subject:
    raise ImportError("no such kernel")


def test_a_page_is_filled_between_its_marks() -> None:
    failing = ConformanceReport(
        "LabelSmoother",
        {"transformers": "5"},
        (
            *tuple(RuleResult(rule.name, "holds") for rule in RULES[:-1]),
            RuleResult("inputs kept", "fails", "the loss is off"),
        ),
    )
    text = page.fill(
        f"before\n{page.BEGIN}\nyesterday\n{page.END}\nafter\n", [failing, not_run("x", {}, "no GPU")], "a toaster"
    )
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "yesterday" not in text
    assert "| inputs kept | **fails** | ? |" in text
    assert "On a toaster. Versions: transformers 5." in text
    assert "- `LabelSmoother`, inputs kept: the loss is off." in text
    assert "- `x` was not run: no GPU." in text
    assert page.fill(text, [failing], "b") == page.fill(page.fill(text, [], "a"), [failing], "b")
    with pytest.raises(ValueError, match=r"^The page must have the marks of the table, once each and in order"):
        page.fill("nothing", [failing], "b")
