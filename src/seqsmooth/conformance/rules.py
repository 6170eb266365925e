"""What the contract measures: each rule yields how far a loss is from what it must be, and how far it may be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seqsmooth.conformance.exact import Case, case, exact
from seqsmooth.conformance.subject import Subject
from seqsmooth.ops.soft_target import IGNORED

WIDE = 1e-5
"""Relative error in fp32: a few hundred roundings."""
SLOPE = 2e-3
"""... of a slope by finite differences in fp32."""
HALF = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-9}
"""... in half precision: two roundings of the result."""
STRENGTH = 0.1


@dataclass(frozen=True)
class Measured:
    """How far one number is from another."""

    what: str
    error: float
    limit: float

    @property
    def good(self) -> bool:
        """Whether it is near enough; NaN is not."""
        return self.error <= self.limit

    def __str__(self) -> str:
        if not math.isfinite(self.error):
            return f"{self.what} is NaN or infinite"
        return f"{self.what} is off by {self.error:.1e}, at most {self.limit:.0e} allowed"


def zero_smoothing(subject: Subject) -> Iterator[Measured]:
    """Without smoothing it is cross entropy: the mean of -ln p over the positions that count."""
    for seed in (0, 1):
        given = case(subject.device, seed)
        yield _apart("the loss", _value(subject, given), exact(given)[0])


def gradient(subject: Subject) -> Iterator[Measured]:
    """Its gradient at the logits is softmax - target over their number, times what comes from above."""
    given = case(subject.device)
    for factor in (1.0, -3.0):
        wanted = factor * exact(given)[1]
        yield _apart("the gradient" + ("" if factor == 1 else " times -3"), _gradient(subject, given, factor), wanted)
    if subject.from_states:
        yield _apart("the gradient of the weight", *_weight_gradients(subject, given, given))


def label_smoothing(subject: Subject) -> Iterator[Measured]:
    """Smoothed by 0.1 it is torch's label smoothing: 0.1 / V for each token, the rest for the label."""
    given = case(subject.device)
    loss, slope = exact(given, STRENGTH)
    yield _apart("the smoothed loss", _value(subject, given, STRENGTH), loss)
    yield _apart("the smoothed gradient", _gradient(subject, given, smoothing=STRENGTH), slope)


def slope(subject: Subject) -> Iterator[Measured]:
    """Smoothed or not, the gradient is the slope of the loss, by finite differences in four directions."""
    given = case(subject.device)
    generator = torch.Generator().manual_seed(7)
    for smoothing in _strengths(subject):
        found = _gradient(subject, given, smoothing=smoothing).double()
        for _ in range(4):
            way = torch.randn(given.logits.shape, generator=generator).to(given.logits)

            def along(step: float, way: Tensor = way, smoothing: float = smoothing) -> Tensor:
                moved = given.logits + step * way
                return subject.loss(moved, given.labels, smoothing=smoothing).detach().double()

            coarse, fine = ((along(step) - along(-step)) / (2 * step) for step in (0.2, 0.1))
            wanted = (4 * fine - coarse) / 3  # Richardson's: what is left is of the fourth order
            apart = (found * way.double()).sum() - wanted
            yield Measured(_at("the slope", smoothing), float(apart.abs()), SLOPE)


def ignored(subject: Subject) -> Iterator[Measured]:
    """What the logits of ignored positions are changes nothing, and they get no gradient at all."""
    given = case(subject.device)
    hidden = ~given.kept.unsqueeze(-1)
    moved = replace(given, logits=torch.where(hidden, 5 - 3 * given.logits, given.logits))
    for smoothing in _strengths(subject):
        losses = [_value(subject, each, smoothing) for each in (given, moved)]
        yield Measured(_at("the loss", smoothing), float((losses[0] - losses[1]).abs()), 0.0)
        slopes = [_gradient(subject, each, smoothing=smoothing) for each in (given, moved)]
        yield Measured(_at("the gradient", smoothing), float((slopes[0] - slopes[1]).abs().max()), 0.0)
        there = (slopes[1] * hidden).abs().max()
        yield Measured(_at("the gradient of ignored positions", smoothing), float(there), 0.0)


