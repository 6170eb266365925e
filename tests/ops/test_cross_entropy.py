"""The heart against loops over tokens and against torch's own loss on dense targets."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.ops.cross_entropy import Job, losses
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, SparseTable, Table

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

    def table(self, table: Table, full: list[list[float]], index: list[list[int]], weights: list[list[float]]) -> Part:
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


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("ignore_index", [-100, -1, 3])
@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (3, 1, 4), (1, 1, 1, 2)])
def test_labels_are_those_of_torch(shape: tuple[int, ...], ignore_index: int, reduction: str) -> None:
    logits = random_logits(*shape, V, seed=len(shape))
    labels = torch.randint(V, shape, generator=torch.Generator().manual_seed(1)).reshape(-1)
    labels[labels == 3] = 4
    labels[1::2] = ignore_index
    leaf = logits.clone().requires_grad_()
    expected = F.cross_entropy(leaf.reshape(-1, V), labels, ignore_index=ignore_index, reduction=reduction)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), leaf)
    loss, gradient = with_gradient(logits, labels.reshape(shape), ignore_index=ignore_index, reduction=reduction)
    assert loss.shape == (shape if reduction == "none" else ())
    torch.testing.assert_close(loss.reshape(-1), expected.detach().reshape(-1), **EXACT)
    torch.testing.assert_close(gradient, expected_gradient, **EXACT)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_any_whole_type(dtype: torch.dtype) -> None:
    logits, labels = random_logits(3, 200), torch.tensor([0, 156, 199])
    torch.testing.assert_close(ss.cross_entropy(logits, labels.to(dtype)), F.cross_entropy(logits, labels), **EXACT)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_dense_probabilities_are_those_of_torch(shape: tuple[int, ...], reduction: str) -> None:
    logits = random_logits(*shape, V)
    probabilities = random_logits(*shape, V, seed=1).softmax(-1)
    leaf = logits.clone().requires_grad_()
    expected = F.cross_entropy(leaf.reshape(-1, V), probabilities.reshape(-1, V), reduction=reduction)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), leaf)
    loss, gradient = with_gradient(logits, ss.SoftTarget.from_dense(probabilities), reduction=reduction)
    assert loss.shape == (shape if reduction == "none" else ())
    torch.testing.assert_close(loss.reshape(-1), expected.detach().reshape(-1), **EXACT)
    torch.testing.assert_close(gradient, expected_gradient, **EXACT)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_label_smoothing_is_that_of_torch(epsilon: float, reduction: str) -> None:
    logits, labels = random_logits(2, 3, V), torch.tensor([[0, EMPTY, 6], [3, 3, EMPTY]])
    uniform = DenseTable.of(torch.full((1, V), 1 / V, dtype=torch.float64))
    index = torch.zeros(2, 3, 1, dtype=torch.long)
    background = Rows(uniform, index, torch.full((2, 3, 1), epsilon, dtype=torch.float64))
    slots = torch.full((2, 3, 1), 1 - epsilon, dtype=torch.float64)
    target = ss.SoftTarget(labels.unsqueeze(-1), slots, (background,)).where(labels != EMPTY)
    expected = F.cross_entropy(logits.view(-1, V), labels.view(-1), reduction=reduction, label_smoothing=epsilon)
    loss = ss.cross_entropy(logits, target, reduction=reduction)
    torch.testing.assert_close(loss.reshape(-1), expected.reshape(-1), **EXACT)


@pytest.mark.parametrize("kind", [*ADD, "all"])
def test_any_target_is_its_dense_mass(kind: str) -> None:
    logits, part = random_logits(N, V), part_of(kind)
    loss, gradient = with_gradient(logits, part.target(), reduction="none")
    expected = [oracle_loss(row, mass) for row, mass in zip(logits.tolist(), part.mass, strict=True)]
    slopes = [oracle_gradient(row, mass) for row, mass in zip(logits.tolist(), part.mass, strict=True)]
    torch.testing.assert_close(loss, doubles(expected), **EXACT)
    torch.testing.assert_close(gradient, doubles(slopes), **EXACT)


@pytest.mark.parametrize("kind", [*ADD, "all"])
def test_reductions_agree(kind: str) -> None:
    logits, target = random_logits(N, V), part_of(kind).target().where(torch.arange(N) != 1)
    rows = ss.cross_entropy(logits, target, reduction="none").tolist()
    assert rows[1] == 0
    torch.testing.assert_close(ss.cross_entropy(logits, target, reduction="sum"), doubles(math.fsum(rows)), **EXACT)
    torch.testing.assert_close(ss.cross_entropy(logits, target), doubles(math.fsum(rows) / (N - 1)), **EXACT)


def test_many_leading_dimensions() -> None:
    part = part_of("all")
    flat, logits = part.target(), random_logits(N, V)

    def shaped(values: Tensor) -> Tensor:
        return values.reshape(1, N, 1, values.shape[-1])

    rows = tuple(Rows(row.table, shaped(row.index), shaped(row.weights)) for row in flat.rows)
    target = ss.SoftTarget(shaped(flat.ids), shaped(flat.weights), rows)
    loss = ss.cross_entropy(shaped(logits), target, reduction="none")
    assert loss.shape == (1, N, 1)
    torch.testing.assert_close(loss.view(N), ss.cross_entropy(logits, flat, reduction="none"), **EXACT)


def test_strides_do_not_matter() -> None:
    logits, labels = random_logits(V, 4, 3), torch.randint(V, (3, 4), generator=torch.Generator().manual_seed(2))
    turned = logits.permute(2, 1, 0)
    assert not turned.is_contiguous()
    torch.testing.assert_close(
        ss.cross_entropy(turned, labels), F.cross_entropy(turned.reshape(-1, V), labels.view(-1)), **EXACT
    )


def test_nothing_is_mutated() -> None:
    logits, target = random_logits(N, V), part_of("all").target()
    tensors = [logits, target.ids, target.weights, *(t for row in target.rows for t in (row.index, row.weights))]
    before = [tensor.clone() for tensor in tensors]
    with_gradient(logits, target)
    for tensor, old in zip(tensors, before, strict=True):
        torch.testing.assert_close(tensor, old, rtol=0, atol=0, equal_nan=True)


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


def pointing_at(table: Table, weight: float = 1.0, index: int = 0) -> ss.SoftTarget:
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
def test_a_silent_row_may_be_impossible(table: Table, weight: float, index: int) -> None:
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


@pytest.mark.parametrize("kind", ["labels", *ADD, "all"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_sums_are_wide(dtype: torch.dtype, kind: str) -> None:
    logits = (random_logits(N, V) + 40).to(dtype)
    labels = torch.tensor([0, 2, EMPTY, 6, 1])
    target = labels if kind == "labels" else part_of(kind).target()
    mass = F.one_hot(labels.clamp_min(0), V).double() * (labels >= 0).unsqueeze(-1)
    mass = mass if kind == "labels" else doubles(part_of(kind).mass)
    leaf = logits.clone().requires_grad_()
    loss = ss.cross_entropy(leaf, target, reduction="none")
    loss.sum().backward()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert leaf.grad is not None
    assert leaf.grad.dtype == dtype
    rows = list(zip(logits.double().tolist(), mass.tolist(), strict=True))
    near = 1e-12 if dtype == torch.float64 else 1e-6
    losses = doubles([oracle_loss(row, q) for row, q in rows])
    # c * lse - <q, z> subtracts numbers of the size of the logits, here 40, so that is what rounding is relative to.
    torch.testing.assert_close(loss.double(), losses, rtol=near, atol=40 * near)
    slopes = doubles([oracle_gradient(row, q) for row, q in rows])
    torch.testing.assert_close(leaf.grad.double(), slopes, rtol=torch.finfo(dtype).eps, atol=10 * near)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_equal_singles_on_the_rounded_logits(dtype: torch.dtype) -> None:
    logits, labels = random_logits(4, 300).to(dtype), torch.tensor([0, 299, 5, 17])
    loss = ss.cross_entropy(logits, labels)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, F.cross_entropy(logits.float(), labels), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", ["dense", "one row", "sparse", "slots"])
def test_targets_in_half_precision_lose_nothing_more(form: str, dtype: torch.dtype) -> None:
    size = 300
    mass = random_logits(2, size, seed=3).softmax(-1).to(dtype)
    tokens, empty = torch.arange(size).expand(2, size), torch.full((2, 1), EMPTY)
    pair = torch.tensor([[0.3, 0.4037], [0.1, 0.7]]).to(dtype)
    index = torch.zeros(2, 2, dtype=torch.long) if form == "one row" else torch.tensor([[0, 1], [1, 1]])
    if form == "slots":
        target, full = ss.SoftTarget(tokens, mass), mass.double()
    else:
        table = (
            SparseTable(tokens, mass, size)
            if form == "sparse"
            else DenseTable.of(mass[: 1 if form == "one row" else 2])
        )
        target = ss.SoftTarget(empty, torch.ones(2, 1, dtype=dtype), (Rows(table, index, pair),))
        full = (pair.double().unsqueeze(-1) * mass.double()[index]).sum(1)
    logits = random_logits(2, size).float()
    loss = ss.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(loss.double(), -(full * logits.double().log_softmax(-1)).sum(-1), rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_in_half_precision(dtype: torch.dtype) -> None:
    logits, probabilities = (
        random_logits(4, 300).float(),
        (0.7037 * random_logits(4, 300, seed=3).softmax(-1)).to(dtype),
    )
    expected = F.cross_entropy(logits.double(), probabilities.double())
    loss = ss.cross_entropy(logits, ss.SoftTarget.from_dense(probabilities))
    torch.testing.assert_close(loss.double(), expected, rtol=2e-6, atol=0)


@pytest.mark.parametrize("items", [3, 7.5, torch.tensor(11), torch.tensor(2.5), torch.tensor([4])])
def test_num_items_is_the_divisor(items: float | Tensor) -> None:
    logits, target = random_logits(N, V), part_of("all").target()
    total = ss.cross_entropy(logits, target, reduction="sum")
    torch.testing.assert_close(ss.cross_entropy(logits, target, num_items=items), total / float(items), **EXACT)


@pytest.mark.parametrize("sizes", [[2, 3], [1, 1, 1, 1, 1], [0, 5], [4, 1]])
def test_micro_batches_sum_to_the_whole(sizes: list[int]) -> None:
    logits = random_logits(N, V)
    target = part_of("all").target().where(torch.tensor([True, True, False, True, True]))
    whole, gradient = with_gradient(logits, target)
    losses, gradients, start = [], [], 0
    for size in sizes:
        part = slice(start, start + size)
        loss, slope = with_gradient(logits[part], target[part], num_items=4)
        losses.append(loss)
        gradients.append(slope)
        start += size
    torch.testing.assert_close(torch.stack(losses).sum(), whole, **EXACT)
    torch.testing.assert_close(torch.cat(gradients), gradient, **EXACT)


@pytest.mark.parametrize("mass", [0.0, 0.4, 1.0, 3.5, -0.7])
def test_one_token_has_no_cost(mass: float) -> None:
    logits = random_logits(3, 1)
    loss, gradient = with_gradient(logits, ss.SoftTarget(torch.zeros(3, 1, dtype=torch.long), torch.full((3, 1), mass)))
    torch.testing.assert_close(loss, torch.zeros((), dtype=torch.float64), **EXACT)
    torch.testing.assert_close(gradient, torch.zeros(3, 1, dtype=torch.float64), **EXACT)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_two_tokens_are_logistic(share: float) -> None:
    gaps = [-30.0, -1.0, 0.0, 2.5, 40.0]
    logits = doubles([[1.0, 1.0 + gap] for gap in gaps])
    target = ss.SoftTarget.from_dense(doubles([[1 - share, share]] * len(gaps)))
    expected = [(1 - share) * math.log1p(math.exp(gap)) + share * math.log1p(math.exp(-gap)) for gap in gaps]
    torch.testing.assert_close(ss.cross_entropy(logits, target, reduction="none"), doubles(expected), **EXACT)


@pytest.mark.parametrize("kind", [*ADD, "all"])
def test_derivatives(kind: str) -> None:
    target = part_of(kind).target().where(torch.arange(N) != 3)
    leaf = random_logits(N, V).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: ss.cross_entropy(z, target), (leaf,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda z: ss.cross_entropy(z, target), (leaf,))


@pytest.mark.parametrize("kind", ["labels", "all"])
def test_functional_transforms(kind: str) -> None:
    target = torch.tensor([0, EMPTY, 6, 2, 2]) if kind == "labels" else part_of(kind).target()
    logits = random_logits(3, N, V)
    each = [with_gradient(logits[k], target)[1] for k in range(3)]
    torch.testing.assert_close(torch.func.grad(lambda z: ss.cross_entropy(z, target))(logits[0]), each[0], **EXACT)
    mapped = torch.func.vmap(torch.func.grad(lambda z: ss.cross_entropy(z, target)))(logits)
    torch.testing.assert_close(mapped, torch.stack(each), **EXACT)
    jacobian = torch.func.jacrev(lambda z: ss.cross_entropy(z, target, reduction="none"))(logits[0])
    _, slopes = with_gradient(logits[0], target, reduction="none")
    expected = torch.zeros(N, N, V, dtype=torch.float64)
    expected[range(N), range(N)] = slopes
    torch.testing.assert_close(jacobian, expected, **EXACT)


def test_the_hessian_is_that_of_log_sum_exp() -> None:
    logits = random_logits(1, V)
    target = ss.SoftTarget(torch.tensor([[1, 2]]), doubles([[0.4, 1.1]]))
    p = logits[0].softmax(-1)
    hessian = torch.func.hessian(lambda z: ss.cross_entropy(z, target))(logits).view(V, V)
    torch.testing.assert_close(hessian, 1.5 * (p.diag() - torch.outer(p, p)), **EXACT)


def test_entropy_and_likelihood_of_each_row() -> None:
    logits = random_logits(N, V)
    logits[0, 3] = -math.inf
    labels, weights = torch.tensor([1, EMPTY, 6, EMPTY, 0]), doubles([0.5, 2.0, 0.0, 1.0, 3.0])
    target = ss.SoftTarget.from_labels(torch.tensor([1, 5, 2, EMPTY, 0]), dtype=torch.float64)
    leaf = logits.clone().requires_grad_()
    found = losses(leaf, Job(target, labels, weights))
    assert not found.nll.requires_grad
    for n, row in enumerate(logits.tolist()):
        top = max(row)
        total = math.fsum(math.exp(z - top) for z in row)
        logs = [z - top - math.log(total) for z in row]
        entropy = -math.fsum(math.exp(log) * log for log in logs if log > -math.inf)
        label, own = int(labels[n]), int(target.ids[n])
        plain = -logs[own] - float(weights[n]) * entropy if own != EMPTY else 0.0
        torch.testing.assert_close(found.smoothed[n].detach(), doubles(plain), **EXACT)
        torch.testing.assert_close(found.nll[n], doubles(0.0 if label == EMPTY else -logs[label]), **EXACT)
    (gradient,) = torch.autograd.grad(found.smoothed.sum(), leaf)
    assert bool(gradient.isfinite().all())
    assert torch.autograd.gradcheck(
        lambda z: losses(z, Job(target, entropy_weights=weights)).smoothed, (random_logits(N, V).requires_grad_(),)
    )


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
