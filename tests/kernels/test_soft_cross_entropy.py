"""The loss kernels against plain torch in double precision, forward and backward."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from oracles.kernel_jobs import KINDS, agree, both, in_double, loss_and_slope, rounded, slack, some_job, some_target
from seqsmooth.ops.cross_entropy import Job, losses, plain_losses
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import SetTable, UniformTable

pytest.importorskip("triton")
soft_cross_entropy = pytest.importorskip("seqsmooth.ops.kernels.soft_cross_entropy")
SIZES = [1, 2, 3, 31, 64, 129] + ([9488, 22822, 30000, 128256] if torch.cuda.is_available() else [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("entropy", "reduced"), [(False, True), (True, False)])
def test_every_kind_of_target(kernels: torch.device, kind: str, entropy: bool, reduced: bool) -> None:
    torch.manual_seed(0)
    job = some_job(kind, 5, 37, kernels, entropy=entropy, reduced=reduced)
    logits = 4 * torch.randn(5, 37, device=kernels)
    upstream = torch.ones((), device=kernels) if reduced else torch.linspace(1, 2, 5, device=kernels)
    agree(job, logits, upstream)
    agree(job, logits, 1.7 * upstream)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("kind", ["slots", "everything", "law-and-more"])
def test_positions_in_any_shape(kernels: torch.device, kind: str, strided: bool) -> None:
    torch.manual_seed(0)
    job = some_job(kind, 6, 37, kernels, entropy=True, reduced=True)

    def shaped(values: Tensor) -> Tensor:
        """As (2, 1, 3, ...), with the last of the positions first in memory if `strided`."""
        wide = values.view(2, 1, 3, *values.shape[1:])
        return wide.transpose(0, 2).contiguous().transpose(0, 2) if strided else wide

    rows = tuple(Rows(row.table, shaped(row.index), shaped(row.weights)) for row in job.target.rows)
    target = SoftTarget(shaped(job.target.ids), shaped(job.target.weights), rows)
    assert target.ids.is_contiguous() is not strided
    other = replace(job, target=target, labels=shaped(job.labels))
    logits = 4 * torch.randn(6, 37, device=kernels)
    expected = both(job, logits, torch.tensor(1.7, device=kernels))
    for ours, theirs in zip(both(other, logits, torch.tensor(1.7, device=kernels)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


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


@pytest.mark.parametrize("kind", ["slots", "uniform", "two-tables", "bits", "law"])
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


def test_a_set_with_what_is_impossible(kernels: torch.device) -> None:
    """Only where the set has weight, and only for its own tokens, here 1 and 9."""
    table = SetTable(torch.tensor([[2, 2]], dtype=torch.uint8, device=kernels), torch.tensor([2.0], device=kernels), 12)
    ids, index = torch.full((3, 1), 4, device=kernels), torch.tensor([[0], [0], [-1]], device=kernels)
    weights = torch.tensor([[0.25], [0.0], [0.25]], device=kernels)
    job = Job(SoftTarget(ids, torch.full_like(weights, 0.5), (Rows(table, index, weights),)))
    logits = torch.randn(3, 12, generator=torch.Generator().manual_seed(0)).to(kernels)
    logits[:, 5] = -torch.inf
    agree(job, logits, torch.ones(3, device=kernels))
    logits[:, 9] = -torch.inf
    found = losses(logits, job).smoothed
    assert found[0] == torch.inf
    torch.testing.assert_close(found[1:].double(), plain_losses(logits.double(), in_double(job)).smoothed[1:])


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
