"""The heart where there is little to sum: ignored rows, no rows, impossible tokens."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.known_mass import (
    ADD,
    EMPTY,
    EXACT,
    REDUCTIONS,
    N,
    V,
    doubles,
    oracle_gradient,
    oracle_loss,
    part_of,
    random_logits,
    with_gradient,
)
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, RowTable, SparseTable


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", ["labels", *ADD, "all"])
def test_ignored_rows_contribute_nothing(kind: str, junk: float, reduction: str) -> None:
    kept = torch.tensor([True, False, True, False, False])
    if kind == "labels":
        target: ss.SoftTarget | Tensor = torch.tensor([0, EMPTY, 6, EMPTY, EMPTY])
        alone: ss.SoftTarget | Tensor = torch.tensor([0, 6])
    else:
        target = part_of(kind).target().where(kept)
        alone = part_of(kind).target()[kept]
    logits = random_logits(N, V)
    logits[1], logits[3, 2] = junk, junk
    loss, gradient = with_gradient(logits, target, reduction=reduction)
    expected, slopes = with_gradient(logits[kept], alone, reduction=reduction)
    torch.testing.assert_close(loss[kept] if reduction == "none" else loss, expected, **EXACT)
    torch.testing.assert_close(gradient[kept], slopes, **EXACT)
    assert torch.equal(gradient[~kept], torch.zeros(3, V, dtype=torch.float64))
    if reduction == "none":
        assert torch.equal(loss[~kept], torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("ignore_index", [-1, 3])
def test_rows_ignored_by_another_id_contribute_nothing(ignore_index: int) -> None:
    logits, labels = random_logits(3, V), torch.tensor([0, ignore_index, 6])
    logits[1] = math.nan
    loss, gradient = with_gradient(logits, labels, ignore_index=ignore_index)
    torch.testing.assert_close(loss, F.cross_entropy(logits[::2], labels[::2]), **EXACT)
    assert bool(gradient.isfinite().all())
    assert torch.equal(gradient[1], torch.zeros(V, dtype=torch.float64))


NOTHING: dict[str, tuple[tuple[int, ...], ss.SoftTarget | Tensor]] = {
    "all ignored": ((3, V), torch.full((3,), EMPTY)),
    "no rows": ((0, V), torch.zeros(0, dtype=torch.long)),
    "no rows in a batch": ((2, 0, V), torch.zeros(2, 0, dtype=torch.long)),
    "no dense rows": ((0, V), ss.SoftTarget.from_dense(torch.zeros(0, V))),
    "no slots": ((3, V), ss.SoftTarget(torch.zeros(3, 0, dtype=torch.long), torch.zeros(3, 0))),
    "empty slots": ((3, V), ss.SoftTarget(torch.full((3, 2), EMPTY), torch.ones(3, 2))),
    "empty rows": (
        (3, V),
        ss.SoftTarget(
            torch.full((3, 1), EMPTY),
            torch.ones(3, 1),
            (Rows(DenseTable.of(torch.ones(2, V)), torch.full((3, 2), -1), torch.ones(3, 2)),),
        ),
    ),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("case", NOTHING)
def test_nothing_costs_nothing(case: str, reduction: str) -> None:
    shape, target = NOTHING[case]
    loss, gradient = with_gradient(torch.full(shape, math.nan, dtype=torch.float64), target, reduction=reduction)
    assert torch.equal(loss, torch.zeros(shape[:-1] if reduction == "none" else (), dtype=torch.float64))
    assert torch.equal(gradient, torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("table", ["dense", "one row", "sparse", "similarity"])
def test_a_table_that_is_not_pointed_at_adds_nothing(table: str) -> None:
    logits, row = random_logits(N, V), part_of(table).rows[0]
    nowhere = Rows(row.table, torch.zeros(N, 0, dtype=torch.long), torch.zeros(N, 0, dtype=torch.float64))
    labels = torch.arange(N)
    target = ss.SoftTarget(labels.unsqueeze(-1), torch.ones(N, 1, dtype=torch.float64), (nowhere,))
    torch.testing.assert_close(ss.cross_entropy(logits, target), F.cross_entropy(logits, labels), **EXACT)


HALVES = [0.5, 0.5, 0.0, 0.0]
"""Mass over four tokens: of these, tests forbid token 3 (no mass) or token 1 (half of it)."""


def pointing_at(table: RowTable, weight: float = 1.0, index: int = 0) -> ss.SoftTarget:
    none = torch.full((1, 1), EMPTY)
    rows = Rows(table, torch.tensor([[index]]), doubles([[weight]]))
    return ss.SoftTarget(none, torch.ones(1, 1, dtype=torch.float64), (rows,))


HALF_TARGETS: dict[str, ss.SoftTarget] = {
    "slots": ss.SoftTarget(torch.tensor([[0, 1, 3, EMPTY]]), doubles([[0.5, 0.5, 0.0, 1.0]])),
    "dense": pointing_at(DenseTable.of(doubles([[0.0] * 4, HALVES])), index=1),
    "one row": pointing_at(DenseTable.of(doubles([HALVES]))),
    "sparse": pointing_at(
        SparseTable(torch.tensor([[3, 3, 3], [0, 1, 3]]), doubles([[1, 1, 1], [0.5, 0.5, 0]]), 4), 1, 1
    ),
    "from dense": ss.SoftTarget.from_dense(doubles([HALVES])),
    "from top-k": ss.SoftTarget.from_topk(
        torch.tensor([[0, 1, 3]]), doubles([[math.log(0.5), math.log(0.5), -math.inf]])
    ),
    "from top-k, scaled": ss.SoftTarget.from_topk(
        torch.tensor([[0, 1]]), doubles([[math.log(0.2), math.log(0.2)]]), tail="renormalise"
    ),
}


@pytest.mark.parametrize("kind", HALF_TARGETS)
def test_a_token_without_mass_may_be_impossible(kind: str) -> None:
    logits = doubles([[0.3, -1.2, 0.8, -math.inf]])
    loss, gradient = with_gradient(logits, HALF_TARGETS[kind])
    torch.testing.assert_close(loss, doubles(oracle_loss(logits[0].tolist(), HALVES)), **EXACT)
    torch.testing.assert_close(gradient, doubles([oracle_gradient(logits[0].tolist(), HALVES)]), **EXACT)


@pytest.mark.parametrize("kind", HALF_TARGETS)
def test_a_token_with_mass_that_is_impossible_costs_infinity(kind: str) -> None:
    logits = doubles([[0.3, -math.inf, 0.8, -math.inf]])
    loss, gradient = with_gradient(logits, HALF_TARGETS[kind])
    assert loss == math.inf
    torch.testing.assert_close(gradient, doubles([oracle_gradient(logits[0].tolist(), HALVES)]), **EXACT)


FLAT = DenseTable.of(torch.full((1, 4), 0.25, dtype=torch.float64))
FLATS = DenseTable.of(torch.full((2, 4), 0.25, dtype=torch.float64))
SPARSE_FLAT = SparseTable(torch.arange(4).view(1, 4), torch.full((1, 4), 0.25, dtype=torch.float64), 4)


@pytest.mark.parametrize(("weight", "index"), [(0.0, 0), (1.0, -1)], ids=["weight 0", "empty"])
@pytest.mark.parametrize("table", [FLAT, FLATS, SPARSE_FLAT], ids=["one row", "dense", "sparse"])
def test_a_silent_row_may_be_impossible(table: RowTable, weight: float, index: int) -> None:
    logits, row = doubles([[0.3, -1.2, 0.8, -math.inf]]), pointing_at(table, weight, index).rows
    target = ss.SoftTarget(torch.tensor([[1]]), torch.ones(1, 1, dtype=torch.float64), row)
    loss, gradient = with_gradient(logits, target)
    mass = [0.0, 1.0, 0.0, 0.0]
    torch.testing.assert_close(loss, doubles(oracle_loss(logits[0].tolist(), mass)), **EXACT)
    torch.testing.assert_close(gradient, doubles([oracle_gradient(logits[0].tolist(), mass)]), **EXACT)


def test_a_sure_teacher_has_no_tail() -> None:
    logits = doubles([[0.3, -1.2, 0.8, -math.inf]])
    target = ss.SoftTarget.from_topk(torch.tensor([[1]]), doubles([[0.0]]), tail="uniform", vocab_size=4)
    expected = oracle_loss(logits[0].tolist(), [0.0, 1.0, 0.0, 0.0])
    torch.testing.assert_close(ss.cross_entropy(logits, target), doubles(expected), **EXACT)


@pytest.mark.parametrize("mass", [0.0, 0.4, 1.0, 3.5, -0.7])
def test_one_token_has_no_cost(mass: float) -> None:
    logits = random_logits(3, 1)
    loss, gradient = with_gradient(logits, ss.SoftTarget(torch.zeros(3, 1, dtype=torch.long), torch.full((3, 1), mass)))
    torch.testing.assert_close(loss, torch.zeros((), dtype=torch.float64), **EXACT)
    torch.testing.assert_close(gradient, torch.zeros(3, 1, dtype=torch.float64), **EXACT)
