"""The page of the paper's rows: written by its script, complete, with numbers that can be the paper's."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from seqsmooth.training.bases import packaged_bases

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/paper.md").read_text(encoding="utf-8").split("## The index")[1]
SECTIONS = {part.split("\n", 1)[0]: part for part in PAGE.split("\n### ")[1:]}


def lines(section: str) -> list[list[str]]:
    """The cells of the rows of a section's table."""
    found = [
        re.split(r"\s*\|\s*", line.strip("| ")) for line in SECTIONS[section].splitlines() if line.startswith("| ")
    ]
    return found[1:]


def test_the_page_is_what_its_script_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("making_paper", ROOT / "docs/making/paper.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, script)  # where a dataclass looks for its types
    spec.loader.exec_module(script)
    page = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
    assert script.page() == page, "python docs/making/paper.py"


def test_every_base_and_every_loss_of_the_paper_is_listed() -> None:
    bases = {base.name: base for base in packaged_bases()}
    top = (ROOT / "docs/paper.md").read_text(encoding="utf-8").split("## The index")[0]
    assert all(f"| `{name}` |" in top for name in bases)
    losses = {cells[1].split("`")[1] for section in SECTIONS for cells in lines(section) if "`" in cells[1]}
    for name in ("coco/show_tell", "coco/top_down", "iwslt14", "wmt14", "coco/restval/fifteen", "flickr8k/few"):
        assert losses >= set(bases[name].losses), name


def test_a_row_without_a_record_is_marked() -> None:
    names = {record["run"]["name"] for record in records()}
    for base in ("coco/show_tell", "coco/top_down", "coco/stage_two/show_tell", "iwslt14", "wmt14"):
        assert not any(name.startswith(f"{base}/") for name in names), "then the page must say so of its tables"
    for row, loss, *_, measured in lines("Captioning with attention"):
        recorded = f"coco/restval_top_down/{loss.strip('`')}" in names
        assert (measured == "**not measured**") is not recorded, row
    assert all(cells[-1] == "**not measured**" for cells in lines("COCO's server"))


def records() -> list[dict[str, Any]]:
    """The records of runs."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "results").rglob("*.json")]
    return [file for file in files if "run" in file]


@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "Not in the paper"])
def test_every_row_has_all_its_values(section: str) -> None:
    head = SECTIONS[section].split("\n| ", 1)[1].split("|\n", 1)[0].count("|") + 1
    for cells in lines(section):
        assert len(cells) == head
        assert all(re.fullmatch(r"\d{2,3}\.\d{1,2}", value) for value in cells[2:-1])


def test_the_claims_of_the_abstract_hold_in_the_index() -> None:
    """What the paper says of its numbers in words: Tok-Seq with CIDEr and V_refs is the best captioner, both times."""
    for section in ("Captioning without attention", "Captioning with attention"):
        scores = {row: float(values[2]) for row, _, *values in lines(section)}
        assert max(scores, key=scores.__getitem__) == "Tok-Seq, CIDEr, V_refs"
        assert len(scores) == 22
    for place in (0, 1):
        scores = {row: float(values[place]) for row, _, *values in lines("Translation")}
        assert max(scores, key=scores.__getitem__) == "Tok-Seq, BLEU-4, V_batch"
        assert min(scores, key=scores.__getitem__) == "MLE"
