"""Rows taken together, against means worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from oracles.result_pages import OUTLINE
from seqsmooth.metrics.trainings import Difference, Trained, compare_trainings
from seqsmooth.reports.families import Family, LabelParts, families
from seqsmooth.reports.rows import BASELINE, Table

SCORES = {
    BASELINE: [10.0, 12.0, 11.0],
    "Seq, Hamming, V": [13.0],
    "Seq, Hamming, V_batch": [14.0],
    "Seq, Hamming, V_refs": [18.0, 90.0],  # its second seed is left out
    "Seq, lazy, Hamming, V": [11.0],
    "Seq, lazy, Hamming, V_batch": [12.5],
    "Seq, lazy, Hamming, V_refs": [14.0],
    "Tok, GloVe": [70.0],
    "Seq, constant, V_refs": [80.0],
}
LISTED = [label for label in SCORES if label != "Seq, constant, V_refs"]
PAPER = {label: 2.0 * SCORES[label][0] for label in LISTED}


POOLS = OUTLINE.pools


def taken_together(table: Table, labels: Iterable[str], paper: Mapping[str, float]) -> list[Family]:
    return families(table, labels, paper, POOLS, OUTLINE.contrasts)


class Known(Table):
    """A table of trainings that are known, without records."""

    def __init__(self, known: dict[str, Trained]) -> None:
        self.__dict__.update(name="", split="test", rows=(), known=known, _trained={"cider": known})

    main = "cider"  # type: ignore[assignment]

    def row(self, label: str) -> object:  # type: ignore[override]
        """Only whether it is there is asked."""
        return self.__dict__["known"].get(label)


class Scored(Known):
    """The same by the scores of each seed; other items change all of them alike."""

    def __init__(self, scores: dict[str, list[float]]) -> None:
        draws = np.random.default_rng(0).normal(size=50)
        each = {label: np.array(values) for label, values in scores.items()}
        super().__init__({label: Trained(values, values[:, None] + draws) for label, values in each.items()})


def test_families_are_means_of_first_seeds() -> None:
    group = Scored(SCORES)
    made = {(one.name, one.minus): one for one in taken_together(group, LISTED, PAPER)}
    assert made.keys() == {("Seq", BASELINE), ("Seq, lazy", BASELINE), ("Hamming", BASELINE), ("Seq", "Seq, lazy")}
    assert made["Seq", BASELINE].ours.value == pytest.approx(15 - 11)
    assert made["Seq, lazy", BASELINE].ours.value == pytest.approx(12.5 - 11)
    assert made["Hamming", BASELINE].rows == 6
    assert made["Seq", "Seq, lazy"].ours.value == pytest.approx((13 - 11 + 14 - 12.5 + 18 - 14) / 3)
    assert made["Seq", "Seq, lazy"].paper == pytest.approx(2 * 2.5)
    assert made["Seq", BASELINE].paper == pytest.approx(30 - 20)


def test_the_interval_is_that_of_so_many_trainings() -> None:
    group = Scored(SCORES)
    (seq,) = (one for one in taken_together(group, LISTED, {}) if (one.name, one.minus) == ("Seq", BASELINE))
    draws = group.__dict__["known"][BASELINE].resampled
    rows = np.array([13.0, 14.0, 18.0])
    single = Trained(rows, rows[:, None] + (draws[0] - SCORES[BASELINE][0]))
    expected: Difference = compare_trainings(single, group.__dict__["known"][BASELINE])
    assert seq.paper is None
    assert expected.trainings is not None
    assert seq.ours.value == pytest.approx(expected.value)
    assert seq.ours.items == pytest.approx(expected.items)
    assert seq.ours.trainings == pytest.approx(expected.trainings)


def test_only_matched_rows_are_subtracted() -> None:
    """Of a part that is missing somewhere, the rows that would stand against it are left out."""
    rest = {label: values for label, values in SCORES.items() if label != "Seq, lazy, Hamming, V_refs"}
    rest |= {f"{kind}, CIDEr, {pool}": [20.0] for kind in ("Seq", "Seq, lazy") for pool in ("V", "V_batch")}
    rest |= {"Tok-Seq, Hamming, V": [20.0], "Tok-Seq, Hamming, V_batch": [20.0], "Tok-Seq, CIDEr, V_refs": [60.0]}
    made = {(one.name, one.minus): one for one in taken_together(Scored(rest), rest, {})}
    assert made["Tok-Seq", BASELINE].rows == 3
    assert ("Tok-Seq", "Seq") not in made
    assert made["Seq", "Seq, lazy"].rows == 4


def test_a_table_in_which_nothing_can_be_subtracted_has_no_families() -> None:
    few = {label: values for label, values in SCORES.items() if "lazy" not in label}
    assert taken_together(Scored(few), few, {}) == []


def simulated(source: np.random.Generator, effects: dict[str, float], items: int = 50) -> Known:
    """Five seeds of MLE and one of each row, with about the spread of COCO: 0.5 over seeds, 1 over sets of items."""
    drawn = source.multinomial(items, np.full(items, 1 / items), size=80) / items  # (M, N)
    shared = source.normal(0, items**0.5, items)

    def trained(effect: float, seeds: int) -> Trained:
        levels, rest = source.normal(0, 0.3, (seeds, 1)), source.normal(0, 0.4 * items**0.5, (seeds, items))
        scores = effect + shared + levels + rest
        return Trained(scores.mean(1), scores @ drawn.T)

    return Known({BASELINE: trained(0.0, 5)} | {label: trained(effect, 1) for label, effect in effects.items()})


def test_intervals_hold_the_mean_of_the_rows_at_least_as_often_as_they_say() -> None:
    """Rows have effects of their own: their mean is asked for, and that they differ is counted as noise."""
    source, times = np.random.default_rng(0), 300
    labels = [f"{kind}, Hamming, {pool}" for kind in ("Seq", "Seq, lazy") for pool in POOLS]
    held = {("Hamming", BASELINE): 0, ("Seq", "Seq, lazy"): 0}
    of_items = dict.fromkeys(held, 0)
    for _ in range(times):
        effects = dict(zip(labels, source.normal(0.7, 0.3, 6).tolist(), strict=True))
        seq, lazy = np.array(list(effects.values())).reshape(2, 3).mean(1)
        truth = {("Hamming", BASELINE): (seq + lazy) / 2, ("Seq", "Seq, lazy"): seq - lazy}
        for one in taken_together(simulated(source, effects), labels, {}):
            if (which := (one.name, one.minus)) in truth:
                assert one.ours.trainings is not None
                held[which] += one.ours.trainings[0] <= truth[which] <= one.ours.trainings[1]
                of_items[which] += one.ours.items[0] <= truth[which] <= one.ours.items[1]
    # The share of 300 intervals that hold the truth with a probability of .95 has a standard deviation of .013.
    assert all(share / times >= 0.93 for share in held.values()), held
    assert all(share / times <= 0.995 for share in held.values()), "so wide that they say nothing"
    assert all(share / times < 0.93 for share in of_items.values()), "items alone say nothing of other trainings"


@pytest.mark.parametrize("label", ["MLE", "Tok, GloVe", "Tok, GloVe r^freq", "Label smoothing", "Seq, V", "a, b, c"])
def test_rows_without_a_pool_have_no_parts(label: str) -> None:
    assert LabelParts.of(label, POOLS) is None
