"""What holds of the heart for any logits and slots."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.known_mass import EMPTY, doubles, oracle_loss


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Tensor, ss.SoftTarget]:
    """Logits and slots of any kind, duplicates, empty and negative ones included."""
    rows, size, slots = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    number, weight = st.floats(-20, 20, width=32), st.floats(-2, 2, width=32)
    token = st.one_of(st.just(EMPTY), st.integers(0, size - 1))

    def table(values: st.SearchStrategy, width: int) -> list[list[float]]:
        return draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=rows, max_size=rows))

    target = ss.SoftTarget(torch.tensor(table(token, slots)), doubles(table(weight, slots)))
    return doubles(table(number, size)), target


PROPERTY = settings(max_examples=50, deadline=None)
NEAR = {"rtol": 1e-12, "atol": 1e-10}


@PROPERTY
@given(worlds(), st.floats(-100, 100))
def test_a_constant_added_to_the_logits_changes_nothing(world: tuple[Tensor, ss.SoftTarget], shift: float) -> None:
    logits, target = world
    moved = ss.cross_entropy(logits + shift, target, reduction="none")
    torch.testing.assert_close(moved, ss.cross_entropy(logits, target, reduction="none"), **NEAR)


@PROPERTY
@given(worlds(), st.data())
def test_rows_do_not_know_each_other(world: tuple[Tensor, ss.SoftTarget], data: st.DataObject) -> None:
    logits, target = world
    order = torch.tensor(data.draw(st.permutations(range(len(logits)))))
    shuffled = ss.cross_entropy(logits[order], target[order], reduction="none")
    torch.testing.assert_close(shuffled, ss.cross_entropy(logits, target, reduction="none")[order], **NEAR)
    torch.testing.assert_close(ss.cross_entropy(logits[order], target[order]), ss.cross_entropy(logits, target), **NEAR)


@PROPERTY
@given(worlds())
def test_a_slot_may_be_split(world: tuple[Tensor, ss.SoftTarget]) -> None:
    logits, target = world
    ids, weights = target.ids, target.weights
    halves = torch.cat([0.25 * weights[:, :1], 0.75 * weights[:, :1], weights[:, 1:]], -1)
    split = ss.SoftTarget(torch.cat([ids[:, :1], ids], -1), halves)
    torch.testing.assert_close(ss.cross_entropy(logits, split), ss.cross_entropy(logits, target), **NEAR)


@PROPERTY
@given(worlds(), st.sampled_from([0.0, 1.0, math.inf, math.nan]))
def test_an_empty_slot_adds_nothing(world: tuple[Tensor, ss.SoftTarget], weight: float) -> None:
    logits, target = world
    ids = F.pad(target.ids, (0, 1), value=EMPTY)
    more = ss.SoftTarget(ids, F.pad(target.weights, (0, 1), value=weight))
    torch.testing.assert_close(ss.cross_entropy(logits, more), ss.cross_entropy(logits, target), **NEAR)


@PROPERTY
@given(worlds())
def test_any_slots_are_their_mass(world: tuple[Tensor, ss.SoftTarget]) -> None:
    logits, target = world
    losses = ss.cross_entropy(logits, target, reduction="none").tolist()
    for row, ids, weights, loss in zip(
        logits.tolist(), target.ids.tolist(), target.weights.tolist(), losses, strict=True
    ):
        mass = [0.0] * len(row)
        for token, weight in zip(ids, weights, strict=True):
            if token != EMPTY:
                mass[token] += weight
        assert loss == pytest.approx(oracle_loss(row, mass), rel=1e-12, abs=1e-10)
