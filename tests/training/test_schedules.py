from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from seqsmooth.training import config as sections
from seqsmooth.training.reader import parse_config
from seqsmooth.training.schedules import Schedule, annealed_value, config_of_epoch, set_rate
from seqsmooth.training.step import adam


def test_the_papers_schedule() -> None:
    """The factor is .6, .36, .216 in epochs 10, 13 and 16, and 1 before the eighth (research on the authors' code)."""
    schedule = Schedule(sections.Step(0.6, every=3, start=8), steps=1000)
    assert [schedule.factor(0, epoch) for epoch in (0, 7)] == [1, 1]
    assert [schedule.factor(0, epoch) for epoch in (8, 10, 13, 16)] == pytest.approx([0.6, 0.6, 0.36, 0.216])


def test_the_authors_compounding() -> None:
    """What their code does to the same schedule: .216 in epoch 10, .01 in epoch 13, 1e-4 in epoch 16."""
    schedule = Schedule(sections.Step(0.6, every=3, start=8, compound=True), steps=1000)
    assert schedule.factor(0, 10) == pytest.approx(0.216)
    assert schedule.factor(0, 13) == pytest.approx(0.01, rel=0.02)
    assert schedule.factor(0, 16) == pytest.approx(1e-4, rel=0.05)


def test_shapes_over_steps() -> None:
    root = Schedule(sections.InverseRoot(warmup=100), steps=1)
    assert root.factor(99, 0) == pytest.approx(1)
    assert root.factor(49, 0) == pytest.approx(0.5)
    assert root.factor(399, 0) == pytest.approx(0.5)
    linear = Schedule(sections.Linear(warmup=10, final=0.1), steps=110)
    assert linear.factor(4, 0) == pytest.approx(0.5)
    assert linear.factor(60, 0) == pytest.approx(0.55)
    assert linear.factor(110, 9) == pytest.approx(0.1)
    cosine = Schedule(sections.Cosine(), steps=100)
    assert cosine.factor(25, 0) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert cosine.factor(1000, 0) == pytest.approx(0)
    plateau = Schedule(sections.Plateau(factor=0.5), steps=1)
    assert [plateau.factor(0, 0, stale) for stale in (0, 1, 3)] == [1, 0.5, 0.125]
    assert Schedule(sections.ConstantRate(warmup=4), steps=1).factor(0, 5) == 0.25


def test_rates_are_set_where_a_graph_reads_them() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = adam([weight], 0.02)
    optimizer.param_groups[0]["initial_lr"] = 0.02
    held = optimizer.param_groups[0]["lr"]
    set_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is held
    assert float(held) == pytest.approx(0.005)


def config(**anneal: Any) -> sections.Config:
    law = {"kind": "hamming", "tau": 0.3, "alpha": 0.4}
    return parse_config(
        {
            "data": {"folder": "x"},
            "model": {"kind": "show_tell"},
            "objective": {"sequence": law, "anneal": [{"start": 0.0, "end": 0.8, "epochs": 4} | anneal]},
        }
    )


def test_annealing() -> None:
    given = config(key="sequence.alpha", delay=1)
    found = [config_of_epoch(given, epoch).objective.sequence for epoch in range(7)]
    assert all(law.kind == "hamming" for law in found)
    alphas = [law.alpha for law in found]
    assert alphas == pytest.approx([0, 0, 0.2, 0.4, 0.6, 0.8, 0.8])
    assert (
        config_of_epoch(replace(given, objective=sections.ObjectiveSection()), 3).objective
        == sections.ObjectiveSection()
    )
    curve = replace(given.objective.anneal[0], shape="cosine", delay=0)
    assert [annealed_value(curve, epoch) for epoch in (0, 2, 4)] == pytest.approx([0, 0.4, 0.8])
    cliff = replace(curve, shape="step")
    assert [annealed_value(cliff, epoch) for epoch in (0, 3, 4)] == [0, 0, 0.8]


NUMBERS = "(sequence.tau, sequence.alpha, entropy)"


@pytest.mark.parametrize(
    "key", ["sequence.beta", "sequence", "sequence.pool", "token.alpha", "token.alpha.x", "lazy", "sequence.samples"]
)
def test_what_cannot_be_annealed(key: str) -> None:
    sentence = f"`objective.anneal.key` must be a number of this objective {NUMBERS}; it is {key}."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        config_of_epoch(config(key=key), 1)


def test_a_number_is_annealed_once_and_from_a_start_on() -> None:
    given = config(key="sequence.alpha")
    twice = replace(given, objective=replace(given.objective, anneal=given.objective.anneal * 2))
    with pytest.raises(ValueError, match=r"^`objective.anneal.key` must be there once; it is sequence.alpha twice"):
        config_of_epoch(twice, 1)
    with pytest.raises(ValueError, match=r"^`objective.anneal.delay` must be 0 or more; it is -1\.$"):
        config_of_epoch(config(key="sequence.alpha", delay=-1), 1)