def ignored_garbage(subject: Subject) -> Iterator[Measured]:
    """That holds where these logits are NaN or minus infinity, as in padding that no model has written."""
    given = case(subject.device)
    hidden = ~given.kept.unsqueeze(-1)
    for value in (-math.inf, math.nan):
        broken = replace(given, logits=given.logits.masked_fill(hidden, value))
        for smoothing in _strengths(subject):
            kind = f"where they are {value}, "
            clean, found = (_value(subject, each, smoothing) for each in (given, broken))
            yield _apart(_at(kind + "the loss", smoothing), found, clean)
            clean, found = (_gradient(subject, each, smoothing=smoothing) for each in (given, broken))
            yield _apart(_at(kind + "the gradient", smoothing), found, clean)
        if subject.from_states:
            weights = _weight_gradients(subject, broken, given)
            yield _apart(f"where they are {value}, the gradient of the weight", *weights)


def nothing(subject: Subject) -> Iterator[Measured]:
    """Where every position is ignored, the loss and its gradient are 0."""
    given = case(subject.device)
    empty = replace(given, labels=torch.full_like(given.labels, IGNORED))
    for smoothing in _strengths(subject):
        loss = _value(subject, empty, smoothing)
        yield Measured(_at("the loss", smoothing), float(loss.abs()), 0.0)
        there = _gradient(subject, empty, smoothing=smoothing)
        yield Measured(_at("the gradient", smoothing), float(there.abs().max()), 0.0)


