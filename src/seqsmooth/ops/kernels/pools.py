"""Sets from lists of tokens, without a sort: one launch, and no look from the host at how many are distinct.

Short lists are compared all with all; one long list is written into flags over the vocabulary and read back in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

NO_TOKEN = torch.iinfo(torch.int64).max
MOST_PAIRED = 512
"""The longest list that is compared all with all."""
MOST_EXCLUDED = 5
ABSENT = -1


@dataclass(frozen=True, eq=False)
class Distinct:
    """G sets, each with its size."""

    ids: Tensor  # (G, P) int64, ascending; NO_TOKEN past the end
    sizes: Tensor  # (G,) int64
    slots: Tensor  # (G, P) the same ids; 0 past the end
    shares: Tensor  # (G, P) float32, 1 / size; 0 past the end


def serves(groups: int, length: int, vocab_size: int | None) -> bool:
    """Whether `distinct` can do it."""
    return 0 < length < 2**31 and (length <= MOST_PAIRED or (groups == 1 and vocab_size is not None))


def distinct(
    listed: Tensor,  # (G, P) int64; a negative id is none
    excluded: tuple[int, ...],
    vocab_size: int | None,
) -> Distinct:
    """The distinct tokens of each list but the excluded ones."""
    groups, length = listed.shape
    ids = torch.empty(groups, length, dtype=torch.int64, device=listed.device)
    out = Distinct(
        ids,
        torch.empty(groups, dtype=torch.int64, device=listed.device),
        torch.empty_like(ids),
        torch.empty_like(ids, dtype=torch.float32),
    )
    assert len(excluded) <= MOST_EXCLUDED
    barred = (*excluded, *[ABSENT] * MOST_EXCLUDED)[:MOST_EXCLUDED]
    outputs = (out.ids, out.sizes, out.slots, out.shares)
    if length <= MOST_PAIRED and (groups > 1 or vocab_size is None or length <= 128):
        block = triton.next_power_of_2(length)
        strides = listed.stride(0), listed.stride(1)
        keys = torch.empty_like(ids, dtype=torch.int32)
        paired_kernel[(groups,)](
            listed, *strides, length, keys, *outputs, *barred, BLOCK=block, CHUNK=min(block, 2**14 // block),
            num_warps=4 if block <= 64 else 8,
        )  # fmt: skip
        return out
    assert vocab_size is not None
    flags = torch.empty(vocab_size, dtype=torch.int8, device=listed.device)
    block = min(triton.next_power_of_2(max(vocab_size, length)), 8192)
    flagged_kernel[(1,)](
        listed, listed.stride(1), length, vocab_size, flags, *outputs, *barred, BLOCK=block,
        num_warps=16 if block >= 8192 else 4,
    )  # fmt: skip
    return out


@triton.jit
def _allowed(tokens, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr):
    """Tokens that may be in a set."""
    return (tokens >= 0) & (tokens != A) & (tokens != B) & (tokens != C) & (tokens != D) & (tokens != E)


@triton.jit(do_not_specialize=["stride_group", "stride_place", "length"])
def paired_kernel(
    listed, stride_group, stride_place, length, keys, ids, sizes, slots, shares,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One list: a token is kept if it has not come before, and its rank is the number of kept ones below it."""
    group = tl.program_id(0).to(tl.int64)
    listed += group * stride_group
    keys += group * length
    ids += group * length
    slots += group * length
    shares += group * length
    place = tl.arange(0, BLOCK)
    real = place < length
    mine = tl.load(listed + place * stride_place, mask=real, other=-1).to(tl.int32)
    before = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, length, CHUNK):
        there = start + tl.arange(0, CHUNK)
        theirs = tl.load(listed + there * stride_place, mask=there < length, other=-1).to(tl.int32)
        same = (mine[:, None] == theirs[None, :]) & (there[None, :] < place[:, None])
        before += tl.sum(same.to(tl.int32), 1)
    kept = (before == 0) & _allowed(mine, A, B, C, D, E)
    tl.store(keys + place, tl.where(kept, mine, 0x7FFFFFFF), mask=real)
    tl.debug_barrier()
    rank = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, length, CHUNK):
        there = start + tl.arange(0, CHUNK)
        theirs = tl.load(keys + there, mask=there < length, other=0x7FFFFFFF)
        rank += tl.sum((theirs[None, :] < mine[:, None]).to(tl.int32), 1)
    size = tl.sum(kept.to(tl.int32), 0)
    tl.store(sizes + group, size.to(tl.int64))
    tl.store(ids + rank, mine.to(tl.int64), mask=kept)
    tl.store(slots + rank, mine.to(tl.int64), mask=kept)
    past = real & (place >= size)
    tl.store(ids + place, 0x7FFFFFFFFFFFFFFF, mask=past)
    tl.store(slots + place, 0, mask=past)
    share = 1.0 / tl.maximum(size, 1).to(tl.float32)
    tl.store(shares + place, tl.where(place < size, share, 0.0), mask=real)


@triton.jit(do_not_specialize=["stride", "length", "vocab_size"])
def flagged_kernel(
    listed, stride, length, vocab_size, flags, ids, sizes, slots, shares,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One list, by one program: flags up for its tokens, and those that are up counted off in order."""
    for start in range(0, vocab_size, BLOCK):
        token = start + tl.arange(0, BLOCK)
        tl.store(flags + token, tl.zeros((BLOCK,), tl.int8), mask=token < vocab_size)
    tl.debug_barrier()
    for start in range(0, length, BLOCK):
        place = start + tl.arange(0, BLOCK)
        token = tl.load(listed + place.to(tl.int64) * stride, mask=place < length, other=-1)
        up = _allowed(token, A, B, C, D, E) & (token < vocab_size)
        tl.store(flags + token, tl.full((BLOCK,), 1, tl.int8), mask=up)
    tl.debug_barrier()
    size = tl.full((), 0, tl.int32)
    for start in range(0, vocab_size, BLOCK):
        token = start + tl.arange(0, BLOCK)
        up = tl.load(flags + token, mask=token < vocab_size, other=0).to(tl.int32)
        rank = size + tl.cumsum(up, 0) - up
        tl.store(ids + rank, token.to(tl.int64), mask=up > 0)
        tl.store(slots + rank, token.to(tl.int64), mask=up > 0)
        size += tl.sum(up, 0)
    tl.store(sizes, size.to(tl.int64))
    share = 1.0 / tl.maximum(size, 1).to(tl.float32)
    for start in range(0, length, BLOCK):
        place = start + tl.arange(0, BLOCK)
        real = place < length
        past = real & (place >= size)
        tl.store(ids + place, 0x7FFFFFFFFFFFFFFF, mask=past)
        tl.store(slots + place, 0, mask=past)
        tl.store(shares + place, tl.where(place < size, share, 0.0), mask=real)
