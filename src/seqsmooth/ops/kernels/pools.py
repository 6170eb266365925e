"""Sets from lists of tokens: one launch, and no look from the host at how many are distinct.

Short lists are sorted, each by a program of its own, in registers. One long list is written into flags over the
vocabulary, which many programs read back in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.pools import NO_TOKEN, Distinct

MOST_SORTED = 512
"""The longest list that one program sorts."""
MOST_FLAGGED = 2**20
"""The largest vocabulary that has flags: sums of 64 flags fit into a byte."""
WORDS = 4096
"""How many words of four flags are read at once."""
MOST_PARTS = 32
MOST_EXCLUDED = 5
ABSENT = -1


def serves(groups: int, length: int, vocab_size: int | None) -> bool:
    """Whether `distinct` can do it."""
    return 0 < length <= MOST_SORTED or (groups == 1 and takes_flags(length, vocab_size))


def takes_flags(length: int, vocab_size: int | None) -> bool:
    """Whether a list can go into flags over the vocabulary, and so may be long."""
    return 0 < length < 2**31 and vocab_size is not None and vocab_size <= MOST_FLAGGED


def distinct(
    listed: Tensor,  # (G, P) int64; a negative id is none
    excluded: tuple[int, ...],
    vocab_size: int | None,
) -> Distinct:
    """The distinct tokens of each list but the excluded ones."""
    groups, length = listed.shape
    ids = torch.empty(groups, length, dtype=torch.int64, device=listed.device)
    sizes = torch.empty(groups, dtype=torch.int64, device=listed.device)
    slots, shares = torch.empty_like(ids), torch.empty_like(ids, dtype=torch.float32)
    if length > MOST_SORTED:
        assert groups == 1
        assert vocab_size is not None
        places = torch.empty(vocab_size, dtype=torch.int32, device=listed.device)
        part = max(1024, triton.next_power_of_2(triton.cdiv(vocab_size, MOST_PARTS)))
        parts = triton.cdiv(vocab_size, part)
        flags = Flags.over(vocab_size, length, parts, listed.device)
        given = (listed.contiguous(), length, vocab_size, *flags.memory, sizes, ids, slots, shares, places)
        constants = barred(excluded) | flags.constants | {"PART": part}
        launch(flagged_kernel, (parts,), given, constants, num_warps=16)
        return Distinct(ids, sizes, slots, shares, places)
    block = max(16, triton.next_power_of_2(length))
    most = NO_TOKEN if vocab_size is None else vocab_size
    launch(
        sorted_kernel,
        (groups,),
        (listed, listed.stride(0), listed.stride(1), length, most, ids, sizes, slots, shares),
        barred(excluded) | {"BLOCK": block, "NARROW": vocab_size is not None and vocab_size < 2**31},
        num_warps=max(1, min(8, block // 64)),
    )
    return Distinct(ids, sizes, slots, shares, None)


@dataclass(frozen=True, eq=False)
class Flags:
    """Memory for flags over a vocabulary, for each program its own."""

    words: Tensor  # (programs, words) int32, four flags each
    constants: dict[str, int]

    @classmethod
    def over(cls, vocab_size: int, length: int, programs: int, device: torch.device) -> Flags:
        """For a list of some length."""
        blocks = triton.cdiv(vocab_size, 4 * WORDS)
        words = torch.empty(programs, blocks * WORDS, dtype=torch.int32, device=device)
        chunk = min(4096, max(512, triton.next_power_of_2(length)))
        return cls(words, {"BLOCKS": blocks, "WORDS": WORDS, "CHUNK": chunk})

    @property
    def memory(self) -> tuple[Tensor, Tensor]:
        """As words, and the same as single flags."""
        return self.words, self.words.view(torch.int8)

    @property
    def eights(self) -> Tensor:
        """The same, eight flags a number."""
        return self.words.view(torch.int64)


def barred(excluded: tuple[int, ...]) -> dict[str, int]:
    """Ids that may be in no set, as constants."""
    assert len(excluded) <= MOST_EXCLUDED
    return dict(zip("ABCDE", (*excluded, *[ABSENT] * MOST_EXCLUDED), strict=False))


@triton.jit
def _allowed(tokens, limit, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr):
    """Tokens that may be in a set."""
    inside = (tokens >= 0) & (tokens < limit)
    return inside & (tokens != A) & (tokens != B) & (tokens != C) & (tokens != D) & (tokens != E)


@triton.jit(do_not_specialize=["stride_group", "stride_place", "length", "limit"])
def sorted_kernel(
    listed, stride_group, stride_place, length, limit, ids, sizes, slots, shares,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    BLOCK: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """One list: in ascending order, a token is kept if it is not the one before."""
    group = tl.program_id(0).to(tl.int64)
    listed += group * stride_group
    ids += group * length
    slots += group * length
    shares += group * length
    place = tl.arange(0, BLOCK)
    real = place < length
    token = tl.load(listed + place.to(tl.int64) * stride_place, mask=real, other=-1)
    allowed = _allowed(token, limit, A, B, C, D, E)
    if NARROW:  # half the exchanges
        key = tl.sort(tl.where(allowed, token, 0x7FFFFFFF).to(tl.int32))
        used = key < 0x7FFFFFFF
    else:
        key = tl.sort(tl.where(allowed, token, 0x7FFFFFFFFFFFFFFF))
        used = key < 0x7FFFFFFFFFFFFFFF
    before = tl.gather(key, tl.maximum(place - 1, 0), 0)
    kept = used & ((place == 0) | (key != before))
    rank = tl.cumsum(kept.to(tl.int32), 0) - 1
    size = tl.sum(kept.to(tl.int32), 0)
    tl.store(sizes + group, size.to(tl.int64))
    tl.store(ids + rank, key.to(tl.int64), mask=kept)
    tl.store(slots + rank, key.to(tl.int64), mask=kept)
    past = real & (place >= size)
    tl.store(ids + place, 0x7FFFFFFFFFFFFFFF, mask=past)
    tl.store(slots + place, 0, mask=past)
    share = 1.0 / tl.maximum(size, 1).to(tl.float32)
    tl.store(shares + place, tl.where(place < size, share, 0.0), mask=real)


@triton.jit
def _listed(
    listed, stride_item, stride_step, steps, start, length, limit,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """A piece of a list in rows of so many steps; -1 for what may not be in the set."""
    place = start + tl.arange(0, CHUNK)
    item = place // steps
    at = item.to(tl.int64) * stride_item + (place - item * steps) * stride_step
    token = tl.load(listed + at, mask=place < length, other=-1)
    return tl.where(_allowed(token, limit, A, B, C, D, E), token, -1).to(tl.int32)


@triton.jit
def put_up(
    listed, stride_item, stride_step, steps, length, vocab_size, words, flags,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    BLOCKS: tl.constexpr, WORDS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Put up the flags of all tokens of a list, in memory of this program alone.

    `words` and `flags` are the same memory: a flag is a byte, and four of them are read and added up as one number.
    """
    token = _listed(listed, stride_item, stride_step, steps, 0, length, vocab_size, A, B, C, D, E, CHUNK)  # on its way
    for block in tl.static_range(BLOCKS):
        tl.store(words + block * WORDS + tl.arange(0, WORDS), tl.zeros((WORDS,), tl.int32))
    tl.debug_barrier()
    for start in range(0, length, CHUNK):
        tl.store(flags + token, tl.full((CHUNK,), 1, tl.int8), mask=token >= 0)
        after = start + CHUNK
        token = _listed(listed, stride_item, stride_step, steps, after, length, vocab_size, A, B, C, D, E, CHUNK)
    tl.debug_barrier()


