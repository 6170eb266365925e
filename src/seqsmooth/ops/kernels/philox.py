"""Uniform numbers by counting, the count on the device."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.sizes import blocks

BLOCK = 1024


def uniforms(
    state: Tensor,  # (3,) int64: seed, draws so far, programs done
    shape: tuple[int, ...],
) -> Tensor:  # of the shape, float64
    """The next draw."""
    made = torch.empty(shape, dtype=torch.float64, device=state.device)
    uniform_kernel[(max(1, blocks(made.numel(), BLOCK)),)](state, made, made.numel(), BLOCK=BLOCK, num_warps=4)
    return made


@triton.jit
def uniform(state, at):
    """The numbers of the present draw at some places, of 53 bits."""
    place = at.to(tl.int64)
    draws = tl.zeros_like(place) + tl.load(state + 1)
    first, second, _, _ = tl.philox(
        tl.load(state),
        place.to(tl.uint32),
        (place >> 32).to(tl.uint32),
        draws.to(tl.uint32),
        (draws >> 32).to(tl.uint32),
    )
    bits = (first.to(tl.int64) << 21) + (second.to(tl.int64) >> 11)
    return bits.to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def count_draw(state):
    """At the end of every program of a launch: the last to get here counts the draw, which all others have read."""
    done = tl.atomic_add(state + 2, 1)
    if done == tl.num_programs(0) * tl.num_programs(1) - 1:
        tl.store(state + 1, tl.load(state + 1) + 1)
        tl.store(state + 2, 0)


@triton.jit
def uniform_kernel(state, made, count, BLOCK: tl.constexpr):
    """Some numbers."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(made + at, uniform(state, at), mask=at < count)
    count_draw(state)
