"""Additive attention of one decoding step in one launch each way, and the gradient of its keys over all steps.

The twin of `seqsmooth.ops.attention`. A program serves one item: its places fit in a tile, and the features pass by in
blocks. The gradient of the keys is a sum over steps, so it waits until all of them are known and is made in one launch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.pointwise import tanh

TILE = 16384
"""Numbers in a tile: places times the features of a block."""
WARPS = 16
_MASKED = tl.constexpr(-3.0e38)  # finite: an item without a place has equal weights, not NaN


@triton.jit
def _forward(
    query,
    keys,
    score,
    values,
    mask,
    context,
    weights,
    query_stride,
    context_stride,
    R: tl.constexpr,
    A: tl.constexpr,
    D: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    item = tl.program_id(0).to(tl.int64)
    r = tl.arange(0, BLOCK_R)
    inside = r < R
    parts = tl.zeros([BLOCK_R, BLOCK_A], dtype=tl.float32)  # summed once, for a sum over threads is slow
    for start in range(0, A, BLOCK_A):
        a = start + tl.arange(0, BLOCK_A)
        q = tl.load(query + item * query_stride + a, mask=a < A, other=0.0).to(tl.float32)
        v = tl.load(score + a, mask=a < A, other=0.0).to(tl.float32)
        both = inside[:, None] & (a < A)[None, :]
        k = tl.load(keys + (item * R + r)[:, None] * A + a[None, :], mask=both, other=0.0).to(tl.float32)
        parts += tanh(k + q[None, :]) * v[None, :]
    energy = tl.sum(parts, axis=1)
    kept = tl.load(mask + item * R + r, mask=inside, other=0) != 0
    energy = tl.where(kept, energy, _MASKED)
    energy = tl.where(inside, energy, -float("inf"))
    share = tl.exp(energy - tl.max(energy, axis=0))
    share = share / tl.sum(share, axis=0)
    tl.store(weights + item * R + r, share, mask=inside)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        both = inside[:, None] & (d < D)[None, :]
        value = tl.load(values + (item * R + r)[:, None] * D + d[None, :], mask=both, other=0.0).to(tl.float32)
        total = tl.sum(share[:, None] * value, axis=0)
        tl.store(context + item * context_stride + d, total.to(context.dtype.element_ty), mask=d < D)


@triton.jit
def _backward(
    context_grad,
    query,
    keys,
    score,
    values,
    mask,
    weights,
    query_grad,
    energy_grad,
    context_stride,
    query_stride,
    query_grad_stride,
    R: tl.constexpr,
    A: tl.constexpr,
    D: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    item = tl.program_id(0).to(tl.int64)
    r = tl.arange(0, BLOCK_R)
    inside = r < R
    parts = tl.zeros([BLOCK_R, BLOCK_D], dtype=tl.float32)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        both = inside[:, None] & (d < D)[None, :]
        value = tl.load(values + (item * R + r)[:, None] * D + d[None, :], mask=both, other=0.0).to(tl.float32)
        along = tl.load(context_grad + item * context_stride + d, mask=d < D, other=0.0).to(tl.float32)
        parts += value * along[None, :]
    share_grad = tl.sum(parts, axis=1)
    share = tl.load(weights + item * R + r, mask=inside, other=0.0)
    kept = tl.load(mask + item * R + r, mask=inside, other=0) != 0
    slope = share * (share_grad - tl.sum(share * share_grad, axis=0))
    slope = tl.where(kept, slope, 0.0)
    tl.store(energy_grad + item * R + r, slope, mask=inside)
    for start in range(0, A, BLOCK_A):
        a = start + tl.arange(0, BLOCK_A)
        q = tl.load(query + item * query_stride + a, mask=a < A, other=0.0).to(tl.float32)
        v = tl.load(score + a, mask=a < A, other=0.0).to(tl.float32)
        both = inside[:, None] & (a < A)[None, :]
        k = tl.load(keys + (item * R + r)[:, None] * A + a[None, :], mask=both, other=0.0).to(tl.float32)
        bent = tanh(k + q[None, :])
        total = tl.sum(slope[:, None] * (1 - bent * bent), axis=0) * v
        tl.store(query_grad + item * query_grad_stride + a, total.to(query_grad.dtype.element_ty), mask=a < A)


@triton.jit
def _keys_backward(
    query,
    keys,
    score,
    energy_grad,
    keys_grad,
    score_grad,
    step_stride,
    query_stride,
    STEPS: tl.constexpr,
    R: tl.constexpr,
    A: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_A: tl.constexpr,
):
    item = tl.program_id(0).to(tl.int64)
    items = tl.num_programs(0).to(tl.int64)
    r = tl.arange(0, BLOCK_R)
    a = tl.program_id(1) * BLOCK_A + tl.arange(0, BLOCK_A)
    inside = r < R
    both = inside[:, None] & (a < A)[None, :]
    place = (item * R + r)[:, None] * A + a[None, :]
    k = tl.load(keys + place, mask=both, other=0.0).to(tl.float32)
    v = tl.load(score + a, mask=a < A, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK_R, BLOCK_A], dtype=tl.float32)
    parts = tl.zeros([BLOCK_R, BLOCK_A], dtype=tl.float32)
    for t in range(STEPS):
        q = tl.load(query + t * step_stride + item * query_stride + a, mask=a < A, other=0.0).to(tl.float32)
        slope = tl.load(energy_grad + (t * items + item) * R + r, mask=inside, other=0.0)
        bent = tanh(k + q[None, :])
        total += slope[:, None] * (1 - bent * bent)
        parts += slope[:, None] * bent
    tl.store(keys_grad + place, (total * v[None, :]).to(keys_grad.dtype.element_ty), mask=both)
    tl.store(score_grad + item * A + a, tl.sum(parts, axis=0), mask=a < A)


def forward(
    query: Tensor,  # (B, A), rows may be apart
    keys: Tensor,  # (B, R, A)
    score: Tensor,  # (A,)
    values: Tensor,  # (B, R, D)
    mask: Tensor,  # (B, R) uint8
    context: Tensor,  # (B, D) to write, rows may be apart
    weights: Tensor,  # (B, R) float32 to write
) -> None:
    """Attend: writes the context and the weights it is made with."""
    items, places, size = keys.shape
    width = values.shape[-1]
    block_r, block_a, block_d = _blocks(places, size, width)
    _forward[(items,)](
        query,
        keys,
        score,
        values,
        mask,
        context,
        weights,
        query.stride(0),
        context.stride(0),
        R=places,
        A=size,
        D=width,
        BLOCK_R=block_r,
        BLOCK_A=block_a,
        BLOCK_D=block_d,
        num_warps=WARPS,
    )


def backward(
    context_grad: Tensor,  # (B, D), rows may be apart
    query: Tensor,  # (B, A), rows may be apart
    keys: Tensor,  # (B, R, A)
    score: Tensor,  # (A,)
    values: Tensor,  # (B, R, D)
    mask: Tensor,  # (B, R) uint8
    weights: Tensor,  # (B, R) float32
    query_grad: Tensor,  # (B, A) to write, rows may be apart
    energy_grad: Tensor,  # (B, R) float32 to write
) -> None:
    """The gradient of the query, and that of the energies, from which `keys_backward` makes the others."""
    items, places, size = keys.shape
    width = values.shape[-1]
    block_r, block_a, block_d = _blocks(places, size, width)
    _backward[(items,)](
        context_grad,
        query,
        keys,
        score,
        values,
        mask,
        weights,
        query_grad,
        energy_grad,
        context_grad.stride(0),
        query.stride(0),
        query_grad.stride(0),
        R=places,
        A=size,
        D=width,
        BLOCK_R=block_r,
        BLOCK_A=block_a,
        BLOCK_D=block_d,
        num_warps=WARPS,
    )


def keys_backward(
    query: Tensor,  # (T, B, A), rows and steps may be apart
    keys: Tensor,  # (B, R, A)
    score: Tensor,  # (A,)
    energy_grad: Tensor,  # (T, B, R) float32
) -> tuple[Tensor, Tensor]:  # (B, R, A), (A,)
    """The gradients of the keys and of the score vector, summed over the steps."""
    steps = query.shape[0]
    items, places, size = keys.shape
    block_r, _, _ = _blocks(places, size, size)
    block_a = min(max(16, 2048 // block_r), triton.next_power_of_2(size))
    keys_grad = torch.empty_like(keys)
    partial = torch.empty(items, size, dtype=torch.float32, device=keys.device)
    _keys_backward[(items, triton.cdiv(size, block_a))](
        query,
        keys,
        score,
        energy_grad,
        keys_grad,
        partial,
        query.stride(0),
        query.stride(1),
        STEPS=steps,
        R=places,
        A=size,
        BLOCK_R=block_r,
        BLOCK_A=block_a,
        num_warps=4,
    )
    return keys_grad, partial.sum(0).to(score.dtype)


def _blocks(places: int, size: int, width: int) -> tuple[int, int, int]:
    block_r = max(16, triton.next_power_of_2(places))
    across = max(8, TILE // block_r)
    return block_r, min(across, triton.next_power_of_2(size)), min(across, triton.next_power_of_2(width))
