"""From targets to what should be predicted, in one launch: the truth, its expectation under `Hamming`, or samples.

Each kernel reads the targets themselves and writes all that a training step needs of them. The number of positions is
counted by one more program beside the others, which costs less than a second launch.

Let a position have m others to change into. With x uniform below m + exp(1 / tau), it changes if x < m, and then into
the other number floor(x): one product decides both. Where the rate of a change is given, x is below m / rate instead.
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

from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.kernels.sizes import blocks, power_of_2
from seqsmooth.ops.positions import Positions, Reading, Source

# Not worth a compilation each.
VARYING = ["stride_item", "stride_step", "batch", "steps", "pool_stride", "drawn", "vocab_size"]
VARYING += ["law_0", "law_1", "law_2"]
NOWHERE = 2**31 - 1  # stands for an id that is not there: no token is as large


@dataclass(frozen=True, eq=False)
class Sites:
    """Where a sequence may change, how likely, and into what: `Hamming` as its kernels see it.

    The pool is a list of tokens (`ids` and `sizes`), or a known number of tokens (`sizes`) that has all of the targets
    but the `undrawn` ones, or the whole vocabulary (`vocab_size`) without `undrawn`.
    """

    frozen: tuple[int, ...]
    tau: float | None
    rate: float | None
    ids: Tensor | None  # (G, P) int64, ascending and distinct
    sizes: Tensor | None  # (G,) int64
    vocab_size: int
    undrawn: tuple[int, ...]
    places: Tensor | None = None  # (V,) int32, where each token is in the only list, -1 for nowhere

    def arguments(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """What both kernels take, and the constants among it."""
        groups, longest = (1, 0) if self.ids is None else self.ids.shape
        drawn = self.vocab_size - len(self.undrawn)
        given = (self.ids, self.sizes, self.places, longest, drawn, self.vocab_size, *map(_bits, self._law()))
        return given, {
            **_numbered("FROZEN", self.frozen, 4),
            **_numbered("UNDRAWN", self.undrawn, 4),
            "RATE": self.rate is not None,
            "SIZED": self.sizes is not None,
            "LISTED": self.ids is not None,
            "PLACED": self.places is not None,
            "GROUPED": groups > 1,
            "SEARCH": longest.bit_length(),
        }

    def _law(self) -> tuple[float, float, float]:
        """What the kernels need of the strength; infinity is as good as any number there."""
        if self.rate is not None:
            inverse = 1 / self.rate if self.rate > 0 else math.inf
            # Where a change is certain, no logarithm of the other chance is taken.
            return self.rate, inverse, math.log1p(-self.rate) if self.rate < 1 else 0.0
        power = 1 / _given(self.tau)
        return math.exp(power) if power < 709 else math.inf, math.exp(-power), -power


@dataclass(frozen=True, eq=False)
class Sampled:
    """Samples of `Hamming`."""

    reading: Reading
    tokens: Tensor  # (B, L, T) int64
    mask: Tensor  # (B, L, T) bool
    log_prob: Tensor | None  # (B, L) float64, where asked for


def truth(source: Source) -> Reading:
    """All mass on the ground truth."""
    out, grid = _allocate(source, 1, math.inf), _blocks(source)
    (given, constants), (nowhere, never) = out.arguments(source), _nowhere()
    launch(
        target_kernel, grid, (*given, *nowhere, None, None, 0.0), constants | never | {"SMOOTHED": False, "BLOCK": 128}
    )
    return out.reading()


def expectation(source: Source, sites: Sites, alpha: float) -> tuple[Reading, Tensor, Tensor]:
    """The closed form: the mass on the truth, the number of each position's pool (B, T), and the mass on that."""
    out, grid = _allocate(source, 1, math.inf), _blocks(source)
    index, background = torch.empty_like(out.labels), torch.empty_like(out.labels, dtype=torch.float32)
    (given, constants), (places, more) = out.arguments(source), sites.arguments()
    launch(
        target_kernel,
        grid,
        (*given, *places, background, index, alpha),
        constants | more | {"SMOOTHED": True, "BLOCK": 128},
    )
    return out.reading(), index, background


