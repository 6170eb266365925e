"""What the kernels of n-gram rewards share: a candidate and its references as the rows of one tile.

Row 0 is the candidate and row r its r-th reference. N-grams are compared token by token: position i of one sequence
lies along the tile while position j of the other is stepped through, and tokens j to j+3 travel along in registers. So
nothing is packed, any id is exact, and one step costs one read.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

ORDER = 4
"""The longest n-grams that the kernels count."""
_LARGEST = 4096


@triton.jit
def read(candidates, references, pair, item, row, at, T, R, S):
    """The tokens of the rows at these positions, -1 where there is none."""
    ours = tl.load(candidates + pair * T + at, mask=(row == 0) & (at < T), other=-1)
    there = (row > 0) & (row <= R) & (at < S)
    theirs = tl.load(references + (item * R + row - 1) * S + at, mask=there, other=-1)
    return tl.maximum(tl.where(row == 0, ours, theirs), -1)


@triton.jit
def read_other(candidates, references, pair, item, row, at, T, R, S):
    """The same with another "no token", -2, for padding must not equal padding."""
    tokens = read(candidates, references, pair, item, row, at, T, R, S)
    return tl.where(tokens < 0, -2, tokens)


def tile(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
) -> tuple[int, int]:
    """The tile that holds a candidate and its references: rows, positions."""
    rows = triton.next_power_of_2(references.shape[1] + 1)
    positions = triton.next_power_of_2(max(candidates.shape[2], references.shape[2], 1))
    return rows, positions


def steps(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
) -> int:
    """How many positions j are stepped through, in fours: a kernel is compiled for this number."""
    return 4 * triton.cdiv(max(candidates.shape[2], references.shape[2]), 4)


def warps(rows: int, positions: int) -> int:
    """How many warps share the tile: two elements a thread while that is possible, then more."""
    return min(16, max(1, rows * positions // 64))


def fit(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
    order: int,
) -> bool:
    """Whether the kernels have the room: about 64 tokens of 63 references."""
    rows, positions = tile(candidates, references)
    return order <= ORDER and rows * positions <= _LARGEST and candidates.numel() > 0
