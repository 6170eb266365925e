from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Results
from seqsmooth.reports.rows import Table
from seqsmooth.reports.shares import draw_curves, gains, lengths, scores

NOISE = np.random.default_rng(0).normal(0, 1, (5, ITEMS))


def run(row: str, seed: int, value: float, share: float, **facts: Any) -> Record:
    each = value + NOISE[seed] - NOISE[seed].mean()
    made = record(row, seed, each, name=row.lower(), fraction=share, table="whole" if share == 1 else "part")
    return Record(**{**vars(made), "facts": {**made.facts, **facts}})


@pytest.fixture
def shares() -> dict[float, Table]:
    """Smoothing gains 4 points on a tenth of the data and nothing on all of it; Tok has not run on a tenth."""
    kept = []
    for share, level, gain in ((0.1, 60.0, 4.0), (1.0, 90.0, 0.0)):
        facts = {"epochs": round(3 / share), "steps": round(1000 * share)}
        kept += [run("Seq", seed, level + gain + seed, share, **facts) for seed in range(3)]
        kept += [run("MLE", seed, level + seed, share, **facts) for seed in range(3)]
    kept.append(run("Tok", 0, 91.0, 1.0, epochs=3, steps=990))
    kept.append(run("Tok", 0, 70.0, 0.5, epochs=6, steps=500))
    (found,) = Results(tuple(kept)).shares
    return found


def test_gains_are_differences_from_mle_at_the_same_share_with_their_intervals(shares: dict[float, Table]) -> None:
    found = {each.name: each for each in gains(shares)}
    assert list(found) == ["Seq, 10 %", "Seq, 100 %", "Tok, 100 %"], "MLE has no other; at 50 % there is none to differ"
    assert found["Seq, 10 %"].value == pytest.approx(4.0)
    assert found["Seq, 100 %"].value == pytest.approx(0.0, abs=1e-9)
    assert found["Tok, 100 %"].value == pytest.approx(0.0, abs=1e-9), "91 is the mean of MLE's 90, 91, 92"
    wide, narrow = (shares[share].difference("cider", label, "MLE") for share, label in ((0.1, "Seq"), (1.0, "Tok")))
    assert wide is not None
    assert narrow is not None
    assert (found["Seq, 10 %"].low, found["Seq, 10 %"].high) == wide.trainings, "three seeds on both sides"
    assert (found["Tok, 100 %"].low, found["Tok, 100 %"].high) == narrow.items, "one seed: the trainings are not known"
    assert found["Seq, 10 %"].low < 4.0 < found["Seq, 10 %"].high


def test_scores_are_means_between_the_least_and_the_greatest_seed(shares: dict[float, Table]) -> None:
    held = {line.name: line for line in scores(shares)}
    assert next(iter(held)) == "MLE", "first, and so in the colour of the baseline"
    assert held["MLE"].points == [(0.0, pytest.approx(61.0)), (2.0, pytest.approx(91.0))]
    assert held["MLE"].low == [pytest.approx(60.0), pytest.approx(90.0)]
    assert held["MLE"].high == [pytest.approx(62.0), pytest.approx(92.0)]
    assert held["Tok"].points == [(1.0, pytest.approx(70.0)), (2.0, pytest.approx(91.0))]


def test_without_a_baseline_there_is_no_chart_of_differences(shares: dict[float, Table]) -> None:
    assert list(draw_curves(shares)) == ["gains", "scores"]
    alone = {
        share: Table("", "test", tuple(one for one in held.rows if one.label != "MLE"))
        for share, held in shares.items()
    }
    assert list(draw_curves(alone)) == ["scores"]


def test_how_long_the_runs_were_is_told(shares: dict[float, Table]) -> None:
    assert lengths(shares) == (
        "10 % for 30 epochs, 100 steps; 50 % for 6 epochs, 500 steps; 100 % for 3 epochs, 990 to 1,000 steps."
    )
