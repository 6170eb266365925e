"""The loss kernels against plain torch in double precision, forward and backward."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import dispatch
from seqsmooth.ops.cross_entropy import Job, RowLosses, losses, plain_losses
from seqsmooth.ops.head import linear_losses
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, SparseTable, UniformTable

KINDS = ["labels", "slots", "uniform", "dense", "two-tables", "lists", "long-list", "everything", "law", "law-and-more"]


def unit_rows(count: int, dimension: int, device: torch.device) -> Tensor:
    return F.normalize(torch.randn(count, dimension, device=device), dim=-1)


def some_target(kind: str, rows: int, vocab_size: int, device: torch.device) -> SoftTarget:
    """A target of a kind, with slots named twice, empty slots and rows, and an ignored row if there are three."""

    def numbers(width: int, below: int) -> Tensor:
        drawn = torch.randint(below, (rows, width), device=device)
        return torch.where(torch.rand(rows, width, device=device) < 0.2, -1, drawn)

    def part(table: object, width: int) -> Rows:
        return Rows(table, numbers(width, table.size), torch.rand(rows, width, device=device))

    slots = {"labels": 1, "dense": 1, "uniform": 1, "law": 1, "long-list": 0}.get(kind, 5)
    ids = torch.randint(min(vocab_size, 9), (rows, slots), device=device)
    ids = torch.where(torch.rand(rows, slots, device=device) < 0.2, IGNORED, ids) if slots > 1 else ids
    weights = torch.rand(rows, slots, device=device, dtype=torch.float64)
    values = torch.rand(7, vocab_size, device=device).masked_fill_(torch.rand(7, vocab_size, device=device) < 0.3, 0)
    dense = DenseTable.of(values)
    sparse = SparseTable(
        torch.randint(vocab_size, (4, 6), device=device), torch.rand(4, 6, device=device), vocab_size
    )
    long = SparseTable(torch.randint(vocab_size, (1, 90), device=device), torch.rand(1, 90, device=device), vocab_size)
    uniform = UniformTable(vocab_size, (0, vocab_size - 1) if vocab_size > 3 else ())
    known = torch.rand(vocab_size, device=device) < 0.8
    counts = torch.randint(50, (vocab_size,), device=device).float()
    law = SimilarityTable(unit_rows(vocab_size, 20, device), known, 0.3)
    frequent = replace(law, beta=0.2, counts=counts)
    chosen: dict[str, tuple[Rows, ...]] = {
        "uniform": (part(uniform, 1),),
        "dense": (part(dense, 1),),
        "two-tables": (part(dense, 6), part(DenseTable.of(values[:1]), 1)),
        "lists": (part(sparse, 2),),
        "long-list": (part(long, 1),),
        "everything": (part(dense, 3), part(uniform, 2), part(sparse, 1), part(DenseTable.of(values[2:]), 2)),
        "law": (part(law, 1),),
        "law-and-more": (part(frequent, 3), part(uniform, 1), part(DenseTable.of(values[:1]), 1)),
    }
    target = SoftTarget(ids, weights, chosen.get(kind, ()))
    return target.where(torch.arange(rows, device=device) != 2)


def some_job(kind: str, rows: int, vocab_size: int, device: torch.device, *, entropy: bool, reduced: bool) -> Job:
    labels = torch.randint(vocab_size, (rows,), device=device)
    labels = torch.where(torch.arange(rows, device=device) == 1, IGNORED, labels)
    weights = torch.rand(rows, device=device) if entropy else None
    target = some_target(kind, rows, vocab_size, device)
    items = torch.tensor(3, device=device) if reduced else None
    return Job(target, labels, weights, reduced=reduced, items=items, factor=0.5 if reduced else 1.0)


def in_double(job: Job) -> Job:
    """The same job for plain torch in double precision, its law read from the rounded embeddings of the kernels."""

    def wide(table: object) -> object:
        if isinstance(table, DenseTable):
            return DenseTable(table.values.double(), table.masses.double())
        if isinstance(table, SparseTable):
            return replace(table, weights=table.weights.double())
        if isinstance(table, SimilarityTable):
            counts = None if table.counts is None else table.counts.double()
            return replace(table, units=table.halves.double(), counts=counts)
        return table

    rows = tuple(Rows(wide(row.table), row.index, row.weights.double()) for row in job.target.rows)
    target = SoftTarget(job.target.ids, job.target.weights.double(), rows)
    weights = None if job.entropy_weights is None else job.entropy_weights.double()
    return replace(job, target=target, entropy_weights=weights)


def agree(job: Job, logits: Tensor, upstream: Tensor, tolerance: float) -> None:
    leaf = logits.clone().requires_grad_()
    found = losses(leaf, job)
    (gradient,) = torch.autograd.grad(found.smoothed, leaf, upstream)
    exact = logits.double().requires_grad_()
    expected = plain_losses(exact, in_double(job))
    (slope,) = torch.autograd.grad(expected.smoothed, exact, upstream.double())
    close = {"rtol": tolerance, "atol": tolerance * max(1.0, float(upstream.abs().max()))}
    torch.testing.assert_close(found.smoothed.double(), expected.smoothed, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.nll.double(), expected.nll, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.double(), slope, **close)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("vocab_size", [2, 37, 160])
def test_single_precision(kernels: torch.device, kind: str, entropy: bool, reduced: bool, vocab_size: int) -> None:
    torch.manual_seed(0)
    job = some_job(kind, 5, vocab_size, kernels, entropy=entropy, reduced=reduced)
    logits = 4 * torch.randn(5, vocab_size, device=kernels)
    upstream = torch.ones((), device=kernels) if reduced else torch.ones(5, device=kernels)
    agree(job, logits, upstream, 1e-5)
    agree(job, logits, 1.7 * upstream, 1e-5)
