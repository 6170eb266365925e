"""Sequences without some of their tokens, in one launch: a token's new place is the number of those kept before it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.launching import launch

_WIDEST = 4096
_TILE = 1024


def fit(
    tokens: Tensor,  # (..., T)
    mask: Tensor | None,  # (..., T)
    dropped: tuple[int, ...],
) -> bool:
    """Whether the kernel can do it: a sequence must fit into a tile, and it knows three tokens to drop."""
    alike = mask is None or tokens.shape == mask.shape
    return tokens.numel() > 0 and tokens.shape[-1] <= _WIDEST and alike and len(dropped) <= 3


def compact(
    tokens: Tensor,  # (..., T)
    mask: Tensor | None,  # (..., T) bool
    dropped: tuple[int, ...],
) -> Tensor:  # (..., T)
    """The same in one launch."""
    width = tokens.shape[-1]
    sequences = tokens.numel() // width
    wide = triton.next_power_of_2(width)
    rows = max(1, _TILE // wide)
    moved = torch.empty(tokens.shape, dtype=tokens.dtype, device=tokens.device)
    first, second, third = (*dropped, 0, 0, 0)[:3]
    bits = None if mask is None else mask.contiguous().view(torch.uint8)
    given = (tokens.contiguous(), bits, moved, sequences, width, first, second, third)
    constants = {"MASKED": mask is not None, "DROPPED": len(dropped), "ROWS": rows, "WIDTH": wide}
    launch(_compact, (triton.cdiv(sequences, rows),), given, constants, num_warps=4, num_stages=1)
    return moved


@triton.jit
def _compact(
    tokens,  # (N, T)
    mask,  # (N, T)
    moved,  # (N, T)
    N,
    T,
    first,
    second,
    third,
    MASKED: tl.constexpr,
    DROPPED: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    at = tl.arange(0, WIDTH)[None, :]
    there = (row < N) & (at < T)
    token = tl.load(tokens + row * T + at, mask=there, other=-1)
    kept = token >= 0
    if MASKED:
        kept = tl.load(mask + row * T + at, mask=there, other=0) != 0
    if DROPPED > 0:
        kept = kept & (token != first)
    if DROPPED > 1:
        kept = kept & (token != second)
    if DROPPED > 2:
        kept = kept & (token != third)
    place = tl.cumsum(kept.to(tl.int32), axis=1)  # (ROWS, WIDTH), from 1
    number = tl.sum(kept.to(tl.int32), axis=1)[:, None]
    tl.store(moved + row * T + place - 1, token, mask=kept)
    tl.store(moved + row * T + at, -1, mask=there & (at >= number))
