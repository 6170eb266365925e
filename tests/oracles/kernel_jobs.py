"""Work for the loss kernels, with every kind of target, and the same work in double precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import dispatch
from seqsmooth.ops.cross_entropy import Job, RowLosses, losses, plain_losses
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, SetTable, SparseTable, UniformTable

KINDS = [
    "labels", "slots", "uniform", "dense", "rows of three", "two-tables", "lists", "sets", "long-list", "bits",
    "bits of one", "everything", "law", "law-and-more",
]  # fmt: skip


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
    sparse = SparseTable(torch.randint(vocab_size, (4, 6), device=device), torch.rand(4, 6, device=device), vocab_size)
    every = torch.stack([torch.randperm(vocab_size, device=device)[:150] for _ in range(4)])
    sets = SparseTable(every, torch.rand(every.shape, device=device), vocab_size, distinct=True)
    long = SparseTable(torch.randint(vocab_size, (1, 90), device=device), torch.rand(1, 90, device=device), vocab_size)
    inside = np.random.default_rng(vocab_size).random((3, vocab_size)) < 0.4
    bits = torch.from_numpy(np.packbits(inside, axis=1, bitorder="little")).to(device)
    some_sets = SetTable(bits, torch.from_numpy(inside.sum(1)).float().to(device), vocab_size)
    one_set = SetTable(bits[:1], some_sets.masses[:1], vocab_size)
    uniform = UniformTable(vocab_size, (0, vocab_size - 1) if vocab_size > 3 else ())
    known = torch.rand(vocab_size, device=device) < 0.8
    counts = torch.randint(50, (vocab_size,), device=device).float()
    law = SimilarityTable(unit_rows(vocab_size, 20, device), known, 0.3)
    frequent = replace(law, beta=0.2, counts=counts)
    chosen: dict[str, tuple[Rows, ...]] = {
        "uniform": (part(uniform, 1),),
        "dense": (part(dense, 1),),
        "rows of three": (part(dense, 1), part(DenseTable.of(values[2:]), 1), part(some_sets, 1)),
        "two-tables": (part(dense, 6), part(one_set, 1)),
        "lists": (part(sparse, 2),),
        "sets": (part(sets, 1),),
        "long-list": (part(long, 1),),
        "everything": (part(dense, 3), part(uniform, 2), part(sparse, 1), part(DenseTable.of(values[2:]), 2)),
        "law": (part(law, 1),),
        "law-and-more": (part(frequent, 3), part(uniform, 1), part(DenseTable.of(values[:1]), 1)),
        "bits": (part(some_sets, 1),),
        "bits of one": (part(one_set, 1),),
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


def in_double(job: Job, *, half: bool = False) -> Job:
    """The same job in double precision; for `half`, its law is that of embeddings rounded to fp16, as documented."""

    def wide(table: object) -> object:
        if isinstance(table, DenseTable):
            return DenseTable(table.values.double(), table.masses.double())
        if isinstance(table, SparseTable):
            return replace(table, weights=table.weights.double())
        if isinstance(table, SimilarityTable):
            counts = None if table.counts is None else table.counts.double()
            units = table.halves.units if half else table.units
            return replace(table, units=units.double(), counts=counts)
        return table

    rows = tuple(Rows(wide(row.table), row.index, row.weights.double()) for row in job.target.rows)
    target = SoftTarget(job.target.ids, job.target.weights.double(), rows)
    weights = None if job.entropy_weights is None else job.entropy_weights.double()
    return replace(job, target=target, entropy_weights=weights)


def loss_and_slope(leaf: Tensor, found: RowLosses, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (slope,) = torch.autograd.grad(found.smoothed, leaf, upstream.to(found.smoothed.dtype), retain_graph=True)
    return found.smoothed.detach().double(), found.nll.double(), slope.double()


def both(job: Job, logits: Tensor, upstream: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Loss, NLL and gradient by the kernels, and in double precision."""
    assert dispatch.uses_kernels(logits)
    leaf, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
    half = logits.dtype != torch.float32
    expected = loss_and_slope(exact, plain_losses(exact, in_double(job, half=half)), upstream)
    return loss_and_slope(leaf, losses(leaf, job), upstream), expected


def agree(job: Job, logits: Tensor, upstream: Tensor) -> None:
    for found, expected in zip(*both(job, logits, upstream), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(upstream.abs().max())))


def slack(dtype: torch.dtype) -> float:
    """How much worse than eager an error may be. Triton's interpreter cuts bf16 off instead of rounding it."""
    return 1.2 if torch.cuda.is_available() or dtype != torch.bfloat16 else 8.0


def rounded(job: Job) -> Job:
    """The job with the law as the kernels round it, so that eager torch is held to the same target."""

    def narrow(table: object) -> object:
        return replace(table, units=table.halves.units.float()) if isinstance(table, SimilarityTable) else table

    rows = tuple(Rows(narrow(row.table), row.index, row.weights) for row in job.target.rows)
    return replace(job, target=SoftTarget(job.target.ids, job.target.weights, rows))
