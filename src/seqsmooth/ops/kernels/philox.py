"""Uniform numbers by counting, the count on the device."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.kernels.sizes import blocks

BLOCK = 1024


def uniforms(
    state: Tensor,  # (3,) int64: seed, draws so far, programs done
    shape: tuple[int, ...],
) -> Tensor:  # of the shape, float64
    """The next draw."""
    made = torch.empty(shape, dtype=torch.float64, device=state.device)
    programs = max(1, blocks(made.numel(), BLOCK))
    launch(uniform_kernel, (programs,), (state, made, made.numel()), {"BLOCK": BLOCK}, num_warps=4)
    return made


@triton.jit
def uniform_kernel(state, made, count, BLOCK: tl.constexpr):
    """Some numbers."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(made + at, uniforms_at(state, at), mask=at < count)
    end_draw(state, tl.num_programs(0))


@triton.jit
def uniforms_at(state, at):
    """The numbers of the next draw at some places (int64). Every program of the launch must end the draw."""
    draws = tl.zeros_like(at) + tl.load(state + 1)
    first, second, _, _ = tl.philox(
        tl.load(state), at.to(tl.uint32), (at >> 32).to(tl.uint32), draws.to(tl.uint32), (draws >> 32).to(tl.uint32)
    )
    bits = (first.to(tl.int64) << 21) + (second.to(tl.int64) >> 11)
    return bits.to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def end_draw(state, programs):
    """Count the draw, in the program that is done last: then all have read how many there were."""
    tl.debug_barrier()  # all warps of this one, too
    if tl.atomic_add(state + 2, 1) == programs - 1:
        tl.store(state + 1, tl.load(state + 1) + 1)
        tl.store(state + 2, 0)
