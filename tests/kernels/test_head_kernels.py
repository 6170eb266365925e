"""The head over the loss kernels against plain torch in double precision, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from oracles.kernel_jobs import in_double, slack, some_job
from seqsmooth.ops.cross_entropy import losses, plain_losses
from seqsmooth.ops.head import Head

pytest.importorskip("triton")


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
    found = Head(ours[0], ours[1], ours[2] if bias else None, chunk).losses(job)
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
        assert Head(ours[0], ours[1], ours[2] if bias else None, chunk).losses(job).smoothed == found.smoothed


class _Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> None:
        return None


def test_below_a_cut_there_is_no_gradient(kernels: torch.device) -> None:
    job = some_job("labels", 5, 37, kernels, entropy=False, reduced=True)
    hidden, weight = (torch.randn(rows, 6, device=kernels, requires_grad=True) for rows in (5, 37))
    logits = torch.randn(5, 37, device=kernels, requires_grad=True)
    for made in (Head(hidden, weight, None, None).losses(job), losses(logits, job)):
        _Cut.apply(made.smoothed).backward()
    assert all(value.grad is None for value in (hidden, weight, logits))


@pytest.mark.parametrize("chunk", [None, 20, 5])
def test_head_in_half_precision_is_as_good_as_eager(kernels: torch.device, chunk: int | None) -> None:
    torch.manual_seed(5)
    rows, width, vocab_size = 40, 16, 60
    job = some_job("slots", rows, vocab_size, kernels, entropy=False, reduced=True)
    given = [torch.randn(rows, width).bfloat16(), torch.randn(vocab_size, width).bfloat16()]
    ours = [value.to(kernels).requires_grad_() for value in given]
    eager = [value.to(kernels).requires_grad_() for value in given]
    exact = [value.to(kernels).double().requires_grad_() for value in given]
    slopes = torch.autograd.grad(Head(ours[0], ours[1], None, chunk).losses(job).smoothed, ours)
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
    Head(leaf, weight, None, 2).losses(job).smoothed.backward()
    assert leaf.grad is not None
    assert weight.grad is not None
    assert leaf.grad[2].tolist() == [0.0] * 3
    assert bool(leaf.grad.isfinite().all())
    assert bool(weight.grad.isfinite().all())


def test_head_by_rows_and_twice_differentiated(kernels: torch.device) -> None:
    job = some_job("slots", 4, 9, kernels, entropy=True, reduced=True)
    hidden, weight = torch.randn(4, 3, device=kernels), torch.randn(9, 3, device=kernels)
    by_row = Head(hidden, weight, None, 2).losses(job.per_row())
    whole = Head(hidden, weight, None, 2).losses(job)
    torch.testing.assert_close(job.reduce(by_row).smoothed, whole.smoothed)
    results = []
    for compute, dtype in ((job, torch.float32), (in_double(job), torch.float64)):
        leaves = [hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()]
        slopes = torch.autograd.grad(Head(*leaves, None, None).losses(compute).smoothed, leaves, create_graph=True)
        results.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