@triton.jit
def packed(eights):
    """Eight flags a number as bits of a byte, the first lowest: each is shifted to its place in the highest byte."""
    return ((eights * 0x0102040810204080) >> 56).to(tl.uint8)


@triton.jit
def counted(words, first, BLOCKS: tl.constexpr, WORDS: tl.constexpr):
    """How many flags are up, and how many of those before a token."""
    everywhere = tl.zeros((WORDS,), tl.int32)
    before = tl.zeros((WORDS,), tl.int32)
    for block in tl.static_range(BLOCKS):
        word = block * WORDS + tl.arange(0, WORDS)
        four = tl.load(words + word)
        everywhere += four
        before += tl.where(word * 4 < first, four, 0)
    return tl.sum(_bytes(everywhere), 0), tl.sum(_bytes(before), 0)


@triton.jit(do_not_specialize=["length", "vocab_size"])
def flagged_kernel(
    listed, length, vocab_size, words, flags, sizes, ids, slots, shares, places,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    BLOCKS: tl.constexpr, WORDS: tl.constexpr, PART: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """A part of the vocabulary: which of its tokens are in the list, and how many before them are.

    Every program puts up all flags: that takes less time than to wait for the others.
    """
    part = tl.program_id(0)
    words += part.to(tl.int64) * (BLOCKS * WORDS)
    flags += part.to(tl.int64) * (BLOCKS * WORDS * 4)
    put_up(listed, 0, 1, length, length, vocab_size, words, flags, A, B, C, D, E, BLOCKS, WORDS, CHUNK)
    first = part * PART
    mine = first + tl.arange(0, PART)
    up = tl.load(flags + mine).to(tl.int32)
    size, before = counted(words, first, BLOCKS, WORDS)
    rank = before + tl.cumsum(up, 0) - up
    tl.store(ids + rank, mine.to(tl.int64), mask=up > 0)
    tl.store(slots + rank, mine.to(tl.int64), mask=up > 0)
    tl.store(places + mine, tl.where(up > 0, rank, -1), mask=mine < vocab_size)
    share = 1.0 / tl.maximum(size, 1).to(tl.float32)
    for start in range(first, length, tl.num_programs(0) * PART):
        slot = start + tl.arange(0, PART)
        past = (slot >= size) & (slot < length)
        tl.store(ids + slot, 0x7FFFFFFFFFFFFFFF, mask=past)
        tl.store(slots + slot, 0, mask=past)
        tl.store(shares + slot, tl.where(slot < size, share, 0.0), mask=slot < length)
    if part == 0:
        tl.store(sizes, size.to(tl.int64))


@triton.jit
def _bytes(words):
    """The sum of the four bytes of each word, none above 127."""
    pairs = (words & 0x00FF00FF) + ((words >> 8) & 0x00FF00FF)
    return (pairs & 0xFFFF) + (pairs >> 16)
