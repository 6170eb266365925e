"""The loss kernels against plain torch in double precision, forward and backward."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from seqsmooth.ops import dispatch
from seqsmooth.ops.cross_entropy import Job, RowLosses, losses, plain_losses
from seqsmooth.ops.head import linear_losses
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, SparseTable, UniformTable

pytest.importorskip("triton")
soft_cross_entropy = pytest.importorskip("seqsmooth.ops.kernels.soft_cross_entropy")
SIZES = [1, 2, 3, 31, 64, 129] + ([9488, 22822, 30000, 128256] if torch.cuda.is_available() else [])
KINDS = [
    "labels", "slots", "uniform", "dense", "two-tables", "lists", "sets", "long-list", "everything",
    "law", "law-and-more",
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
        "sets": (part(sets, 1),),
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
    assert dispatch.fused(logits)
    leaf, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
    half = logits.dtype != torch.float32
    expected = loss_and_slope(exact, plain_losses(exact, in_double(job, half=half)), upstream)
    return loss_and_slope(leaf, losses(leaf, job), upstream), expected


def agree(job: Job, logits: Tensor, upstream: Tensor) -> None:
    for found, expected in zip(*both(job, logits, upstream), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(upstream.abs().max())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("entropy", "reduced"), [(False, True), (True, False)])
def test_every_kind_of_target(kernels: torch.device, kind: str, entropy: bool, reduced: bool) -> None:
    torch.manual_seed(0)
    job = some_job(kind, 5, 37, kernels, entropy=entropy, reduced=reduced)
    logits = 4 * torch.randn(5, 37, device=kernels)
    upstream = torch.ones((), device=kernels) if reduced else torch.linspace(1, 2, 5, device=kernels)
    agree(job, logits, upstream)
    agree(job, logits, 1.7 * upstream)


@pytest.mark.parametrize("vocab_size", SIZES)
@pytest.mark.parametrize("kind", ["slots", "everything", "law-and-more"])
def test_odd_sizes(kernels: torch.device, kind: str, vocab_size: int) -> None:
    torch.manual_seed(vocab_size)
    job = some_job(kind, 3, vocab_size, kernels, entropy=False, reduced=True)
    agree(job, 4 * torch.randn(3, vocab_size, device=kernels), torch.ones((), device=kernels))


@pytest.mark.parametrize("kind", ["labels", "everything", "law"])
def test_several_blocks(kernels: torch.device, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soft_cross_entropy, "_tiling", lambda *_, **__: (32, 1))
    torch.manual_seed(0)
    job = some_job(kind, 4, 150, kernels, entropy=True, reduced=False)
    agree(job, 4 * torch.randn(4, 150, device=kernels), torch.ones(4, device=kernels))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entropy", [False, True])
def test_half_precision_is_as_good_as_eager(
    kernels: torch.device, kind: str, dtype: torch.dtype, entropy: bool
) -> None:
    torch.manual_seed(1)
    rows = 400 if kernels.type == "cuda" else 8
    job = some_job(kind, rows, 150, kernels, entropy=entropy, reduced=True)
    logits = (3 * torch.randn(rows, 150, device=kernels)).to(dtype)
    upstream = torch.ones((), device=kernels)
    found, expected = both(job, logits, upstream)
    eager_leaf = logits.clone().requires_grad_()
    eager = loss_and_slope(eager_leaf, plain_losses(eager_leaf, rounded(job)), upstream)
    for ours, theirs, exact in zip(found, eager, expected, strict=True):
        assert (ours - exact).norm() <= slack(dtype) * (theirs - exact).norm() + 1e-6 * exact.norm()


def slack(dtype: torch.dtype) -> float:
    """How much worse than eager an error may be. Triton's interpreter cuts bf16 off instead of rounding it."""
    return 1.2 if torch.cuda.is_available() or dtype != torch.bfloat16 else 8.0


