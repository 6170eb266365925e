"""The rules of the contract: each yields the deviations of a loss from what it must be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.conformance.exact import Case, case, exact
from seqsmooth.conformance.subject import Subject
from seqsmooth.ops.soft_target import IGNORED

WIDE = 1e-5
"""Relative error in fp32: a few hundred roundings."""
SLOPE = 2e-3
"""Absolute error of a slope by finite differences in fp32."""
HALF = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-9}
"""Relative error in half precision: two roundings of the result."""
STRENGTH = 0.1


@dataclass(frozen=True)
class Deviation:
    """The distance of a number from what it must be, and the distance allowed."""

    what: str
    error: float
    limit: float

    @property
    def is_small(self) -> bool:
        """Whether it is within the limit; NaN is not."""
        return self.error <= self.limit

    def __str__(self) -> str:
        if not math.isfinite(self.error):
            return f"{self.what} is NaN or infinite"
        return f"{self.what} is off by {self.error:.1e}, at most {self.limit:.0e} allowed"


def zero_smoothing(subject: Subject) -> Iterator[Deviation]:
    """Without smoothing it is cross entropy: the mean of -ln p over the positions that count."""
    for seed in (0, 1):
        batch = case(subject.device, seed)
        yield _deviation("the loss", _value(subject, batch), exact(batch)[0])


def gradient(subject: Subject) -> Iterator[Deviation]:
    """Its gradient at the logits is softmax - target over their number, times what comes from above."""
    batch = case(subject.device)
    for factor in (1.0, -3.0):
        expected = factor * exact(batch)[1]
        yield _deviation(
            "the gradient" + ("" if factor == 1 else " times -3"), _gradient(subject, batch, factor), expected
        )
    if subject.from_states:
        yield _deviation("the gradient of the weight", *_weight_gradients(subject, batch, batch))


def label_smoothing(subject: Subject) -> Iterator[Deviation]:
    """Smoothed by 0.1 it is torch's label smoothing: 0.1 / V for each token, the rest for the label."""
    batch = case(subject.device)
    loss, slope = exact(batch, STRENGTH)
    yield _deviation("the smoothed loss", _value(subject, batch, STRENGTH), loss)
    yield _deviation("the smoothed gradient", _gradient(subject, batch, smoothing=STRENGTH), slope)


def slope(subject: Subject) -> Iterator[Deviation]:
    """Smoothed or not, the gradient is the slope of the loss, by finite differences in four directions."""
    batch = case(subject.device)
    generator = torch.Generator().manual_seed(7)
    for smoothing in _strengths(subject):
        actual = _gradient(subject, batch, smoothing=smoothing).double()
        for _ in range(4):
            direction = torch.randn(batch.logits.shape, generator=generator).to(batch.logits)

            def along(step: float, direction: Tensor = direction, smoothing: float = smoothing) -> Tensor:
                moved = batch.logits + step * direction
                return subject.loss(moved, batch.labels, smoothing=smoothing).detach().double()

            coarse, fine = ((along(step) - along(-step)) / (2 * step) for step in (0.2, 0.1))
            expected = (4 * fine - coarse) / 3  # Richardson's extrapolation: an error of the fourth order
            error = (actual * direction.double()).sum() - expected
            yield Deviation(_name("the slope", smoothing), float(error.abs()), SLOPE)


def ignored_positions(subject: Subject) -> Iterator[Deviation]:
    """The logits of ignored positions change nothing, and they get no gradient at all."""
    batch = case(subject.device)
    hidden = ~batch.counted.unsqueeze(-1)
    moved = replace(batch, logits=torch.where(hidden, 5 - 3 * batch.logits, batch.logits))
    for smoothing in _strengths(subject):
        losses = [_value(subject, each, smoothing) for each in (batch, moved)]
        yield Deviation(_name("the loss", smoothing), float((losses[0] - losses[1]).abs()), 0.0)
        slopes = [_gradient(subject, each, smoothing=smoothing) for each in (batch, moved)]
        yield Deviation(_name("the gradient", smoothing), float((slopes[0] - slopes[1]).abs().max()), 0.0)
        stray = (slopes[1] * hidden).abs().max()
        yield Deviation(_name("the gradient of ignored positions", smoothing), float(stray), 0.0)


