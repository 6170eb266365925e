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
    """Some numbers; the program that is done last counts the draw."""
    seed = tl.load(state)
    draws = tl.load(state + 1)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    low = tl.zeros([BLOCK], tl.int64) + draws
    first, second, _, _ = tl.philox(
        seed, at.to(tl.uint32), (at >> 32).to(tl.uint32), low.to(tl.uint32), (low >> 32).to(tl.uint32)
    )
    bits = (first.to(tl.int64) << 21) + (second.to(tl.int64) >> 11)
    tl.store(made + at, bits.to(tl.float64) * 1.1102230246251565e-16, mask=at < count)
    done = tl.atomic_add(state + 2, 1)
    if done == tl.num_programs(0) - 1:
        tl.store(state + 1, draws + 1)
        tl.store(state + 2, 0)
