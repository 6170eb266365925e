"""What the kernels of n-gram rewards share: the twins of `seqsmooth.ops.ngrams`, for n-grams up to 4.

Sequences are the columns of a tile and positions its rows, so that a warp sums over positions by itself. N-grams are
compared token by token: position i of one sequence lies along the tile while position j of the other is stepped
through, and tokens j to j+3 travel along in registers. Nothing is packed or hashed, so any id is exact, and one step
costs one read.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

# How work is shared out. A tile above this size would leave registers for memory.
_LARGEST = 4096
_COLUMNS = 32
_PROGRAMS = 512
_PER_THREAD = 2


@triton.jit
def windows(sequence, at, length):
    """The four tokens from each position on, -1 where there is none."""
    x0 = tl.maximum(tl.load(sequence + at, mask=at < length, other=-1), -1)
    x1 = tl.maximum(tl.load(sequence + at + 1, mask=at + 1 < length, other=-1), -1)
    x2 = tl.maximum(tl.load(sequence + at + 2, mask=at + 2 < length, other=-1), -1)
    x3 = tl.maximum(tl.load(sequence + at + 3, mask=at + 3 < length, other=-1), -1)
    return x0, x1, x2, x3


@triton.jit
def _other(sequence, at, length):
    # Tokens with another "no token" than -1, for padding must not equal padding.
    tokens = tl.load(sequence + at, mask=at < length, other=-2)
    return tl.where(tokens < 0, -2, tokens)


@triton.jit
def ordinals(x0, x1, x2, x3, sequence, at, length, STEPS: tl.constexpr):
    """Number the occurrences of each n-gram in its sequence: 1 for the first, 2 for the second, 0 for no n-gram."""
    n1 = (x0 * 0).to(tl.int32)
    n2 = n1
    n3 = n1
    n4 = n1
    here = at * 0  # the same position for all: the tokens come to where they are compared
    y0 = _other(sequence, here, length)
    y1 = _other(sequence, here + 1, length)
    y2 = _other(sequence, here + 2, length)
    y3 = _other(sequence, here + 3, length)
    for j in range(0, STEPS, 4):
        for k in tl.static_range(0, 4):
            y4 = _other(sequence, here + (j + k + 4), length)  # one ahead, so that nothing waits for it
            same = (x0 == y0) & (at >= j + k)
            n1 += same.to(tl.int32)
            same = same & (x1 == y1)
            n2 += same.to(tl.int32)
            same = same & (x2 == y2)
            n3 += same.to(tl.int32)
            same = same & (x3 == y3)
            n4 += same.to(tl.int32)
            y0 = y1
            y1 = y2
            y2 = y3
            y3 = y4
    return n1, n2, n3, n4


@triton.jit
def counts(x0, x1, x2, x3, reference, length, STEPS: tl.constexpr):
    """Count how often one reference has the n-gram at each position, and the tokens of that reference."""
    n1 = (x0 * 0).to(tl.int32)
    n2 = n1
    n3 = n1
    n4 = n1
    tokens = 0
    y0 = _other(reference, 0, length)
    y1 = _other(reference, 1, length)
    y2 = _other(reference, 2, length)
    y3 = _other(reference, 3, length)
    for j in range(0, STEPS, 4):
        for k in tl.static_range(0, 4):
            y4 = _other(reference, j + k + 4, length)
            same = x0 == y0
            n1 += same.to(tl.int32)
            same = same & (x1 == y1)
            n2 += same.to(tl.int32)
            same = same & (x2 == y2)
            n3 += same.to(tl.int32)
            same = same & (x3 == y3)
            n4 += same.to(tl.int32)
            tokens += (y0 >= 0).to(tl.int32)
            y0 = y1
            y1 = y2
            y2 = y3
            y3 = y4
    return n1, n2, n3, n4, tokens


def fit(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
) -> bool:
    """Whether the kernels have the room: 31 references of 128 tokens, or 63 of 64."""
    width = cover(max(candidates.shape[2], references.shape[2]))
    return cover(references.shape[1] + 1) * width <= _LARGEST and candidates.numel() > 0


def cover(size: int) -> int:
    """The least power of two that is not less."""
    power: int = triton.next_power_of_2(max(size, 1))
    return power


def steps(length: int) -> int:
    """How many positions are stepped through; in fours, for a kernel is compiled for each number of steps."""
    return 4 * -(-length // 4)


def spread(items: int, samples: int, others: int, width: int) -> tuple[int, int, int, int]:
    """Share out the candidates: programs for an item, candidates for a program, columns of its tile, warps.

    Each program has `others` columns beside those of its candidates. Columns are few while that leaves multiprocessors
    without work, and then many, so that work on the references is shared.
    """
    columns = cover(others + 1)
    while items * -(-samples // (columns - others)) > _PROGRAMS and columns < cover(others + samples):
        if 2 * columns > _COLUMNS or 2 * columns * width > _LARGEST:
            break
        columns *= 2
    programs = -(-samples // (columns - others))
    warps = min(16, max(1, columns * width // (32 * _PER_THREAD)))
    return programs, -(-samples // programs), columns, warps
