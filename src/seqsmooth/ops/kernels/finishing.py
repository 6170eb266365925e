"""What comes after the losses of rows: their sum, gradients scaled by what came from above, ignored rows emptied."""

from __future__ import annotations

import triton
import triton.language as tl

from seqsmooth.ops.kernels.target_parts import share_of


@triton.jit
def summed(smoothed, nll, count, items, factor, total, total_nll, COUNTED: tl.constexpr, BLOCK: tl.constexpr):
    """The sums of the smoothed losses and of the NLLs, divided by the number of items."""
    at = tl.arange(0, BLOCK)
    first = tl.zeros([BLOCK], tl.float32)
    second = tl.zeros([BLOCK], tl.float32)
    for start in range(0, count, BLOCK):
        inside = start + at < count
        first += tl.load(smoothed + start + at, mask=inside, other=0.0)
        second += tl.load(nll + start + at, mask=inside, other=0.0)
    scale = share_of(items, factor, COUNTED)
    tl.store(total, scale * tl.sum(first, 0))
    tl.store(total_nll, scale * tl.sum(second, 0))


@triton.jit
def _rescale(values, size, scale, BLOCK: tl.constexpr):
    """Multiply in place, every program its blocks."""
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(0, tl.cdiv(size, step)):
        value = tl.load(values + at, mask=at < size, other=0.0).to(tl.float32)
        tl.store(values + at, (scale * value).to(values.dtype.element_ty), mask=at < size)
        at += step


@triton.jit
def rescaled(
    first, second, third, first_size, second_size, third_size, upstream, items, factor,
    COUNTED: tl.constexpr, FOLD: tl.constexpr, NUMBER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Multiply by what came from above, and if not done before, divide by the number of items; by 1 is by nothing."""
    scale = tl.load(upstream).to(tl.float32)
    if not FOLD:
        scale *= share_of(items, factor, COUNTED)
    if scale != 1:
        _rescale(first, first_size, scale, BLOCK)
        if NUMBER > 1:
            _rescale(second, second_size, scale, BLOCK)
        if NUMBER > 2:
            _rescale(third, third_size, scale, BLOCK)


@triton.jit
def emptied(states, clean, state, width, BLOCK: tl.constexpr):
    """Copy a row, or write zeros where the loss ignored it."""
    row = tl.program_id(0).to(tl.int64)
    end = tl.where(tl.load(state + row) < float("inf"), width, 0)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(states + row * width + at, mask=at < end, other=0.0)
        tl.store(clean + row * width + at, value, mask=at < width)