def micro_batches(subject: Subject) -> Iterator[Measured]:
    """However a batch is cut into micro-batches, loss and gradients add up to the same."""
    given = case(subject.device)

    def whole_or_part(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        if subject.items is not None:
            return subject.loss(logits, labels, smoothing=smoothing, items=given.items)
        return subject.loss(logits, labels, smoothing=smoothing, reduction="sum") / given.items

    for smoothing in _strengths(subject):
        usual = _value(subject, given, smoothing)
        slope = _gradient(subject, given, smoothing=smoothing)
        for sizes in ([1, 2], [1, 1, 1]):
            leaf = given.logits.detach().clone().requires_grad_()
            parts = zip(torch.split(leaf * 1, sizes), torch.split(given.labels, sizes), strict=True)
            total = torch.stack([whole_or_part(one, other, smoothing) for one, other in parts]).sum()
            (found,) = torch.autograd.grad(total, leaf)
            yield _apart(_at(f"the loss in {len(sizes)} parts", smoothing), total, usual)
            yield _apart(_at(f"the gradient in {len(sizes)} parts", smoothing), found, slope)


def each_position(subject: Subject) -> Iterator[Measured]:
    """With reduction="none" each position has its own loss, 0 where ignored, and its own gradient."""
    given = case(subject.device)
    weights = torch.arange(1.0, 1 + given.labels.numel(), device=subject.device)
    leaf = given.logits.detach().clone().requires_grad_()
    found = subject.loss(leaf * 1, given.labels, reduction="none").reshape(-1)
    (slope,) = torch.autograd.grad((found * weights).sum(), leaf)
    alone = torch.stack(
        [exact(Case(z[None, None], y[None, None]))[0] for z, y in _positions(given)],
    )
    yield _apart("a position's loss", found, alone)
    wanted = exact(given)[1] * given.items * weights.view(*given.labels.shape, 1)
    yield _apart("a weighted position's gradient", slope, wanted)


def shift(subject: Subject) -> Iterator[Measured]:
    """Where it shifts, position t predicts label t + 1: the first label and the last logits play no part."""
    given = case(subject.device)
    inner = Case(given.logits[:, :-1], given.labels[:, 1:])
    for logits, labels in (
        (given.logits, given.labels),
        (given.logits, given.labels.index_fill(1, torch.tensor([0], device=subject.device), IGNORED)),
        (
            given.logits.index_fill(1, torch.tensor([given.logits.shape[1] - 1], device=subject.device), 9.0),
            given.labels,
        ),
    ):
        yield _apart("the shifted loss", subject.loss(logits.clone(), labels, shifted=True), exact(inner)[0])


def half_precision(subject: Subject) -> Iterator[Measured]:
    """In bf16 and fp16 the loss is that of the same numbers in float64, to two roundings; so is the gradient."""
    for dtype, limit in HALF.items():
        given = case(subject.device).to(dtype)
        loss, slope = exact(given)
        name = str(dtype).removeprefix("torch.")
        yield _apart(f"the loss in {name}", _value(subject, given), loss, limit)
        yield _apart(f"the gradient in {name}", _gradient(subject, given), slope, limit)


def long_sums(subject: Subject) -> Iterator[Measured]:
    """In fp16 a mean is right even where the sum behind it is past 65,504."""
    logits = torch.zeros(1, 64, 8, device=subject.device, dtype=torch.float16)
    logits[..., 0] = -2000.0
    given = Case(logits, torch.zeros(1, 64, dtype=torch.long, device=subject.device))
    yield _apart("the loss", _value(subject, given), exact(given)[0], HALF[torch.float16])


def forbidden(subject: Subject) -> Iterator[Measured]:
    """A logit of minus infinity, which forbids a token, is no harm where that is not the label."""
    given = case(subject.device)
    labels = torch.where(given.labels == 0, 1, given.labels)
    closed = Case(given.logits.index_fill(-1, torch.tensor([0], device=subject.device), -math.inf), labels)
    loss, slope = exact(closed)
    yield _apart("the loss", _value(subject, closed), loss)
    yield _apart("the gradient", _gradient(subject, closed), slope)


def inputs_kept(subject: Subject) -> Iterator[Measured]:
    """It leaves the logits as they are: whatever made them finds them there in its backward pass."""
    given = case(subject.device)
    leaf = given.logits.detach().clone().requires_grad_()
    made = leaf.softmax(-1)  # whose gradient needs its own result
    (found,) = torch.autograd.grad(subject.loss(made, given.labels), leaf)
    wide = given.logits.double().detach().requires_grad_()
    probabilities = wide.softmax(-1)
    upper = exact(Case(probabilities.detach(), given.labels))[1]
    (wanted,) = torch.autograd.grad(probabilities, wide, upper)
    yield _apart("the gradient before a softmax", found, wanted)


def _strengths(subject: Subject) -> tuple[float, ...]:
    return (0.0,) if subject.smoothing is None else (0.0, STRENGTH)


def _positions(given: Case) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(given.logits.flatten(0, 1), given.labels.flatten(), strict=True)


def _value(subject: Subject, given: Case, smoothing: float = 0.0) -> Tensor:
    return subject.loss(given.logits.clone(), given.labels, smoothing=smoothing)  # which it may write over


def _gradient(subject: Subject, given: Case, factor: float = 1.0, *, smoothing: float = 0.0) -> Tensor:
    leaf = given.logits.detach().clone().requires_grad_()
    # A product first: a loss may write over its input, and that must not be a leaf.
    (found,) = torch.autograd.grad(subject.loss(leaf * 1, given.labels, smoothing=smoothing) * factor, leaf)
    return found


def _weight_gradients(subject: Subject, given: Case, clean: Case) -> tuple[Tensor, Tensor]:
    """What a head gives the output matrix, and the sum over positions of gradient times hidden state, in float64."""
    size = given.logits.shape[-1]
    weight = torch.eye(size, device=subject.device, requires_grad=True)
    hidden = given.logits.detach().clone().requires_grad_()
    found = torch.autograd.grad(subject.loss(hidden * 1, given.labels, weight=weight), (hidden, weight))[1]
    return found, exact(clean)[1].reshape(-1, size).T @ clean.logits.double().reshape(-1, size)


def _apart(what: str, found: Tensor, wanted: Tensor, limit: float = WIDE) -> Measured:
    """The largest difference, over the largest number that is wanted."""
    found, wanted = found.detach().double(), wanted.detach().double()
    scale = wanted.abs().max().clamp_min(1e-12)
    return Measured(what, float((found - wanted).abs().max() / scale), limit)


def _at(what: str, smoothing: float) -> str:
    return what if smoothing == 0 else f"{what} smoothed by {smoothing}"
