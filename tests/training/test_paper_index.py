"""The index of the paper's rows names every config that is shipped, by its row, and numbers that can be the paper's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seqsmooth.training.reader import read_config

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/paper.md").read_text(encoding="utf-8").split("## The index")[1]
SECTIONS = {part.split("\n", 1)[0]: part for part in PAGE.split("\n### ")[1:]}


def lines(section: str) -> list[list[str]]:
    """The cells of the rows of a section's table."""
    found = [
        re.split(r"\s*\|\s*", line.strip("| ")) for line in SECTIONS[section].splitlines() if line.startswith("| ")
    ]
    return found[1:]


def folders(section: str) -> list[str]:
    return re.findall(r"`configs/([\w/]+)`", SECTIONS[section].split("\n|")[0])


def listed() -> list[tuple[str, str]]:
    """Each row of the page, and the config it stands for."""
    found = []
    for section in SECTIONS:
        for row, file, *cells in lines(section):
            here = folders(section) or [folder.strip("` ") for folder in cells[0].split(",")]
            name = re.match(r"`([\w.]+)`", file)
            assert name is not None
            found += [(row, f"{folder}/{name[1]}") for folder in here]
    return found


def test_every_config_is_listed_by_its_row() -> None:
    configs = ROOT / "configs"
    names = {str(path.relative_to(configs)) for path in configs.rglob("*.yaml")}
    apart = ("base/", "chosen/", "demo/")  # parts of configs, and the demo's
    rows = {name for name in names if not name.endswith(".sweep.yaml") and not name.startswith(apart)}
    assert set(listed()) == {(read_config(configs / name).row, name) for name in rows}
    twice = {entry for entry in listed() if listed().count(entry) > 1}
    assert twice == {("Tok-Seq, CIDEr", "coco/top_down/server.yaml")}, "one model, and five together"


@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "Not in the paper"])
def test_every_row_has_all_its_values(section: str) -> None:
    head = SECTIONS[section].split("\n| ", 1)[1].split("|\n", 1)[0].count("|") + 1
    for cells in lines(section):
        assert len(cells) == head
        assert all(re.fullmatch(r"\d{2,3}\.\d{1,2}", value) for value in cells[2:])


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