def rounded(job: Job) -> Job:
    """The job with the law as the kernels round it, so that eager torch is held to the same target."""

    def narrow(table: object) -> object:
        return replace(table, units=table.halves.units.float()) if isinstance(table, SimilarityTable) else table

    rows = tuple(Rows(narrow(row.table), row.index, row.weights) for row in job.target.rows)
    return replace(job, target=SoftTarget(job.target.ids, job.target.weights, rows))


@pytest.mark.parametrize("kind", ["slots", "uniform", "two-tables", "law"])
@pytest.mark.parametrize(
    "shape", ["large", "shifted", "steep", "late-peak", "one-token", "minus-infinity", "nothing-but-minus-infinity"]
)
def test_extreme_logits(kernels: torch.device, kind: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soft_cross_entropy, "_tiling", lambda *_, **__: (32, 1))
    torch.manual_seed(2)
    logits = torch.randn(6, 100, device=kernels)
    if shape == "large":
        logits *= 1e4
    if shape == "shifted":
        logits += 1e4
    if shape == "steep":
        logits -= torch.arange(100, device=kernels) * 50
    if shape == "late-peak":
        logits[:, 90] += 1e3
    if shape == "one-token":
        logits[:, 5] += 80
    job = some_job(kind, 6, 100, kernels, entropy=False, reduced=False)
    if "infinity" in shape:  # where the target has no mass
        job = replace(job, target=SoftTarget(torch.full((6, 1), 40, device=kernels), torch.ones(6, 1, device=kernels)))
        logits[:, 50:] = -torch.inf
    if shape == "nothing-but-minus-infinity":
        logits[:, :32] = -torch.inf
        job = replace(job, labels=None)
    agree(job, logits, torch.ones(6, device=kernels))


def test_mass_on_what_is_impossible(kernels: torch.device) -> None:
    logits = torch.zeros(2, 8, device=kernels)
    logits[:, 3] = -torch.inf
    target = some_target("law", 2, 8, kernels)
    whole = SoftTarget(target.ids, target.weights, (replace(target.rows[0], index=torch.ones_like(target.ids)),))
    known = torch.ones(8, dtype=torch.bool, device=kernels)
    law = replace(whole.rows[0].table, known=known)
    whole = SoftTarget(whole.ids, whole.weights, (Rows(law, whole.rows[0].index, whole.rows[0].weights),))
    assert losses(logits, Job(whole)).smoothed.tolist() == [torch.inf, torch.inf]
    even = SoftTarget(whole.ids, whole.weights, (Rows(UniformTable(8), 0 * whole.ids, whole.weights),))
    assert losses(logits, Job(even)).smoothed.tolist() == [torch.inf, torch.inf]


def test_ignored_rows_may_hold_anything(kernels: torch.device) -> None:
    for kind in ("everything", "law-and-more"):
        job = some_job(kind, 5, 37, kernels, entropy=True, reduced=True)
        logits = torch.randn(5, 37, device=kernels)
        logits[2] = torch.nan
        leaf = logits.requires_grad_()
        found = losses(leaf, job)
        found.smoothed.backward()
        assert leaf.grad is not None
        assert bool(found.smoothed.isfinite())
        assert leaf.grad[2].tolist() == [0.0] * 37
        assert bool(leaf.grad.isfinite().all())


def test_no_rows(kernels: torch.device) -> None:
    leaf = torch.zeros(0, 5, device=kernels, requires_grad=True)
    job = Job(SoftTarget.from_labels(torch.zeros(0, dtype=torch.long, device=kernels)), reduced=True)
    losses(leaf, job).smoothed.backward()
    assert leaf.grad is not None


def test_the_gradient_can_be_asked_for_again(kernels: torch.device) -> None:
    job = some_job("everything", 5, 37, kernels, entropy=False, reduced=True)
    logits = torch.randn(5, 37, device=kernels)
    leaf, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
    found, expected = losses(leaf, job).smoothed, plain_losses(exact, in_double(job)).smoothed
    for factor in (3.0, 1.0, 0.5):
        (slope,) = torch.autograd.grad(factor * found, leaf, retain_graph=True)
        (right,) = torch.autograd.grad(factor * expected, exact, retain_graph=True)
        torch.testing.assert_close(slope.double(), right, rtol=1e-5, atol=1e-5)


