from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Group, Results
from seqsmooth.reports.shares import curves, lengths

NOISE = np.random.default_rng(0).normal(0, 1, (5, ITEMS))


def run(row: str, seed: int, value: float, share: float, **facts: Any) -> Record:
    each = value + NOISE[seed] - NOISE[seed].mean()
    made = record(row, seed, each, name=row.lower(), fraction=share, table="whole" if share == 1 else "part")
    return Record(**{**vars(made), "facts": {**made.facts, **facts}})


@pytest.fixture
def shares() -> dict[float, Group]:
    """Smoothing gains 4 points on a tenth of the data and nothing on all of it; Tok has not run on a tenth."""
    kept = []
    for share, level, gain in ((0.1, 60.0, 4.0), (1.0, 90.0, 0.0)):
        facts = {"epochs": round(3 / share), "steps": round(1000 * share)}
        kept += [run("MLE", seed, level + seed, share, **facts) for seed in range(3)]
        kept += [run("Seq", seed, level + gain + seed, share, **facts) for seed in range(3)]
    kept.append(run("Tok", 0, 91.0, 1.0, epochs=3, steps=990))
    kept.append(run("Tok", 0, 70.0, 0.5, epochs=6, steps=500))
    (found,) = Results(tuple(kept)).fractions
    return found


def test_gains_are_differences_from_mle_at_the_same_share_with_their_intervals(shares: dict[float, Group]) -> None:
    gains, _ = curves(shares)
    assert gains.ticks == ["10 %", "50 %", "100 %"]
    level, *lines = gains.series
    assert level.name == "MLE"
    assert level.points == [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]
    held = {line.name: line for line in lines}
    assert set(held) == {"Seq", "Tok"}, "MLE does not differ from itself"
    assert held["Seq"].points == [(0.0, pytest.approx(4.0)), (2.0, pytest.approx(0.0, abs=1e-9))], "50 % has no Seq"
    assert held["Tok"].points == [(2.0, pytest.approx(0.0, abs=1e-9))], "50 % has no MLE to differ from; 91 is its mean"
    made = shares[0.1].difference("cider", "Seq", "MLE")
    assert made is not None
    assert made.trainings == (held["Seq"].low[0], held["Seq"].high[0]), "of trainings where there are seeds enough"
    assert held["Seq"].low[0] < 4.0 < held["Seq"].high[0]


def test_scores_are_means_between_the_least_and_the_greatest_seed(shares: dict[float, Group]) -> None:
    *_, scores = curves(shares)
    held = {line.name: line for line in scores.series}
    assert held["MLE"].points == [(0.0, pytest.approx(61.0)), (2.0, pytest.approx(91.0))]
    assert held["MLE"].low == [pytest.approx(60.0), pytest.approx(90.0)]
    assert held["MLE"].high == [pytest.approx(62.0), pytest.approx(92.0)]
    assert held["Tok"].points == [(1.0, pytest.approx(70.0)), (2.0, pytest.approx(91.0))]


def test_without_a_baseline_there_is_no_chart_of_differences(shares: dict[float, Group]) -> None:
    alone = {
        share: Group("", "test", tuple(one for one in held.lines if one.label != "MLE"))
        for share, held in shares.items()
    }
    assert [chart.name for chart in curves(alone)] == ["scores"]


def test_how_long_the_runs_were_is_told(shares: dict[float, Group]) -> None:
    assert lengths(shares) == (
        "10 % for 30 epochs, 100 steps; 50 % for 6 epochs, 500 steps; 100 % for 3 epochs, 990 to 1,000 steps."
    )
