"""Targets beside the mass that loops say they have, and the loss of a mass by loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, RowTable, SparseTable

N, V = 5, 7
EMPTY = -100
REDUCTIONS = ["mean", "sum", "none"]
EXACT = {"rtol": 1e-12, "atol": 1e-12}
VECTORS = [
    [1.0, 0.0, 2.0],
    [0.5, 1.0, -1.0],
    [-1.0, 0.2, 0.3],
    [0.1, 0.1, 0.9],
    [2.0, 2.0, 1.0],
    [-0.5, 1, 0],
    [1, -2, 0],
]


def doubles(values: list) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random_logits(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(*shape, dtype=torch.float64, generator=generator)


def oracle_loss(logits: list[float], mass: list[float]) -> float:
    """- sum_v q(v) ln p(v); a token of mass 0 is left out, one of probability 0 costs infinity."""
    finite = [z for z in logits if z > -math.inf]
    top = max(finite)
    log_sum = top + math.log(math.fsum(math.exp(z - top) for z in finite))
    return math.fsum(-q * (z - log_sum) for q, z in zip(mass, logits, strict=True) if q != 0)


def oracle_gradient(logits: list[float], mass: list[float]) -> list[float]:
    """c softmax(z) - q."""
    top = max(logits)
    shares = [math.exp(z - top) for z in logits]
    total = math.fsum(shares)
    return [math.fsum(mass) * share / total - q for share, q in zip(shares, mass, strict=True)]


def similarity_row(token: int, tau: float) -> list[float]:
    def cosine(a: list[float], b: list[float]) -> float:
        product = math.fsum(x * y for x, y in zip(a, b, strict=True))
        return product / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))

    scores = [math.exp(cosine(vector, VECTORS[token]) / tau) for vector in VECTORS]
    return [score / math.fsum(scores) for score in scores]


class Part:
    """One part of a target for N positions beside the mass that loops say it has."""

    def __init__(self) -> None:
        self.mass = [[0.0] * V for _ in range(N)]
        self.ids: list[list[int]] = [[] for _ in range(N)]
        self.weights: list[list[float]] = [[] for _ in range(N)]
        self.rows: list[Rows] = []

    def slots(self, ids: list[list[int]], weights: list[list[float]]) -> Part:
        for n in range(N):
            self.ids[n] += ids[n]
            self.weights[n] += weights[n]
            for token, weight in zip(ids[n], weights[n], strict=True):
                if token != EMPTY:
                    self.mass[n][token] += weight
        return self

    def table(
        self, table: RowTable, full: list[list[float]], index: list[list[int]], weights: list[list[float]]
    ) -> Part:
        self.rows.append(Rows(table, torch.tensor(index), doubles(weights)))
        for n in range(N):
            for row, weight in zip(index[n], weights[n], strict=True):
                if row >= 0:
                    self.mass[n] = [q + weight * share for q, share in zip(self.mass[n], full[row], strict=True)]
        return self

    def target(self) -> ss.SoftTarget:
        ids = torch.tensor(self.ids, dtype=torch.int64).reshape(N, -1)
        return ss.SoftTarget(ids, doubles(self.weights).reshape(N, -1), tuple(self.rows))


def add_slots(part: Part) -> Part:
    ids = [[1, 1, EMPTY], [0, 6, 3], [EMPTY, EMPTY, 2], [4, 4, 4], [5, EMPTY, 0]]
    weights = [[0.3, 0.4, 9.0], [1.0, -0.25, 0.5], [math.nan, 7.0, 2.5], [0.2, -0.1, 0.6], [1.0, math.inf, 0.0]]
    return part.slots(ids, weights)


def add_dense(part: Part) -> Part:
    full = [[(v + 1) / 28 for v in range(V)], [0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0], [0.4, 0, 0, -0.1, 0, 0, 0.2]]
    index, weights = [[0, 2], [1, 1], [-1, 0], [2, 0], [-1, 1]], [[0.5, 0.5], [0.2, 0.3], [8.0, 1.5], [-1, 1], [3, 0.7]]
    return part.table(DenseTable.of(doubles(full)), full, index, weights)


def add_one_row(part: Part) -> Part:
    full = [[0.0, 0.1, 0.2, 0.3, 0.0, 0.4, 0.5]]
    return part.table(
        DenseTable.of(doubles(full)), full, [[0], [0], [0], [0], [0]], [[0.5], [1.0], [2.0], [0.1], [-0.3]]
    )


def add_sparse(part: Part) -> Part:
    ids, shares = [[0, 3, 3], [6, 1, 0], [2, 4, 5]], [[0.5, 0.25, 0.25], [0.9, 0.3, 0.0], [0.1, 0.2, 0.3]]
    full = [[0.0] * V for _ in ids]
    for g, (row, of_row) in enumerate(zip(ids, shares, strict=True)):
        for token, share in zip(row, of_row, strict=True):
            full[g][token] += share
    index, weights = [[0, 1], [2, 2], [1, -1], [-1, 0], [2, 1]], [[1.0, 0.5], [0.5, 0.25], [1, 9], [9, 0.3], [0.6, 2]]
    return part.table(SparseTable(torch.tensor(ids), doubles(shares), V), full, index, weights)


def add_similarity(part: Part) -> Part:
    units = F.normalize(doubles(VECTORS), dim=-1)
    table = SimilarityTable(units, torch.ones(V, dtype=torch.bool), 0.6)
    full = [similarity_row(token, 0.6) for token in range(V)]
    return part.table(
        table, full, [[0, 1], [2, 3], [4, -1], [5, 5], [6, 0]], [[0.5, 1], [2, 1], [1, 4], [0.1, 0.2], [1, 1]]
    )


ADD: dict[str, Callable[[Part], Part]] = {
    "slots": add_slots,
    "dense": add_dense,
    "one row": add_one_row,
    "sparse": add_sparse,
    "similarity": add_similarity,
}


def part_of(kind: str) -> Part:
    """Slots and rows of one kind, or of all kinds together."""
    part = Part()
    for name, add in ADD.items():
        if kind in (name, "all"):
            part = add(part)
    return part


def with_gradient(logits: Tensor, target: ss.SoftTarget | Tensor, **options: object) -> tuple[Tensor, Tensor]:
    leaf = logits.detach().clone().requires_grad_()
    loss = ss.cross_entropy(leaf, target, **options)
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), gradient
