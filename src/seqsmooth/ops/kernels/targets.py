"""From targets to what should be predicted, in one launch: the truth, its expectation under `Hamming`, or samples.

Each kernel reads the targets themselves and writes all that a training step needs of them. The number of positions is
counted by the first program alone, which costs less than a second launch.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.sizes import blocks, power_of_2
from seqsmooth.ops.positions import Positions, Reading, Source

VARYING = ["stride_item", "stride_step", "batch", "steps", "pool_stride", "drawn"]  # not worth a compilation each
NOWHERE = 2**31 - 1  # stands for an id that is not there: no token is as large


@dataclass(frozen=True, eq=False)
class Sites:
    """Where a sequence may change, how likely, and into what: `Hamming` as its kernels see it.

    The pool is a list of tokens (`ids` and `sizes`), or the whole vocabulary (`vocab_size`) without `undrawn`.
    """

    frozen: tuple[int, ...]
    tau: float | None
    rate: float | None
    ids: Tensor | None  # (G, P) int64, ascending and distinct
    sizes: Tensor | None  # (G,) int64
    vocab_size: int
    undrawn: tuple[int, ...]

    def arguments(self) -> dict[str, object]:
        """What both kernels take."""
        # A kernel is handed floats in single precision: two of them make one of 48 bits.
        strength = self.rate if self.rate is not None else min(1 / _given(self.tau), 1e30)
        high = struct.unpack("f", struct.pack("f", strength))[0]
        listed = self.ids is not None
        groups, longest = (self.ids.shape[0], self.ids.shape[1]) if self.ids is not None else (1, 0)
        return {
            "pool": self.ids,
            "sizes": self.sizes,
            "pool_stride": longest,
            "drawn": 0 if listed else self.vocab_size - len(self.undrawn),
            "strength_high": high,
            "strength_low": strength - high,
            **_numbered("FROZEN", self.frozen, 4),
            **_numbered("UNDRAWN", self.undrawn, 4),
            "RATE": self.rate is not None,
            "LISTED": listed,
            "GROUPED": groups > 1,
            "SEARCH": longest.bit_length(),
        }


@dataclass(frozen=True, eq=False)
class Sampled:
    """Samples of `Hamming`."""

    reading: Reading
    tokens: Tensor  # (B, L, T) int64
    mask: Tensor  # (B, L, T) bool
    log_prob: Tensor  # (B, L) float64


def truth(source: Source) -> Reading:
    """All mass on the ground truth."""
    out, grid = _allocate(source, 1, math.inf), _blocks(source)
    target_kernel[grid](
        **out.arguments(source),
        **_nowhere(),
        background=None,
        index=None,
        alpha=0.0,
        SMOOTHED=False,
        BLOCK=128,
    )
    return out.reading()


def expectation(source: Source, sites: Sites, alpha: float) -> tuple[Reading, Tensor, Tensor]:
    """The closed form: the mass on the truth, the number of each position's pool (B, T), and the mass on that."""
    out, grid = _allocate(source, 1, math.inf), _blocks(source)
    index, background = torch.empty_like(out.labels), torch.empty_like(out.labels, dtype=torch.float32)
    target_kernel[grid](
        **out.arguments(source),
        **sites.arguments(),
        background=background,
        index=index,
        alpha=alpha,
        SMOOTHED=True,
        BLOCK=128,
    )
    return out.reading(), index, background


