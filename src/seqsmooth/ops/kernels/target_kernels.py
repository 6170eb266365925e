"""Kernels over a batch of targets: what they hold, and what should be predicted there.

Each reads the targets themselves and writes all that a training step needs of them. The number of positions is counted
by one more program beside the others, which costs less than a second launch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from seqsmooth.ops.kernels.philox import end_draw, uniforms_at
from seqsmooth.ops.kernels.pools import counted, packed, put_up
from seqsmooth.ops.kernels.sites import double, find_others, is_frozen, range_of, token_at

# Not worth a compilation each.
VARYING = ["stride_item", "stride_step", "batch", "steps", "pool_stride", "drawn", "vocab_size"]
VARYING += ["law_0", "law_1", "law_2"]


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
def _read(
    place, targets, stride_item, stride_step, batch, steps, tokens, inputs, mask, labels, weights, whole,
    pool, sizes, places, pool_stride, drawn, vocab_size, law_0, law_1, background, index, alpha,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, FILLER: tl.constexpr, BOS: tl.constexpr,
    FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    RATE: tl.constexpr, SIZED: tl.constexpr, LISTED: tl.constexpr, PLACED: tl.constexpr, GROUPED: tl.constexpr,
    SEARCH: tl.constexpr, SMOOTHED: tl.constexpr, SETS: tl.constexpr,
):  # fmt: skip
    """Some positions: the truth, and (`SMOOTHED`) the closed form of `Hamming`.

    The row of a pool has a mass of 1, or (`SETS`) as much as the pool has tokens. Of the truth alone, the share alpha
    is set apart.
    """
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
        frozen = is_frozen(token, FROZEN_0, FROZEN_1, FROZEN_2, FROZEN_3)
        row = tl.zeros_like(token)
        group = tl.zeros_like(token)
        if GROUPED:
            group = tl.where(real, item, 0).to(tl.int64)
            row = group * pool_stride
        others, inside, _ = find_others(
            token, pool, row, sizes, group, places, drawn, vocab_size, UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3,
            SIZED, LISTED, PLACED, SEARCH,
        )  # fmt: skip
        # The pool's table covers the token itself too, if it is in it: m others take m + 1 shares, one of them back.
        width = range_of(tl.maximum(others, 1).to(tl.float64), law_0, law_1, RATE)
        spread = alpha * ((others + inside).to(tl.float64) / width)
        spread = tl.where(position & ~frozen & (others > 0), spread, 0.0)
        level = spread / tl.maximum(others + inside, 1).to(tl.float64) if SETS else spread
        tl.store(background + place, level.to(tl.float32), mask=real)
        tl.store(index + place, tl.where(position, group, -1), mask=real)
        tl.store(weights + place, (1 - spread).to(tl.float32), mask=real)
    else:
        tl.store(weights + place, 1 - alpha, mask=real)
        if background is not None:
            tl.store(background + place, alpha, mask=real)


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
    SEARCH: tl.constexpr, SMOOTHED: tl.constexpr, SETS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of positions. The last program has none, and counts."""
    part = tl.program_id(0)
    if part == tl.num_programs(0) - 1:
        _count_positions(
            targets, stride_item, stride_step, batch, steps, count, ess, ess_value, IGNORED_0, IGNORED_1, MANY, LONG
        )
    _read(
        part * BLOCK + tl.arange(0, BLOCK),
        targets, stride_item, stride_step, batch, steps, tokens, inputs, mask, labels, weights, whole,
        pool, sizes, places, pool_stride, drawn, vocab_size, law_0, law_1, background, index, alpha,
        IGNORED_0, IGNORED_1, FILLER, BOS, FROZEN_0, FROZEN_1, FROZEN_2, FROZEN_3,
        UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3, RATE, SIZED, LISTED, PLACED, GROUPED, SEARCH, SMOOTHED, SETS,
    )  # fmt: skip


