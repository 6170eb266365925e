"""A hash table that a kernel reads without a loop.

Every key lies in one of two buckets, each of two slots (cuckoo hashing), so a search is two independent reads of 32
bytes, whether the key is there or not, where a binary search among millions is twenty reads one after the other. A
table is built once, on the host, and then only read.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.ops import checks

ABSENT = -1
"""The value of a slot without a key, and the answer of a search without success."""
# Odd numbers without a pattern, below 2**63 so that they are the same signed; the kernels mix with the same two.
FIRST_FACTOR = 0x1E3779B97F4A7C15
SECOND_FACTOR = 0x3F58476D1CE4E5B9
LOW = 0xFFFFFFFF
_SLOTS_PER_KEY = 1.5
_PATIENCE = 300


def build(
    keys: Tensor,  # (N,) int64, distinct and not negative
    values: Tensor,  # (N,) int64, not negative
) -> Tensor:  # (M, 4) int64: key, value, key, value of each bucket
    """Place the keys and their values."""
    checks.shape("values", values, keys.numel(), letters="(N,)")
    buckets = max(1, -int(-_SLOTS_PER_KEY * keys.numel() // 2))
    while (places := _place(_slots(keys.cpu(), buckets).numpy(), 2 * buckets)) is None:
        buckets += buckets // 8 + 1
    pairs = torch.stack([keys.cpu(), values.cpu()], dim=-1)
    pairs = torch.cat([pairs, pairs.new_full((1, 2), ABSENT)])  # the last, at -1, is what a free slot holds
    return pairs[torch.from_numpy(places)].view(buckets, 4)


def find(
    table: Tensor,  # (M, 4) int64
    keys: Tensor,  # (...) int64
) -> Tensor:  # (...) int64
    """Find the value of each key, -1 where it is not in the table or negative."""
    pairs = table.view(-1, 2)
    slots = _slots(keys, table.shape[0])  # (..., 4)
    hit = (pairs[slots, 0] == keys[..., None]) & (keys >= 0)[..., None]
    return torch.where(hit, pairs[slots, 1], ABSENT).amax(-1)


def _slots(
    keys: Tensor,  # (...)
    buckets: int,
) -> Tensor:  # (..., 4)
    # Multiplied by the number of buckets and shifted, 32 random bits become a bucket without a division.
    mixed = (keys ^ (keys >> 32)) * FIRST_FACTOR
    mixed = (mixed ^ (mixed >> 32 & LOW)) * SECOND_FACTOR
    first = 2 * ((mixed >> 32 & LOW) * buckets >> 32)
    second = 2 * ((mixed & LOW) * buckets >> 32)
    return torch.stack([first, first + 1, second, second + 1], dim=-1)


def _place(
    slots: NDArray[np.int64],  # (N, 4)
    size: int,
) -> NDArray[np.int64] | None:  # (size,)
    # All keys without a place try at once: a free one of their four slots, or else one whose key then has to move.
    places = np.full(size, ABSENT)
    pending = np.arange(slots.shape[0])
    chance = np.random.default_rng(0)
    for _ in range(_PATIENCE):
        if pending.size == 0:
            return places
        options = slots[pending]
        appeal = chance.random(options.shape, dtype=np.float32) + (places[options] == ABSENT)
        chosen = np.take_along_axis(options, appeal.argmax(1)[:, None], 1)[:, 0]
        before = places[chosen]
        places[chosen] = pending
        won = places[chosen] == pending
        pending = np.concatenate([pending[~won], before[won & (before != ABSENT)]])
    return None
