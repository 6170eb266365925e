"""Which targets the loss kernels serve: up to their limits and no further; the rest is plain torch's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from seqsmooth.ops.cross_entropy import Job, losses
from seqsmooth.ops.kernels.sorted_target import distinct, fitting, sort_parts
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, RowTable, SparseTable, UniformTable

V = 600
DENSE = DenseTable.of(torch.full((1, V), 1 / V))
LAW = SimilarityTable(torch.eye(V, 8) + 1, torch.ones(V, dtype=torch.bool), 0.3)


def lists(length: int, *, apart: bool = False, rows: int = 2) -> SparseTable:
    return SparseTable(torch.arange(length).expand(rows, -1), torch.ones(rows, length), V, distinct=apart)


def some(slots: int, *tables: RowTable, width: int = 1) -> SoftTarget:
    """A target of one position with so many slots, and `width` rows of each table."""
    rows = (Rows(table, torch.zeros(1, width, dtype=torch.long), torch.ones(1, width)) for table in tables)
    return SoftTarget(torch.zeros(1, slots, dtype=torch.long), torch.ones(1, slots), tuple(rows))


@pytest.mark.parametrize(
    ("served", "refused"),
    [
        pytest.param(some(128), some(129), id="slots"),
        pytest.param(some(1, DENSE, width=64), some(1, DENSE, width=65), id="rows of a table"),
        pytest.param(some(1, DENSE, DENSE), some(1, DENSE, DENSE, DENSE), id="dense tables"),
        pytest.param(some(1, UniformTable(V, (0, 1, 2, 3))), some(1, UniformTable(V, (0, 1, 2, 3, 4))), id="left out"),
        pytest.param(some(1, UniformTable(V)), some(1, UniformTable(V), UniformTable(V)), id="backgrounds"),
        pytest.param(some(8, lists(120)), some(9, lists(120)), id="slots and lists"),
        pytest.param(some(8, lists(504, apart=True)), some(8, lists(505, apart=True)), id="lists that are sets"),
        pytest.param(some(8, lists(200, apart=True)), some(9, lists(200, apart=True)), id="slots beside sets"),
        pytest.param(some(1, lists(500, rows=1), DENSE), some(1, lists(500)), id="a long list is a table"),
        pytest.param(some(32, LAW), some(33, LAW), id="slots beside a law"),
        pytest.param(some(1, LAW, DENSE), some(1, LAW, DENSE, DENSE), id="tables beside a law"),
        pytest.param(some(1, LAW), some(1, LAW, lists(4)), id="lists beside a law"),
        pytest.param(some(1, LAW), some(1, replace(LAW, tau=0.0099)), id="a sharp law"),
        pytest.param(some(1, LAW), some(1, replace(LAW, units=LAW.units.double())), id="a law in double precision"),
    ],
)
def test_limits(served: SoftTarget, refused: SoftTarget) -> None:
    assert fitting(served)
    assert not fitting(refused)


def test_parts_go_by_kind() -> None:
    long, short = lists(65, rows=1), lists(64, rows=1)
    parts = sort_parts(some(1, UniformTable(V), long, short, LAW))
    assert parts is not None
    assert parts.uniform is not None
    assert parts.uniform.table.size == V
    assert [row.table for row in parts.dense] == [long]
    assert parts.sparse is not None
    assert parts.sparse.table is short
    assert parts.law is not None
    assert parts.law.table is LAW


def test_tokens_that_a_background_leaves_out_may_be_listed_too() -> None:
    apart = lists(20, apart=True)
    for uniform, expected in ((UniformTable(V), True), (UniformTable(V, (3,)), False)):
        target = some(1, apart, uniform)
        parts = sort_parts(target)
        assert parts is not None
        assert distinct(target, parts) is expected


def test_what_is_refused_is_left_to_plain_torch(kernels: torch.device) -> None:
    many = SoftTarget(torch.zeros(2, 200, dtype=torch.long, device=kernels), torch.rand(2, 200, device=kernels))
    logits = torch.randn(2, 5, device=kernels)
    expected = -many.weights.sum(-1) * logits.log_softmax(-1)[:, 0]
    torch.testing.assert_close(losses(logits, Job(many)).smoothed, expected)
    learnt = SoftTarget(many.ids[:, :1], torch.rand(2, 1, device=kernels, requires_grad=True))
    assert not fitting(learnt)
    with torch.no_grad():
        assert fitting(learnt)
    (slope,) = torch.autograd.grad(losses(logits, Job(learnt)).smoothed.sum(), learnt.weights)
    torch.testing.assert_close(slope, -logits.log_softmax(-1)[:, :1])