@triton.jit(do_not_specialize=[*VARYING, "width"])
def batch_kernel(
    targets, stride_item, stride_step, batch, steps,
    tokens, inputs, mask, labels, count, slots, weights, whole, ess, ess_value,
    words, flags, eights, bits, width, masses, vocab_size, law_0, law_1, background, index, alpha,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, FILLER: tl.constexpr, BOS: tl.constexpr,
    MANY: tl.constexpr, LONG: tl.constexpr,
    FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    RATE: tl.constexpr, BLOCKS: tl.constexpr, WORDS: tl.constexpr, CHUNK: tl.constexpr, PART: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The closed form over the batch's own tokens: parts of their set, as bits, and blocks of positions.

    Every program finds out by itself how many tokens are distinct, for that takes less time than a second launch. The
    last one counts the positions. What a token of the set is worth is in the weights of the positions.
    """
    part = tl.program_id(0)
    parts = tl.num_programs(0) - 1
    if part == parts:
        _count_positions(
            targets, stride_item, stride_step, batch, steps, count, ess, ess_value, IGNORED_0, IGNORED_1, MANY, LONG
        )
        return
    words += part.to(tl.int64) * (BLOCKS * WORDS)
    flags += part.to(tl.int64) * (BLOCKS * WORDS * 4)
    put_up(
        targets, stride_item, stride_step, steps, batch * steps, vocab_size, words, flags,
        A, B, C, D, E, BLOCKS, WORDS, CHUNK,
    )  # fmt: skip
    byte = part * PART + tl.arange(0, PART)
    mine = tl.load(eights + part.to(tl.int64) * (BLOCKS * WORDS // 2) + byte, mask=byte < width, other=0)
    size, _ = counted(words, 0, BLOCKS, WORDS)
    tl.store(bits + byte, packed(mine), mask=byte < width)
    if part == 0:
        tl.store(masses, size.to(tl.float32))
    for start in range(part * BLOCK, batch * steps, parts * BLOCK):
        _read(
            start + tl.arange(0, BLOCK),
            targets, stride_item, stride_step, batch, steps, tokens, inputs, mask, labels, weights, whole,
            None, None, None, 0, size.to(tl.int64), vocab_size, law_0, law_1, background, index, alpha,
            IGNORED_0, IGNORED_1, FILLER, BOS, FROZEN_0, FROZEN_1, FROZEN_2, FROZEN_3,
            UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3, RATE, False, False, False, False, 0, True, True,
        )  # fmt: skip


@triton.jit(do_not_specialize=[*VARYING, "number"])
def sample_kernel(
    targets, stride_item, stride_step, batch, steps,
    tokens, inputs, mask, labels, count, slots, weights, whole, ess, ess_value,
    pool, sizes, places, pool_stride, drawn, vocab_size, law_0, law_1, law_2,
    points, state, samples, sample_mask, log_prob, number, truth_weight, sample_weight,
    IGNORED_0: tl.constexpr, IGNORED_1: tl.constexpr, FILLER: tl.constexpr, BOS: tl.constexpr,
    MANY: tl.constexpr, LONG: tl.constexpr,
    FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    RATE: tl.constexpr, SIZED: tl.constexpr, LISTED: tl.constexpr, PLACED: tl.constexpr, GROUPED: tl.constexpr,
    SEARCH: tl.constexpr, DRAWN: tl.constexpr, GIVEN: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """Some samples of one item, from points that are given or made here. One item too many counts.

    They are written as slots of a target, and (`DRAWN`) as sequences with the logarithm of their probability.
    """
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
    if GIVEN:
        point = tl.load(points + where, mask=drawn_here, other=1.0)
    else:
        point = uniforms_at(state, where)
        end_draw(state, tl.num_programs(0) * tl.num_programs(1))
    raw = tl.load(targets + item * stride_item + step * stride_step, mask=real, other=IGNORED_0)
    position = real & (raw != IGNORED_0) & (raw != IGNORED_1)
    token = tl.where(position, raw, FILLER)
    frozen = is_frozen(token, FROZEN_0, FROZEN_1, FROZEN_2, FROZEN_3)
    row = item * 0
    group = item * 0
    if GROUPED:
        group = tl.where(existing, item, 0)
        row = group * pool_stride
    others, inside, own = find_others(
        token, pool, row, sizes, group, places, drawn, vocab_size, UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3,
        SIZED, LISTED, PLACED, SEARCH,
    )  # fmt: skip
    possible = position & ~frozen & (others > 0)
    others = tl.maximum(others, 1)
    m = others.to(tl.float64)

    x = point * range_of(m, law_0, law_1, RATE)[None, :]
    low = point < double(law_0) if RATE else x < m[None, :]
    changed = possible[None, :] & low
    new = tl.minimum(tl.where(changed, x, 0.0).to(tl.int64), others[None, :] - 1)
    new = new + ((inside[None, :] > 0) & (new >= own[None, :])).to(tl.int64)
    new = token_at(new, pool, row, changed, UNDRAWN_0, UNDRAWN_1, UNDRAWN_2, UNDRAWN_3, LISTED)
    new = tl.where(changed, new, token[None, :])
    if DRAWN:
        tl.store(samples + where, new, mask=drawn_here)
        tl.store(sample_mask + where, tl.broadcast_to(position[None, :], (TALL, WIDE)).to(tl.uint8), mask=drawn_here)
        if RATE:
            stay = tl.where(possible, double(law_2), 0.0)
            move = -tl.log(m * double(law_1))
        else:
            stay = -tl.log(tl.where(possible, 1 + m * double(law_1), 1.0))
            move = stay + double(law_2)
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
