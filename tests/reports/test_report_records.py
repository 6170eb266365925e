"""A report of records alone: intervals over items and trainings, and what differs beside the objective."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from seqsmooth.cli.main import main
from seqsmooth.metrics.trainings import Trained, compare_trainings
from seqsmooth.reports.alike import describe_differences
from seqsmooth.reports.record import Record
from seqsmooth.reports.rows import make_tables

SHARED = np.random.default_rng(0).normal(90, 20, ITEMS)


def scored(above: float, seed: int) -> np.ndarray:
    return SHARED + above + np.random.default_rng([int(10 * above) % 1000, seed]).normal(0, 2, ITEMS)


def several(row: str, above: float, seeds: int, config: dict[str, Any] | None = None, **facts: Any) -> list[Record]:
    made = [record(row, seed, scored(above, seed), table="") for seed in range(seeds)]
    whole = [one.facts | facts | {"config": one.facts["config"] | (config or {})} for one in made]
    return [replace(one, facts=each) for one, each in zip(made, whole, strict=True)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    slow = {"optimizer": {"lr": 0.5}, "objective": {"token": {"kind": "uniform", "alpha": 0.1}}}
    for one in several("MLE", 0.0, 3, {"optimizer": {"lr": 0.1}}) + several("Smooth", 3.0, 3, slow, steps=9):
        path = tmp_path / "kept" / one.file
        path.parent.mkdir(parents=True, exist_ok=True)
        one.save(path)
    return tmp_path


def report(folder: Path, *words: str) -> dict[str, Any]:
    assert main(["report", str(folder / "kept"), "--out", str(folder / "out"), *words]) == 0
    (table,) = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))["tables"]
    return dict(table)


def test_a_report_has_the_interval_over_items_and_trainings(folder: Path) -> None:
    told = report(folder)["rows"]["Smooth"]["scores"]["cider"]["against"]
    drawn = np.random.default_rng(0).integers(ITEMS, size=(1000, ITEMS))
    ours, theirs = (
        Trained(each.mean(1), each[:, drawn].mean(2))
        for each in (np.stack([scored(above, seed) for seed in range(3)]) for above in (3.0, 0.0))
    )
    expected = compare_trainings(ours, theirs)
    assert told["value"] == pytest.approx(expected.value, rel=1e-4)
    assert told["items"] == pytest.approx(expected.items, rel=1e-3)
    assert told["trainings"] == pytest.approx(expected.trainings, rel=1e-3)
    assert "†" in (folder / "out" / "tables.md").read_text(encoding="utf-8").split("Scores in points")[0]


def test_a_report_lists_what_differs_outside_the_objective(folder: Path) -> None:
    told = report(folder)["differs outside the objective"]
    assert told == {"optimizer.lr": {"0.1": ["MLE"], "0.5": ["Smooth"]}, "steps": {"4": ["MLE"], "9": ["Smooth"]}}
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "<code>optimizer.lr</code>: 0.1 for “MLE”; 0.5 for “Smooth”" in page
    assert "`steps`: 4 for “MLE”; 9 for “Smooth”" in (folder / "out" / "tables.md").read_text(encoding="utf-8")
    assert "the same" not in page.split("<h2>How they behave")[0]


def test_what_was_compared_and_is_alike_is_said_only_then() -> None:
    (table,) = make_tables([*several("MLE", 0.0, 2), *several("Tok", 1.0, 2)])
    assert table.unlike() == {}
    changes: list[dict[str, Any]] = [
        {"device": "Another GPU"},
        {"versions": {"torch": "1"}},
        {"parameters": 11},
        {"epochs": 3},
    ]
    for change in changes:
        (table,) = make_tables([*several("MLE", 0.0, 2), *several("Tok", 1.0, 2, **change)])
        assert len(table.unlike()) >= 1, change
    other = [replace(one, data="another") for one in several("Tok", 1.0, 2)]
    (table,) = make_tables([*several("MLE", 0.0, 2), *other])
    assert table.unlike() == {"corpus": {"fingerprint": ["MLE"], "another": ["Tok"]}}
    other = [replace(one, decoding={"beam": 9}) for one in several("Tok", 1.0, 2)]
    (table,) = make_tables([*several("MLE", 0.0, 2), *other])
    assert table.unlike() == {"decoded with.beam": {"3": ["MLE"], "9": ["Tok"]}}


def test_keys_of_a_section_of_another_kind_are_not_listed() -> None:
    first = several("MLE", 0.0, 1, {"model": {"kind": "show_tell", "units": 8}})
    second = several("Tok", 0.0, 1, {"model": {"kind": "top_down", "size": 9}})
    (table,) = make_tables([*first, *second])
    assert list(table.unlike()) == ["model.kind"]


def test_the_value_of_most_rows_comes_last() -> None:
    rows = {"0.1": ["a", "b", "c", "d"], "0.5": ["e, f"]}
    assert describe_differences({"lr": rows}) == {"lr": "0.5 for “e, f”; 0.1 for all others"}
    mixed = {"0.1": ["a", "b", "c", "d"], "0.5": ["a"]}
    assert describe_differences({"lr": mixed})["lr"].endswith("0.1 for “a”, “b”, “c” and “d”"), "one has both"


def test_examples_of_records_are_the_items_that_all_have(folder: Path) -> None:
    report(folder, "--examples", "3")
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count('class="card example"') == 3
    assert "Smooth writes |" in " ".join(page.split())
    assert "Underlined" not in page, "there are no references"


def test_records_of_another_split_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder / "kept"), "--out", str(folder / "out"), "--split", "val"]) == 2
    assert "of the split val; it is of test" in capsys.readouterr().err


def test_what_a_page_shows_is_escaped(folder: Path) -> None:
    made = several("<script>alert(1)</script>", 0.0, 1, {"optimizer": {"lr": 0.1}})
    made[0].save(folder / "kept" / "odd.json")
    report(folder, "--title", "<b>mine")
    for name in ("report.html", "index.html"):
        page = (folder / "out" / name).read_text(encoding="utf-8")
        assert "<script>alert" not in page
        assert "<b>mine" not in page