def ignored_garbage(subject: Subject) -> Iterator[Deviation]:
    """Loss and gradient stay the same where ignored logits are NaN or minus infinity, as in unwritten padding."""
    batch = case(subject.device)
    hidden = ~batch.counted.unsqueeze(-1)
    for value in (-math.inf, math.nan):
        broken = replace(batch, logits=batch.logits.masked_fill(hidden, value))
        for smoothing in _strengths(subject):
            kind = f"where they are {value}, "
            clean, actual = (_value(subject, each, smoothing) for each in (batch, broken))
            yield _deviation(_name(kind + "the loss", smoothing), actual, clean)
            clean, actual = (_gradient(subject, each, smoothing=smoothing) for each in (batch, broken))
            yield _deviation(_name(kind + "the gradient", smoothing), actual, clean)
        if subject.from_states:
            weights = _weight_gradients(subject, broken, batch)
            yield _deviation(f"where they are {value}, the gradient of the weight", *weights)


def nothing_to_predict(subject: Subject) -> Iterator[Deviation]:
    """If every position is ignored, loss and gradient are 0."""
    batch = case(subject.device)
    empty = replace(batch, labels=torch.full_like(batch.labels, IGNORED))
    for smoothing in _strengths(subject):
        loss = _value(subject, empty, smoothing)
        yield Deviation(_name("the loss", smoothing), float(loss.abs()), 0.0)
        gradient = _gradient(subject, empty, smoothing=smoothing)
        yield Deviation(_name("the gradient", smoothing), float(gradient.abs().max()), 0.0)