def test_second_derivatives(kernels: torch.device) -> None:
    job = some_job("two-tables", 4, 9, kernels, entropy=True, reduced=True)
    logits = torch.randn(4, 9, device=kernels)
    leaf, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
    results = []
    for value, loss in ((leaf, losses(leaf, job)), (exact, plain_losses(exact, in_double(job)))):
        (slope,) = torch.autograd.grad(loss.smoothed, value, create_graph=True)
        (second,) = torch.autograd.grad(slope.square().sum(), value)
        results.append(second.double())
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["labels", "everything", "law"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("upstream", [1.0, 2.5])
def test_head(kernels: torch.device, kind: str, bias: bool, chunk: int | None, upstream: float) -> None:
    torch.manual_seed(4)
    rows, width, vocab_size = 7, 6, 37
    job = some_job(kind, rows, vocab_size, kernels, entropy=kind == "everything", reduced=True)
    given = [torch.randn(rows, width), torch.randn(vocab_size, width)] + ([torch.randn(vocab_size)] if bias else [])
    ours = [value.to(kernels).requires_grad_() for value in given]
    exact = [value.to(kernels).double().requires_grad_() for value in given]
    found = linear_losses(ours[0], ours[1], ours[2] if bias else None, job, chunk)
    logits = F.linear(*exact)
    expected = plain_losses(logits, in_double(job))
    torch.testing.assert_close(found.smoothed.double(), expected.smoothed, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.nll.double(), expected.nll, rtol=1e-5, atol=1e-5)
    slopes = torch.autograd.grad(upstream * found.smoothed, ours, retain_graph=True)
    again = torch.autograd.grad(upstream * found.smoothed, ours)
    for slope, repeat, right in zip(
        slopes, again, torch.autograd.grad(upstream * expected.smoothed, exact), strict=True
    ):
        torch.testing.assert_close(slope.double(), right, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(slope, repeat)
    with torch.no_grad():
        assert linear_losses(ours[0], ours[1], ours[2] if bias else None, job, chunk).smoothed == found.smoothed


@pytest.mark.parametrize("chunk", [None, 20, 5])
def test_head_in_half_precision_is_as_good_as_eager(kernels: torch.device, chunk: int | None) -> None:
    torch.manual_seed(5)
    rows, width, vocab_size = 40, 16, 60
    job = some_job("slots", rows, vocab_size, kernels, entropy=False, reduced=True)
    given = [torch.randn(rows, width).bfloat16(), torch.randn(vocab_size, width).bfloat16()]
    ours = [value.to(kernels).requires_grad_() for value in given]
    eager = [value.to(kernels).requires_grad_() for value in given]
    exact = [value.to(kernels).double().requires_grad_() for value in given]
    slopes = torch.autograd.grad(linear_losses(ours[0], ours[1], None, job, chunk).smoothed, ours)
    theirs = torch.autograd.grad(plain_losses(F.linear(*eager), job).smoothed, eager)
    right = torch.autograd.grad(plain_losses(F.linear(*exact), in_double(job)).smoothed, exact)
    for slope, their, exactly in zip(slopes, theirs, right, strict=True):
        assert (slope.double() - exactly).norm() <= slack(torch.bfloat16) * (their.double() - exactly).norm()


@pytest.mark.parametrize("kind", ["slots", "uniform", "everything", "law-and-more"])
def test_head_ignores_what_is_in_ignored_rows(kernels: torch.device, kind: str) -> None:
    # Of 37 tokens products go over the padding, too, which must hold no NaN then.
    job = some_job(kind, 5, 37, kernels, entropy=False, reduced=True)
    hidden = torch.randn(5, 3, device=kernels)
    hidden[2] = torch.nan
    leaf, weight = hidden.requires_grad_(), torch.randn(37, 3, device=kernels, requires_grad=True)
    linear_losses(leaf, weight, None, job, 2).smoothed.backward()
    assert leaf.grad is not None
    assert weight.grad is not None
    assert leaf.grad[2].tolist() == [0.0] * 3
    assert bool(leaf.grad.isfinite().all())
    assert bool(weight.grad.isfinite().all())


def test_head_by_rows_and_twice_differentiated(kernels: torch.device) -> None:
    job = some_job("slots", 4, 9, kernels, entropy=True, reduced=True)
    hidden, weight = torch.randn(4, 3, device=kernels), torch.randn(9, 3, device=kernels)
    by_row = linear_losses(hidden, weight, None, job.per_row(), 2)
    whole = linear_losses(hidden, weight, None, job, 2)
    torch.testing.assert_close(job.reduce(by_row).smoothed, whole.smoothed)
    results = []
    for compute, dtype in ((job, torch.float32), (in_double(job), torch.float64)):
        leaves = [hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()]
        slopes = torch.autograd.grad(linear_losses(*leaves, None, compute, None).smoothed, leaves, create_graph=True)
        results.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_logits_that_are_strided(kernels: torch.device) -> None:
    job = some_job("slots", 4, 20, kernels, entropy=False, reduced=True)
    wide = torch.randn(4, 50, device=kernels)
    for view in (wide[:, 7:27], torch.randn(20, 4, device=kernels).T):
        agree(job, view, torch.ones((), device=kernels))


@pytest.mark.parametrize("kind", ["everything", "law"])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_the_gradient_in_the_memory_of_the_logits(kernels: torch.device, kind: str, factor: float) -> None:
    torch.manual_seed(6)
    job = some_job(kind, 5, 37, kernels, entropy=False, reduced=True)
    given = torch.randn(5, 37, device=kernels)
    leaf, other = given.clone().requires_grad_(), given.clone().requires_grad_()
    logits = 1 * other
    found = losses(logits, replace(job, inplace=True)).smoothed
    expected = losses(leaf, job).smoothed
    torch.testing.assert_close(found, expected)
    (factor * found).backward(retain_graph=True)
    (factor * expected).backward()
    assert other.grad is not None
    torch.testing.assert_close(other.grad, leaf.grad)
    torch.testing.assert_close(logits.detach(), other.grad)  # the same memory
    with pytest.raises(ValueError, match="`inplace` must be False for a second backward pass"):
        found.backward()


@pytest.mark.parametrize("kind", ["everything", "law"])
def test_columns_beyond_a_view_are_not_touched(kernels: torch.device, kind: str) -> None:
    torch.manual_seed(6)
    job = some_job(kind, 5, 37, kernels, entropy=False, reduced=True)
    whole = torch.randn(5, 64, device=kernels)
    beyond = whole[:, 37:].clone()
    losses(whole[:, :37].requires_grad_(), replace(job, inplace=True))
    assert torch.equal(whole[:, 37:], beyond)


def test_logits_that_somebody_else_needs_are_not_overwritten_unnoticed(kernels: torch.device) -> None:
    leaf = torch.randn(5, 37, device=kernels, requires_grad=True)
    logits = leaf.tanh()  # whose backward pass reads its result
    job = some_job("slots", 5, 37, kernels, entropy=False, reduced=True)
    total = losses(logits, replace(job, inplace=True)).smoothed
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_forward_mode_is_for_plain_torch(kernels: torch.device) -> None:
    job = some_job("slots", 4, 9, kernels, entropy=False, reduced=True)
    logits, direction = torch.randn(2, 4, 9, device=kernels)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(logits, direction)
        slope = forward_ad.unpack_dual(losses(dual, job).smoothed).tangent
    leaf = logits.requires_grad_()
    (gradient,) = torch.autograd.grad(losses(leaf, job).smoothed, leaf)
    torch.testing.assert_close(slope, (gradient * direction).sum())