def samples(
    source: Source,
    sites: Sites,
    points: Tensor,  # (B, L, T) float64, uniform in [0, 1)
    alpha: float,
) -> Sampled:
    """Samples of equal weight beside the truth."""
    batch, number, steps = points.shape
    out = _allocate(source, number + 1, float(number))
    tokens = torch.empty_like(points, dtype=torch.int64)
    mask = torch.empty_like(points, dtype=torch.bool)
    log_prob = torch.empty(batch, number, dtype=torch.float64, device=points.device)
    wide = power_of_2(steps)
    tall = min(power_of_2(number), max(1, 1024 // wide))
    sample_kernel[batch, blocks(number, tall)](
        **out.arguments(source),
        **sites.arguments(),
        points=points,
        samples=tokens,
        sample_mask=mask.view(torch.uint8),
        log_prob=log_prob,
        number=number,
        truth_weight=1 - alpha,
        sample_weight=alpha / number,
        WIDE=wide,
        TALL=tall,
        num_warps=4 if wide * tall <= 1024 else 8,
    )
    return Sampled(out.reading(), tokens, mask, log_prob)


@dataclass(frozen=True, eq=False)
class _Outputs:
    """Memory for what the kernels write."""

    tokens: Tensor  # (B, T)
    inputs: Tensor | None  # (B, T)
    mask: Tensor  # (B, T)
    labels: Tensor  # (B, T)
    count: Tensor  # ()
    ids: Tensor  # (B, T, K), or nothing of its own where K = 1: the labels
    weights: Tensor  # (B, T, K)
    whole: Tensor  # (B, 1)
    ess: Tensor  # ()
    value: float

    def arguments(self, source: Source) -> dict[str, object]:
        """What both kernels take."""
        targets, ignored = source.targets, source.ignored
        assert len(ignored) <= 2
        return {
            "targets": targets,
            "stride_item": targets.stride(0),
            "stride_step": targets.stride(1),
            "batch": targets.shape[0],
            "steps": targets.shape[1],
            "tokens": self.tokens,
            "inputs": self.inputs,
            "mask": self.mask.view(torch.uint8),
            "labels": self.labels,
            "count": self.count,
            "slots": self.ids,
            "weights": self.weights,
            "whole": self.whole,
            "ess": self.ess,
            "ess_value": self.value,
            **_numbered("IGNORED", ignored, 2),
            "FILLER": source.filler,
            "BOS": source.bos,
            "COUNTED": min(power_of_2(targets.numel()), 4096),
        }

    def reading(self) -> Reading:
        """The same with its names."""
        return Reading(
            Positions(self.tokens, self.mask, self.labels, self.count, self.inputs),
            self.ids,
            self.weights,
            self.whole,
            self.ess,
        )


def _allocate(source: Source, slots: int, ess: float) -> _Outputs:
    batch, steps = source.targets.shape
    device = source.targets.device
    labels = torch.empty(batch, steps, dtype=torch.int64, device=device)
    ids = labels.unsqueeze(-1) if slots == 1 else torch.empty(batch, steps, slots, dtype=torch.int64, device=device)
    return _Outputs(
        tokens=torch.empty_like(labels),
        inputs=None if source.bos is None else torch.empty_like(labels),
        mask=torch.empty_like(labels, dtype=torch.bool),
        labels=labels,
        count=torch.empty((), dtype=torch.int64, device=device),
        ids=ids,
        weights=torch.empty(ids.shape, dtype=torch.float32, device=device),
        whole=torch.empty(batch, 1, dtype=torch.float32, device=device),
        ess=torch.empty((), dtype=torch.float32, device=device),
        value=ess,
    )


def _blocks(source: Source) -> tuple[int]:
    return (blocks(source.targets.numel(), 128),)


@cache
def _nowhere() -> dict[str, object]:
    """No place may change."""
    return Sites((), None, 0.0, None, None, 0, ()).arguments()


@cache
def _numbered(name: str, ids: tuple[int, ...], most: int) -> dict[str, int]:
    padded = (*ids, *[NOWHERE] * most)[:most]
    return {f"{name}_{number}": token for number, token in enumerate(padded)}


def _given(value: float | None) -> float:
    assert value is not None
    return value


@triton.jit
def _count_positions(
    targets, stride_item, stride_step, batch, steps,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, COUNTED: tl.constexpr,
):  # fmt: skip
    """The number of positions of the whole batch."""
    total = tl.zeros((COUNTED,), tl.int32)
    for start in range(0, batch * steps, COUNTED):
        place = start + tl.arange(0, COUNTED)
        item = place // steps
        where = item.to(tl.int64) * stride_item + (place - item * steps) * stride_step
        raw = tl.load(targets + where, mask=place < batch * steps, other=IGNORED_0)
        total += ((raw != IGNORED_0) & (raw != IGNORED_1)).to(tl.int32)
    return tl.sum(total, 0).to(tl.int64)


@triton.jit
def _find(
    tokens, pool, row, sizes, group, drawn,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    LISTED: tl.constexpr, SEARCH: tl.constexpr,
):  # fmt: skip
    """The number of other tokens in the pool, whether a token is in it (0 or 1), and its place there."""
    if LISTED:
        size = tl.load(sizes + group)
        low = tl.zeros_like(tokens)
        high = low + size
        for _ in range(SEARCH):
            middle = (low + high) // 2
            open_ = low < high
            less = open_ & (tl.load(pool + row + middle, mask=open_, other=0) < tokens)
            high = tl.where(less, high, middle)
            low = tl.where(less, middle + 1, low)
        found = tl.load(pool + row + low, mask=low < size, other=-1)
        inside = (found == tokens).to(tl.int64)
        place = low
    else:
        size = drawn
        undrawn = (tokens == UNDRAWN_0) | (tokens == UNDRAWN_1) | (tokens == UNDRAWN_2) | (tokens == UNDRAWN_3)
        inside = 1 - undrawn.to(tl.int64)
        place = tokens - (tokens > UNDRAWN_0).to(tl.int64) - (tokens > UNDRAWN_1).to(tl.int64)
        place = place - (tokens > UNDRAWN_2).to(tl.int64) - (tokens > UNDRAWN_3).to(tl.int64)
    return size - inside, inside, place


@triton.jit
def _chances(others, possible, strength, RATE: tl.constexpr):
    """The probability of a change, and the logarithms of that of none and of that of one new token."""
    number = tl.maximum(others, 1).to(tl.float64)
    if RATE:
        change = tl.where(possible, strength, 0.0)
        # Where a change is certain or out of the question, the other logarithm is never taken.
        stay = tl.log(tl.where(change < 1, 1 - change, 1.0))
        move = tl.log(tl.where(change > 0, change, 1.0)) - tl.log(number)
    else:
        odds = number * tl.exp(-strength)
        change = tl.where(possible, odds / (1 + odds), 0.0)
        stay = tl.where(possible, -tl.log(1 + odds), 0.0)
        move = stay - strength
    return change, stay, move


@triton.jit(do_not_specialize=VARYING)
def target_kernel(
    targets, stride_item, stride_step, batch, steps,
    tokens, inputs, mask, labels, count, slots, weights, whole, ess, ess_value,
    pool, sizes, pool_stride, drawn, strength_high, strength_low,
    background, index, alpha,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, FILLER: tl.constexpr, BOS: tl.constexpr, COUNTED: tl.constexpr,
    FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    RATE: tl.constexpr, LISTED: tl.constexpr, GROUPED: tl.constexpr, SEARCH: tl.constexpr,
    SMOOTHED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of positions: the truth, and (`SMOOTHED`) the closed form of `Hamming`."""
    part = tl.program_id(0)
    place = part * BLOCK + tl.arange(0, BLOCK)
    real = place < batch * steps
    item = place // steps
    step = place - item * steps
    raw = tl.load(targets + item.to(tl.int64) * stride_item + step * stride_step, mask=real, other=IGNORED_0)
    position = real & (raw != IGNORED_0) & (raw != IGNORED_1)
    token = tl.where(position, raw, FILLER)
    tl.store(tokens + place, token, mask=real)
    if BOS is not None:
        tl.store(inputs + place + 1, token, mask=real & (step + 1 < steps))
        tl.store(inputs + place, BOS, mask=real & (step == 0))
    tl.store(mask + place, position.to(tl.uint8), mask=real)
    tl.store(labels + place, tl.where(position, raw, -100), mask=real)
    tl.store(whole + item, 1.0, mask=real & (step == 0))
    if SMOOTHED:
        frozen = (token == FROZEN_0) | (token == FROZEN_1) | (token == FROZEN_2) | (token == FROZEN_3)
        row = tl.zeros_like(token)
        group = tl.zeros_like(token)
        if GROUPED:
            group = tl.where(real, item, 0).to(tl.int64)
            row = group * pool_stride
        others, inside, _ = _find(
            token, pool, row, sizes, group, drawn, UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3, LISTED, SEARCH
        )
        strength = tl.full((), strength_high, tl.float64) + strength_low
        change, _, _ = _chances(others, position & ~frozen & (others > 0), strength, RATE)
        # The pool's table covers the token itself too, if it is in it: that share is given back.
        spread = change + change * inside.to(tl.float64) / tl.maximum(others, 1).to(tl.float64)
        spread = spread * alpha
        tl.store(background + place, spread.to(tl.float32), mask=real)
        tl.store(index + place, tl.where(position, group, -1), mask=real)
        tl.store(weights + place, (1 - spread).to(tl.float32), mask=real)
    else:
        tl.store(weights + place, 1.0, mask=real)
    if part == 0:
        tl.store(
            count, _count_positions(targets, stride_item, stride_step, batch, steps, IGNORED_0, IGNORED_1, COUNTED)
        )
        tl.store(ess, ess_value)


@triton.jit(do_not_specialize=[*VARYING, "number"])
def sample_kernel(
    targets, stride_item, stride_step, batch, steps,
    tokens, inputs, mask, labels, count, slots, weights, whole, ess, ess_value,
    pool, sizes, pool_stride, drawn, strength_high, strength_low,
    points, samples, sample_mask, log_prob, number, truth_weight, sample_weight,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, FILLER: tl.constexpr, BOS: tl.constexpr, COUNTED: tl.constexpr,
    FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    RATE: tl.constexpr, LISTED: tl.constexpr, GROUPED: tl.constexpr, SEARCH: tl.constexpr,
    WIDE: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """Some samples of one item."""
    item = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    step = tl.arange(0, WIDE)
    real = step < steps
    sample = part * TALL + tl.arange(0, TALL)
    drawn_here = (sample < number)[:, None] & real[None, :]
    where = (item * number + sample)[:, None] * steps + step[None, :]
    point = tl.load(points + where, mask=drawn_here, other=1.0)
    raw = tl.load(targets + item * stride_item + step * stride_step, mask=real, other=IGNORED_0)
    position = real & (raw != IGNORED_0) & (raw != IGNORED_1)
    token = tl.where(position, raw, FILLER)
    frozen = (token == FROZEN_0) | (token == FROZEN_1) | (token == FROZEN_2) | (token == FROZEN_3)
    row = item * 0
    group = item * 0
    if GROUPED:
        group = item
        row = item * pool_stride
    others, inside, own = _find(
        token, pool, row, sizes, group, drawn, UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3, LISTED, SEARCH
    )
    strength = tl.full((), strength_high, tl.float64) + strength_low
    change, stay, move = _chances(others, position & ~frozen & (others > 0), strength, RATE)

    changed = point < change[None, :]
    # Below the chance of a change, the same number over that chance is uniform again: it picks the new token.
    again = tl.where(changed, point, 0.0) / tl.where(change > 0, change, 1.0)[None, :]
    new = (again * tl.maximum(others, 1).to(tl.float64)[None, :]).to(tl.int64)
    new = tl.minimum(new, tl.maximum(others - 1, 0)[None, :])
    new = new + ((inside[None, :] > 0) & (new >= own[None, :])).to(tl.int64)
    if LISTED:
        new = tl.load(pool + row + new, mask=changed, other=0)
    else:
        new = new + (new >= UNDRAWN_0).to(tl.int64)
        new = new + (new >= UNDRAWN_1).to(tl.int64)
        new = new + (new >= UNDRAWN_2).to(tl.int64)
        new = new + (new >= UNDRAWN_3).to(tl.int64)
    new = tl.where(changed, new, token[None, :])
    tl.store(samples + where, new, mask=drawn_here)
    tl.store(sample_mask + where, tl.broadcast_to(position[None, :], (TALL, WIDE)).to(tl.uint8), mask=drawn_here)
    logs = tl.sum(tl.where(changed, move[None, :], stay[None, :]), 1)
    tl.store(log_prob + item * number + sample, logs, mask=sample < number)

    slot = (item * steps + step) * (number + 1)
    side = slot[None, :] + 1 + sample[:, None]
    tl.store(slots + side, tl.where(position[None, :], new, -100), mask=drawn_here)
    tl.store(weights + side, sample_weight, mask=drawn_here)
    if part == 0:
        label = tl.where(position, raw, -100)
        tl.store(slots + slot, label, mask=real)
        tl.store(weights + slot, truth_weight, mask=real)
        tl.store(tokens + item * steps + step, token, mask=real)
        if BOS is not None:
            tl.store(inputs + item * steps + step + 1, token, mask=step + 1 < steps)
            tl.store(inputs + item * steps, BOS)
        tl.store(mask + item * steps + step, position.to(tl.uint8), mask=real)
        tl.store(labels + item * steps + step, label, mask=real)
        tl.store(whole + item, 1.0)
        if item == 0:
            tl.store(
                count, _count_positions(targets, stride_item, stride_step, batch, steps, IGNORED_0, IGNORED_1, COUNTED)
            )
            tl.store(ess, ess_value)