def micro_batches(subject: Subject) -> Iterator[Deviation]:
    """However a batch is cut into micro-batches, loss and gradients add up to the same."""
    batch = case(subject.device)

    def part_loss(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        if subject.items is not None:
            return subject.loss(logits, labels, smoothing=smoothing, items=batch.items)
        return subject.loss(logits, labels, smoothing=smoothing, reduction="sum") / batch.items

    for smoothing in _strengths(subject):
        whole = _value(subject, batch, smoothing)
        slope = _gradient(subject, batch, smoothing=smoothing)
        for sizes in ([1, 2], [1, 1, 1]):
            leaf = batch.logits.detach().clone().requires_grad_()
            parts = zip(torch.split(leaf * 1, sizes), torch.split(batch.labels, sizes), strict=True)
            total = torch.stack([part_loss(logits, labels, smoothing) for logits, labels in parts]).sum()
            (actual,) = torch.autograd.grad(total, leaf)
            yield _deviation(_name(f"the loss in {len(sizes)} parts", smoothing), total, whole)
            yield _deviation(_name(f"the gradient in {len(sizes)} parts", smoothing), actual, slope)


def each_position(subject: Subject) -> Iterator[Deviation]:
    """With reduction="none" each position has its own loss, 0 where ignored, and its own gradient."""
    batch = case(subject.device)
    weights = torch.arange(1.0, 1 + batch.labels.numel(), device=subject.device)
    leaf = batch.logits.detach().clone().requires_grad_()
    actual = subject.loss(leaf * 1, batch.labels, reduction="none").reshape(-1)
    (slope,) = torch.autograd.grad((actual * weights).sum(), leaf)
    positions = zip(batch.logits.flatten(0, 1), batch.labels.flatten(), strict=True)
    alone = torch.stack([exact(Case(z[None, None], y[None, None]))[0] for z, y in positions])
    yield _deviation("a position's loss", actual, alone)
    expected = exact(batch)[1] * batch.items * weights.view(*batch.labels.shape, 1)
    yield _deviation("a weighted position's gradient", slope, expected)


def shift(subject: Subject) -> Iterator[Deviation]:
    """A loss that shifts predicts label t + 1 at position t: the first label and the last logits play no part."""
    batch = case(subject.device)
    inner = Case(batch.logits[:, :-1], batch.labels[:, 1:])
    without_first = F.pad(inner.labels, (1, 0), value=IGNORED)
    other_last = F.pad(inner.logits, (0, 0, 0, 1), value=9.0)
    for logits, labels in ((batch.logits, batch.labels), (batch.logits, without_first), (other_last, batch.labels)):
        yield _deviation("the shifted loss", subject.loss(logits.clone(), labels, shifted=True), exact(inner)[0])


def half_precision(subject: Subject) -> Iterator[Deviation]:
    """In bf16 and fp16 the loss is that of the same numbers in float64, to two roundings; so is the gradient."""
    for dtype, limit in HALF.items():
        batch = case(subject.device).to(dtype)
        loss, slope = exact(batch)
        name = str(dtype).removeprefix("torch.")
        yield _deviation(f"the loss in {name}", _value(subject, batch), loss, limit)
        yield _deviation(f"the gradient in {name}", _gradient(subject, batch), slope, limit)


def long_sums(subject: Subject) -> Iterator[Deviation]:
    """In fp16 a mean is right even where the sum behind it is past 65,504."""
    logits = torch.zeros(1, 64, 8, device=subject.device, dtype=torch.float16)
    logits[..., 0] = -2000.0
    batch = Case(logits, torch.zeros(1, 64, dtype=torch.long, device=subject.device))
    yield _deviation("the loss", _value(subject, batch), exact(batch)[0], HALF[torch.float16])


def forbidden_tokens(subject: Subject) -> Iterator[Deviation]:
    """A logit of minus infinity, which forbids a token, does no harm where that token is not the label."""
    batch = case(subject.device)
    labels = torch.where(batch.labels == 0, 1, batch.labels)
    closed = Case(F.pad(batch.logits[..., 1:], (1, 0), value=-math.inf), labels)
    loss, slope = exact(closed)
    yield _deviation("the loss", _value(subject, closed), loss)
    yield _deviation("the gradient", _gradient(subject, closed), slope)


def keeps_inputs(subject: Subject) -> Iterator[Deviation]:
    """The logits are left as they are, so the backward pass of the layer before finds its own output there."""
    batch = case(subject.device)
    leaf = batch.logits.detach().clone().requires_grad_()
    logits = leaf.softmax(-1)  # its backward pass needs its own output
    (actual,) = torch.autograd.grad(subject.loss(logits, batch.labels), leaf)
    wide = batch.logits.double().detach().requires_grad_()
    probabilities = wide.softmax(-1)
    upper = exact(Case(probabilities.detach(), batch.labels))[1]
    (expected,) = torch.autograd.grad(probabilities, wide, upper)
    yield _deviation("the gradient before a softmax", actual, expected)


def _strengths(subject: Subject) -> tuple[float, ...]:
    return (0.0,) if subject.smoothing is None else (0.0, STRENGTH)


def _value(subject: Subject, batch: Case, smoothing: float = 0.0) -> Tensor:
    return subject.loss(batch.logits.clone(), batch.labels, smoothing=smoothing)  # which may write over its input


def _gradient(subject: Subject, batch: Case, factor: float = 1.0, *, smoothing: float = 0.0) -> Tensor:
    leaf = batch.logits.detach().clone().requires_grad_()
    # A product first: a loss may write over its input, and that must not be a leaf.
    (actual,) = torch.autograd.grad(subject.loss(leaf * 1, batch.labels, smoothing=smoothing) * factor, leaf)
    return actual


def _weight_gradients(subject: Subject, batch: Case, clean: Case) -> tuple[Tensor, Tensor]:
    """The gradient at the output matrix, and in float64 the sum of gradient times hidden state over positions."""
    size = batch.logits.shape[-1]
    weight = torch.eye(size, device=subject.device, requires_grad=True)
    hidden = batch.logits.detach().clone().requires_grad_()
    actual = torch.autograd.grad(subject.loss(hidden * 1, batch.labels, weight=weight), (hidden, weight))[1]
    return actual, exact(clean)[1].reshape(-1, size).T @ clean.logits.double().reshape(-1, size)


def _deviation(what: str, actual: Tensor, expected: Tensor, limit: float = WIDE) -> Deviation:
    """The largest difference, relative to the largest expected number."""
    actual, expected = actual.detach().double(), expected.detach().double()
    scale = expected.abs().max().clamp_min(1e-12)
    return Deviation(what, float((actual - expected).abs().max() / scale), limit)


def _name(what: str, smoothing: float) -> str:
    return what if smoothing == 0 else f"{what} smoothed by {smoothing}"