def samples(
    source: Source,
    sites: Sites,
    points: Tensor,  # (B, L, T) float64, uniform in [0, 1)
    alpha: float,
    *,
    probable: bool,
) -> Sampled:
    """Samples of equal weight beside the truth; with the logarithms of their probability if that is wanted."""
    batch, number, steps = points.shape
    out = _allocate(source, number + 1, float(number))
    tokens = torch.empty_like(points, dtype=torch.int64)
    mask = torch.empty_like(points, dtype=torch.bool)
    log_prob = torch.empty(batch, number, dtype=torch.float64, device=points.device) if probable else None
    wide = power_of_2(steps)
    tall = min(power_of_2(number), max(1, 512 // wide))
    (given, constants), (places, more) = out.arguments(source), sites.arguments()
    weights = (1 - alpha, alpha / number)
    launch(
        sample_kernel,
        (batch + 1, blocks(number, tall)),
        (*given, *places, points, tokens, mask.view(torch.uint8), log_prob, number, *weights),
        constants | more | {"PROBABLE": probable, "WIDE": wide, "TALL": tall},
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

    def arguments(self, source: Source) -> tuple[tuple[object, ...], dict[str, object]]:
        """What both kernels take, and the constants among it."""
        targets, ignored = source.targets, source.ignored
        assert len(ignored) <= 2
        written = (self.tokens, self.inputs, self.mask.view(torch.uint8), self.labels, self.count, self.ids)
        given = (targets, *targets.stride(), *targets.shape, *written, self.weights, self.whole, self.ess, self.value)
        constants: dict[str, object] = {"FILLER": source.filler, "BOS": source.bos}
        return given, constants | _numbered("IGNORED", ignored, 2) | _tile(*targets.shape)

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
    return (blocks(source.targets.numel(), 128) + 1,)


def _tile(batch: int, steps: int) -> dict[str, object]:
    """How much of the targets is counted at once."""
    long = min(power_of_2(steps), 4096)
    return {"MANY": min(power_of_2(batch), 4096 // long), "LONG": long}


def _bits(value: float) -> int:
    """A double as a whole number, for a kernel is handed floats in single precision."""
    bits: int = struct.unpack("q", struct.pack("d", value))[0]
    return bits


@cache
def _nowhere() -> tuple[tuple[object, ...], dict[str, object]]:
    """No place may change."""
    return Sites((), None, 0.0, None, None, 0, ()).arguments()


@cache
def _numbered(name: str, ids: tuple[int, ...], most: int) -> dict[str, object]:
    padded = (*ids, *[NOWHERE] * most)[:most]
    return {f"{name}_{number}": token for number, token in enumerate(padded)}


def _given(value: float | None) -> float:
    assert value is not None
    return value


@triton.jit
def _double(bits):
    """The double that a whole number stands for."""
    return (tl.full((), 0, tl.int64) + bits).to(tl.float64, bitcast=True)


@triton.jit
def _count_positions(
    targets, stride_item, stride_step, batch, steps, count, ess, ess_value,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, MANY: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Write the number of positions of the whole batch, and the effective sample size."""
    total = tl.zeros((MANY, LONG), tl.int32)
    for first in range(0, batch, MANY):
        item = first + tl.arange(0, MANY)
        for start in range(0, steps, LONG):
            step = start + tl.arange(0, LONG)
            where = item.to(tl.int64)[:, None] * stride_item + step[None, :] * stride_step
            there = (item < batch)[:, None] & (step < steps)[None, :]
            raw = tl.load(targets + where, mask=there, other=IGNORED_0)
            total += ((raw != IGNORED_0) & (raw != IGNORED_1)).to(tl.int32)
    tl.store(count, tl.sum(total).to(tl.int64))
    tl.store(ess, ess_value)


@triton.jit
def _find(
    tokens, pool, row, sizes, group, places, drawn, vocab_size,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    SIZED: tl.constexpr, LISTED: tl.constexpr, PLACED: tl.constexpr, SEARCH: tl.constexpr,
):  # fmt: skip
    """The number of other tokens in the pool, whether a token is in it (0 or 1), and its place there."""
    size = tl.load(sizes + group) if SIZED else drawn
    if PLACED:
        known = (tokens >= 0) & (tokens < vocab_size)
        place = tl.load(places + tokens, mask=known, other=-1).to(tl.int64)
        inside = (place >= 0).to(tl.int64)
    elif LISTED:
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
        undrawn = (tokens == UNDRAWN_0) | (tokens == UNDRAWN_1) | (tokens == UNDRAWN_2) | (tokens == UNDRAWN_3)
        inside = 1 - undrawn.to(tl.int64)
        place = tokens - (tokens > UNDRAWN_0).to(tl.int64) - (tokens > UNDRAWN_1).to(tl.int64)
        place = place - (tokens > UNDRAWN_2).to(tl.int64) - (tokens > UNDRAWN_3).to(tl.int64)
    return size - inside, inside, place


@triton.jit
def _range(number, law_0, law_1, RATE: tl.constexpr):
    """Below what x is uniform: so many of its values are others to change into, the rest is none."""
    return number * _double(law_1) if RATE else number + _double(law_0)


@triton.jit(do_not_specialize=VARYING)
def target_kernel(
    targets, stride_item, stride_step, batch, steps,
    tokens, inputs, mask, labels, count, slots, weights, whole, ess, ess_value,
    pool, sizes, places, pool_stride, drawn, vocab_size, law_0, law_1, law_2,
    background, index, alpha,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, FILLER: tl.constexpr, BOS: tl.constexpr,
    MANY: tl.constexpr, LONG: tl.constexpr,
    FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    RATE: tl.constexpr, SIZED: tl.constexpr, LISTED: tl.constexpr, PLACED: tl.constexpr, GROUPED: tl.constexpr,
    SEARCH: tl.constexpr, SMOOTHED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of positions: the truth, and (`SMOOTHED`) the closed form of `Hamming`. The last program counts."""
    part = tl.program_id(0)
    if part == tl.num_programs(0) - 1:
        _count_positions(
            targets, stride_item, stride_step, batch, steps, count, ess, ess_value, IGNORED_0, IGNORED_1, MANY, LONG
        )
    place = part * BLOCK + tl.arange(0, BLOCK)  # of the last program, none is real
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
            token, pool, row, sizes, group, places, drawn, vocab_size, UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3,
            SIZED, LISTED, PLACED, SEARCH,
        )  # fmt: skip
        # The pool's table covers the token itself too, if it is in it: m others take m + 1 shares, one of them back.
        width = _range(tl.maximum(others, 1).to(tl.float64), law_0, law_1, RATE)
        spread = alpha * ((others + inside).to(tl.float64) / width)
        spread = tl.where(position & ~frozen & (others > 0), spread, 0.0)
        tl.store(background + place, spread.to(tl.float32), mask=real)
        tl.store(index + place, tl.where(position, group, -1), mask=real)
        tl.store(weights + place, (1 - spread).to(tl.float32), mask=real)
    else:
        tl.store(weights + place, 1.0, mask=real)


@triton.jit(do_not_specialize=[*VARYING, "number"])
def sample_kernel(
    targets, stride_item, stride_step, batch, steps,
    tokens, inputs, mask, labels, count, slots, weights, whole, ess, ess_value,
    pool, sizes, places, pool_stride, drawn, vocab_size, law_0, law_1, law_2,
    points, samples, sample_mask, log_prob, number, truth_weight, sample_weight,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, FILLER: tl.constexpr, BOS: tl.constexpr,
    MANY: tl.constexpr, LONG: tl.constexpr,
    FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    RATE: tl.constexpr, SIZED: tl.constexpr, LISTED: tl.constexpr, PLACED: tl.constexpr, GROUPED: tl.constexpr,
    SEARCH: tl.constexpr, PROBABLE: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """Some samples of one item. One item too many counts."""
    item = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    existing = item < batch
    if (part == 0) & (item == batch):
        _count_positions(
            targets, stride_item, stride_step, batch, steps, count, ess, ess_value, IGNORED_0, IGNORED_1, MANY, LONG
        )
    step = tl.arange(0, WIDE)
    real = existing & (step < steps)
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
        group = tl.where(existing, item, 0)
        row = group * pool_stride
    others, inside, own = _find(
        token, pool, row, sizes, group, places, drawn, vocab_size, UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3,
        SIZED, LISTED, PLACED, SEARCH,
    )  # fmt: skip
    possible = position & ~frozen & (others > 0)
    others = tl.maximum(others, 1)
    m = others.to(tl.float64)

    x = point * _range(m, law_0, law_1, RATE)[None, :]
    low = point < _double(law_0) if RATE else x < m[None, :]
    changed = possible[None, :] & low
    new = tl.minimum(tl.where(changed, x, 0.0).to(tl.int64), others[None, :] - 1)
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
    if PROBABLE:
        if RATE:
            stay = tl.where(possible, _double(law_2), 0.0)
            move = -tl.log(m * _double(law_1))
        else:
            stay = -tl.log(tl.where(possible, 1 + m * _double(law_1), 1.0))
            move = stay + _double(law_2)
        logs = tl.sum(tl.where(changed, move[None, :], stay[None, :]), 1)
        tl.store(log_prob + item * number + sample, logs, mask=existing & (sample < number))

    slot = (item * steps + step) * (number + 1)
    side = slot[None, :] + 1 + sample[:, None]
    tl.store(slots + side, tl.where(position[None, :], new, -100), mask=drawn_here)
    tl.store(weights + side, sample_weight, mask=drawn_here)
    if (part == 0) & existing:
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
