"""A chapter whose MLE is that of another table: it is a row there, but nobody trained it twice."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from oracles.result_pages import CHAPTERS, ROOT, charts_of, results_of, text_of, whole
from seqsmooth.reports.record import Record
from seqsmooth.reports.results_pages import make_pages, write_results

FIRST = CHAPTERS[0]
AGAIN = next(chapter for chapter in CHAPTERS if chapter.baseline is not None)
SHARED = np.random.default_rng(0).normal(90, 20, ITEMS)
LABELS = [f"{kind}, Hamming, {pool}" for kind in ("Seq", "Seq, lazy") for pool in ("V", "V_batch", "V_refs")]


def scored(above: float, seed: int) -> np.ndarray:
    return SHARED + above + np.random.default_rng([int(10 * above) % 1000, seed]).normal(0, 2, ITEMS)


def several(row: str, above: float, seeds: int, table: str, **changes: Any) -> list[Record]:
    name = f"{'first' if table == FIRST.table else 'again'}/{row}"
    return [record(row, seed, scored(above, seed), table=table, name=name, **changes) for seed in range(seeds)]


def rows(table: str) -> list[Record]:
    """One of three seeds, and some that make families."""
    made = several("Tok, GloVe", 3.0, 3, table)
    return made + [one for n, label in enumerate(LABELS) for one in several(label, 0.5 * n, 1, table)]


def part(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def cells(page: str, label: str) -> list[str]:
    return next(line for line in page.splitlines() if line.startswith(f"| {label} |")).strip("|").split("|")


MLE = several("MLE", 0.0, 5, FIRST.table)


def test_its_table_is_the_one_of_records_of_its_own() -> None:
    """All but names and times: the same losses in the first table, beside the same MLE, are the oracle."""
    pages = make_pages(results_of([*MLE, *rows(AGAIN.table)]))
    told = part(whole(pages), AGAIN.title)
    values = [scored(0.0, seed).mean() for seed in range(5)]
    assert [cell.strip() for cell in cells(told, "MLE")] == [
        *("MLE", "88.30", f"{mean(values):.2f} ± {stdev(values):.2f} (5)", "", ""),
    ]
    assert "MLE, which has no such values, is that of the first table" in told
    assert "### Rows taken together" in told
    own = make_pages(results_of([*MLE, *rows(FIRST.table)]))
    plain = part(whole(own), FIRST.title).replace(FIRST.note, AGAIN.note).replace("first/", "again/")
    slugs = "coco-", "coco-authors-"
    plain = re.sub("Training: .*", "", plain.replace(*slugs))
    assert re.sub("Training: .*", "", told.replace("first/MLE", "again/MLE")) == plain
    charts = {name: svg for name, svg in charts_of(pages).items() if name.startswith(slugs[1])}
    assert charts == {name.replace(*slugs): svg for name, svg in charts_of(own).items()}


def test_it_is_counted_once_and_repeated_by_its_own_command(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    for number, one in enumerate([*MLE, *several("Tok, GloVe", 3.0, 1, AGAIN.table)]):
        one.save(tmp_path / "kept" / f"{number}.json")
    (tmp_path / "kept" / "pages.yaml").write_text((ROOT / "results" / "pages.yaml").read_text())
    told = whole(write_results(tmp_path / "kept", tmp_path / "page.md"))
    assert "Training, validation included: 6 runs, 12.0 min of run time in 2.1 min on A GPU" in told
    assert "Training: 5 runs, 10.0 min of run time" in part(told, FIRST.title)
    assert "Training: 1 runs, 2.0 min of run time in 2.0 min." in part(told, AGAIN.title)
    command = "- MLE: `seqsmooth train configs/first/MLE.yaml --seed 0 && seqsmooth decode runs/first/MLE/0`"
    assert all(command in part(told, chapter.title) for chapter in (FIRST, AGAIN))


def test_other_beams_of_it_are_listed_once() -> None:
    wide = [replace(one, variant="wide", decoding={"beam": 9}) for one in MLE[:1]]
    told = text_of(results_of([*MLE, *wide, *rows(AGAIN.table)]))
    assert part(told, "Beams and ensembles").count("| MLE |") == 2, "as its config says, and with nine"


def test_it_is_of_the_same_split() -> None:
    held_out = several("Tok, GloVe", 3.0, 1, AGAIN.table, split="val", items="others")
    told = text_of(results_of([*MLE, *rows(AGAIN.table), *held_out]))
    assert "| MLE |" in part(told, AGAIN.title)
    assert "| MLE |" not in part(told, f"{AGAIN.title} (val)")
    theirs = several("MLE", -3.0, 2, FIRST.table, split="val", items="others")
    told = part(text_of(results_of([*MLE, *rows(AGAIN.table), *held_out, *theirs])), f"{AGAIN.title} (val)")
    assert cells(told, "MLE")[1].startswith(f" {mean(scored(-3.0, seed).mean() for seed in range(2)):.2f} ± ")


def test_without_it_there_are_no_differences() -> None:
    other = several("Tok, GloVe", 0.0, 1, FIRST.table)
    for made in (rows(AGAIN.table), [*other, *rows(AGAIN.table)]):
        told = part(text_of(results_of(made)), AGAIN.title)
        assert cells(told, "MLE")[2:] == [" not run ", "  ", "  "]
        assert cells(told, "Tok, GloVe")[3:] == ["  ", "  "]


def test_mle_alone_makes_no_chapter_of_another_table() -> None:
    told = text_of(results_of(MLE))
    assert f"## {AGAIN.title}" not in told
    assert f"- {AGAIN.title}" in told.split("## Not run")[1]


def test_one_of_its_own_stays() -> None:
    own = several("MLE", 1.0, 1, AGAIN.table)
    told = part(text_of(results_of([*MLE, *own, *rows(AGAIN.table)])), AGAIN.title)
    assert cells(told, "MLE")[2] == f" {own[0].scores['cider'].value:.2f} (1) "


def test_no_other_chapter_has_it() -> None:
    nowhere = [replace(one, facts={**one.facts, "table": None}) for one in MLE]
    made = [*nowhere, *rows("mine"), *rows(AGAIN.table), *rows(CHAPTERS[1].table)]
    told = text_of(results_of(made))
    assert cells(part(told, "Runs"), "MLE")
    assert all("| MLE |" not in part(told, title) for title in ("mine", CHAPTERS[1].title))
    assert cells(part(told, AGAIN.title), "MLE")[2] == " not run "


def test_what_does_not_compare_with_it_is_refused() -> None:
    (other,) = several("Tok, GloVe", 3.0, 1, AGAIN.table)
    with pytest.raises(ValueError, match=r"of the same items of test in a table .*authors' values.* with first/MLE\.0"):
        make_pages(results_of([*MLE, replace(other, items="others")]))
    scores = {**other.scores, "cider": replace(other.scores["cider"], signature="cider:D|otherwise")}
    with pytest.raises(
        ValueError, match=r"of one signature of cider in a table; it is cider:D\|made and cider:D\|otherw"
    ):
        make_pages(results_of([*MLE, replace(other, scores=scores)]))
