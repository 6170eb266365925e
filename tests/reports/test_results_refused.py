"""Records and choices that do not belong together, or are not what they say: one sentence, never a wrong table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from oracles.result_pages import charts_of, results_of, text_of, whole
from seqsmooth.reports import choices
from seqsmooth.reports import results_tables as tables
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Chapter, Results, read_results
from seqsmooth.reports.results_pages import make_pages, write_results

Change = Callable[[dict[str, Any]], None]


def scored(value: float) -> np.ndarray:
    return np.full(ITEMS, value)


def configured(row: str, seed: int, config: dict[str, Any], **changes: Any) -> Record:
    made = record(row, seed, scored(50.0), **changes)
    return replace(made, facts={**made.facts, "config": {**made.facts["config"], **config}})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (configured("MLE", 1, {"optimizer": {"lr": 0.5}}), "`optimizer.lr`"),
        (record("MLE", 1, scored(60.0), data="another"), "their corpus"),
        (record("MLE", 1, scored(60.0), decoding={"beam": 1}), "how they were decoded"),
    ],
    ids=["config", "corpus", "beam"],
)
def test_a_mean_over_more_than_seeds_is_refused(other: Record, told: str) -> None:
    first = configured("MLE", 0, {"optimizer": {"lr": 0.1}}) if "lr" in told else record("MLE", 0, scored(50.0))
    with pytest.raises(ValueError, match=f"must differ in their seed alone.*'MLE'.* differ in {told}"):
        make_pages(results_of([first, other]))


def test_what_changes_nothing_may_differ() -> None:
    places = [{"trainer": {"device": where, "bundle": size}} for where, size in (("cpu", 1), ("cuda", 20))]
    told = text_of(results_of([configured("MLE", seed, place) for seed, place in enumerate(places)]))
    assert "50.00 ± 0.00 (2)" in told


def test_tables_of_two_tasks_are_told_apart() -> None:
    made = record("MLE", 1, scored(50.0), items="others")
    other = replace(made, facts={**made.facts, "task": "translation"})
    with pytest.raises(ValueError, match=r"of the same items of test in a table \(`table` in a config"):
        make_pages(results_of([record("MLE", 0, scored(50.0)), other]))


def test_shares_of_the_data_are_found_by_the_config_and_not_by_the_shape_of_a_name() -> None:
    kept = []
    for row, name, value in (("MLE", "exp/mle", 10.0), ("Seq (lazy)", "exp/seq", 20.0)):
        kept.append(record(row, 0, scored(value), name=name, fraction=0.5))  # by --data.fraction: it keeps its name
        kept.append(record(row, 1, scored(value + 5), name=name))
        grid = f"{row} (fraction 0.1)" if row == "MLE" else f"{row} (tau 0.2, fraction 0.1)"
        point = "fraction=0.1" if row == "MLE" else "tau=0.2,fraction=0.1"
        kept.append(record(grid, 0, scored(value - 5), name=f"{name}/{point}", fraction=0.1))
    (shares,) = Results(tuple(kept)).shares
    found = {share: {row.label: row.values("cider") for row in table.rows} for share, table in shares.items()}
    assert found == {
        0.1: {"MLE": [5.0], "Seq (lazy) (tau 0.2)": [15.0]},
        0.5: {"MLE": [10.0], "Seq (lazy)": [20.0]},
        1.0: {"MLE": [15.0], "Seq (lazy)": [25.0]},
    }


def test_shares_of_two_corpora_and_of_two_splits_have_tables_of_their_own() -> None:
    kept = [
        record("MLE", 0, scored(value), name="mle", fraction=0.5, data=data, split=split, table=f"{data} {split}")
        for value, data, split in ((10.0, "a", "test"), (20.0, "b", "test"), (30.0, "a", "val"))
    ]
    found = Results(tuple(kept)).shares
    assert [shares[0.5].rows[0].values("cider") for shares in found] == [[10.0], [20.0], [30.0]]
    charts = charts_of(make_pages(results_of(kept)))
    assert {"shares-scores.svg", "shares-2-scores.svg", "shares-3-scores.svg"} <= charts.keys()


def test_charts_of_titles_without_latin_letters_are_different_files() -> None:
    kept = [
        record(row, 0, scored(value), table=table)
        for table, level in (("日本", 10.0), ("中国", 20.0))
        for row, value in (("MLE", level), ("Tok", level + 1))
    ]
    pages = make_pages(results_of(kept), "a page")
    assert {"table-differences.svg", "table-again-differences.svg"} <= charts_of(pages).keys()
    assert "](table-again-differences.svg)" in whole(pages)
    assert "](a%20page/table-again.md)" in pages[0].text


def test_a_name_cannot_break_a_table() -> None:
    told = text_of(results_of([record("MLE", 0, scored(1.0)), record("a | <b>", 0, scored(2.0))]))
    (line, *_) = (line for line in told.splitlines() if line.startswith("| a"))
    assert line.startswith("| a \\| &lt;b> | ")


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held["scores"]["cider"].update(value=float("nan")),
        lambda held: held["curve"].update(cider=[float("nan")] * 2),
        lambda held: held["curve"].update(cider=[1.0]),
        lambda held: held.update(scores={}),
        lambda held: held.update(members=[]),
        lambda held: held["run"].update(config=None),
        lambda held: held["run"].update(seed="x"),
        lambda held: held["run"].update(task="dance"),
        lambda held: held["run"].update(seconds=None),
        lambda held: held["run"].update(started="yesterday"),
        lambda held: held["run"].update(name="../elsewhere"),
        lambda held: held["behaviour"].update(calibration=[]),
    ],
    ids=[
        *("nan", "curve", "short", "scores", "members", "config"),
        *("seed", "task", "seconds", "started", "name", "calibration"),
    ],
)
def test_a_record_of_something_else_is_one_sentence(change: Change, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    record("MLE", 0, scored(1.0)).save(path)
    assert len(read_results(tmp_path).records) == 1
    held = json.loads(path.read_text(encoding="utf-8"))
    change(held)
    path.write_text(json.dumps(held), encoding="utf-8")
    with pytest.raises(ValueError, match=r"one\.json is damaged or something else"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    "held",
    [{}, {"metric": "cider", "points": 3}, {"metric": "cider", "points": [{"config": "x", "values": {}}]}],
    ids=["nothing", "number", "half"],
)
def test_a_choice_that_is_none_is_one_sentence(held: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"kind": choices.KIND} | held), encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.json` must be a file of `seqsmooth report record` or `report choose`"):
        read_results(tmp_path)


def test_records_behind_a_link_are_read(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    record("MLE", 0, scored(1.0)).save(tmp_path / "kept" / "one.json")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "results" / "loop").symlink_to(tmp_path / "results")
    assert len(read_results(tmp_path / "results").records) == 1


def test_a_whole_that_is_a_point_of_the_grid_is_the_whole_of_the_curve() -> None:
    shares = [(f"mle/fraction={share}", f"MLE (fraction {share})", share, 10.0 * share) for share in (0.1, 0.3, 1.0)]
    kept = [record(row, 0, scored(value), name=name, fraction=share) for name, row, share, value in shares]
    kept.append(record("MLE", 0, scored(99.0), name="mle"))  # of the main table, with other epochs
    (found,) = Results(tuple(kept)).shares
    assert {share: table.rows[0].values("cider") for share, table in found.items()} == {
        0.1: [1.0],
        0.3: [3.0],
        1.0: [10.0],
    }
    assert {row.label for table in found.values() for row in table.rows} == {"MLE"}


def test_a_record_that_is_there_twice_is_named_with_its_places(tmp_path: Path) -> None:
    for place in ("one", "copy of one"):
        (tmp_path / place).mkdir()
        record("MLE", 0, scored(1.0)).save(tmp_path / place / "mle.json")
    with pytest.raises(ValueError, match=r"must be there once \(remove .*copy of one.*one/mle\.json\)"):
        read_results(tmp_path)


def test_a_page_replaces_nothing_but_a_page(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "README.md").write_text("# Mine\n")
    with pytest.raises(ValueError, match=r"`out` must be new, or pages of `seqsmooth report results`"):
        write_results(tmp_path / "results", tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text() == "# Mine\n"
    for _ in range(2):
        write_results(tmp_path / "results", tmp_path / "page.md")


def test_every_metric_of_a_table_is_of_one_signature() -> None:
    other = record("Tok, GloVe", 0, scored(1.0))
    scores = {**other.scores, "rouge-l": replace(other.scores["rouge-l"], signature="rouge|otherwise")}
    with pytest.raises(
        ValueError, match=r"of one signature of rouge-l in a table; it is rouge\|made and rouge\|otherw"
    ):
        make_pages(results_of([record("MLE", 0, scored(1.0)), replace(other, scores=scores)]))


def test_seeds_without_the_metric_are_not_counted() -> None:
    without = record("MLE", 1, scored(9.0))
    without = replace(without, scores={name: held for name, held in without.scores.items() if name != "cider"})
    none = replace(record("Tok, GloVe", 0, scored(1.0)), scores=without.scores)
    (table,) = results_of([record("MLE", 0, scored(1.0)), without, none]).tables
    told = tables.main_scores(table, Chapter("", "")).replace("\u00a0", " ")
    assert "| MLE | 1.00 (1) |" in told
    assert "| Tok, GloVe | not scored |" in told


def test_other_ways_to_decode_are_told_apart() -> None:
    own = record("MLE", 0, scored(1.0), decoding={"beam": 3, "length": "none"})
    facts = {**own.facts, "config": {**own.facts["config"], "decoding": {"length": "none"}}}
    ways = (
        {"beam": 3, "length": "mean"},
        {"beam": 3, "length": "none", "which": "last"},
        {"beam": 5, "length": "none"},
    )
    kept = [replace(own, facts=facts, decoding=way, variant=str(n)) for n, way in enumerate(ways)]
    told = tables.variants(results_of([replace(own, facts=facts), *kept])).replace("\u00a0", " ")
    found = [line.split(" | ")[4] for line in told.splitlines()[2:]]
    assert sorted(found) == ["3", "3, last weights", "3, length mean", "5"]


def test_a_discussion_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "discussion.md").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"discussion\.md` must be text in UTF-8, but .* is not in line 1"):
        read_results(tmp_path)
