"""Parts of a soft target, as one program for one row reads them: slots, rows of tables, a background."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def share_of(items, factor, COUNTED: tl.constexpr):
    """What a reduced loss is multiplied by; a mean over nothing divides by 1."""
    share = factor
    if COUNTED:
        number = tl.load(items).to(tl.float32)
        share = factor / tl.where(number == 0, 1.0, number)
    return share


@triton.jit
def slots_of(
    ids, id_row, id_slot, weights, weight_row, weight_slot,
    list_ids, list_weights, list_index, list_share,
    without_1, without_2, without_3, without_4, row, ignore_index,
    K: tl.constexpr, LISTS: tl.constexpr, LENGTH: tl.constexpr, EXCLUDED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Tokens and masses of a row's slots and of its rows of a sparse table; which are filled, and which to be written.

    After them come the tokens that a background leaves out, with no mass. Entries of a table without mass are not to be
    written: they may be padding, whose token is another entry's, too.
    """
    slot = tl.arange(0, SLOTS)
    own = slot < K
    token = tl.load(ids + row * id_row + slot * id_slot, mask=own, other=ignore_index)
    filled = own & (token != ignore_index)
    weight = tl.load(weights + row * weight_row + slot * weight_slot, mask=filled, other=0.0).to(tl.float32)
    if LISTS > 0:
        entry = slot - K
        listed = (entry >= 0) & (entry < LISTS * LENGTH)
        which = entry // LENGTH
        number = tl.load(list_index + row * LISTS + which, mask=listed, other=-1)
        listed = listed & (number >= 0)
        share = tl.load(list_share + row * LISTS + which, mask=listed, other=0.0).to(tl.float32)
        place = number * LENGTH + entry % LENGTH
        token = tl.where(listed, tl.load(list_ids + place, mask=listed, other=0), token)
        weight = tl.where(listed, share * tl.load(list_weights + place, mask=listed, other=0.0).to(tl.float32), weight)
        filled = filled | listed
    last = slot - K - LISTS * LENGTH
    left_out = (last >= 0) & (last < EXCLUDED)
    if EXCLUDED > 0:
        token = tl.where(last == 0, without_1, token)
    if EXCLUDED > 1:
        token = tl.where(last == 1, without_2, token)
    if EXCLUDED > 2:
        token = tl.where(last == 2, without_3, token)
    if EXCLUDED > 3:
        token = tl.where(last == 3, without_4, token)
    written = (filled & (own | (weight != 0))) | left_out
    return tl.where(written, token, 0), weight, filled, written


@triton.jit
def joined(ids, id_row, id_slot, token, weight, filled, row, ignore_index, K: tl.constexpr, SLOTS: tl.constexpr):
    """The whole mass of each slot's token, where after the first K all tokens are different."""
    slot = tl.arange(0, SLOTS)
    total = weight
    for k in range(K):
        mine = tl.load(ids + row * id_row + k * id_slot)
        others = filled & (token == mine) & (slot != k) & (mine != ignore_index)
        own = tl.sum(tl.where(slot == k, weight, 0.0), 0)
        listed = tl.sum(tl.where(others & (slot >= K), weight, 0.0), 0)
        total += tl.where(others, own, 0.0) + tl.where(slot == k, listed, 0.0)
    return total


@triton.jit
def mass_of(masses, index, share, row, J: tl.constexpr, SIZE: tl.constexpr, UNIT: tl.constexpr, SINGLE: tl.constexpr):
    """The mass that a row takes from a table (UNIT: whose rows all sum to 1), and from how many of its rows.

    The mass of a SINGLE row, the only one of its table, is loaded without waiting for the index.
    """
    at = tl.arange(0, SIZE)
    number = tl.load(index + row * J + at, mask=at < J, other=-1)
    used = number >= 0
    weight = tl.load(share + row * J + at, mask=used, other=0.0).to(tl.float32)
    if SINGLE:
        weight *= tl.load(masses).to(tl.float32)
    elif not UNIT:
        weight *= tl.load(masses + number, mask=used, other=0.0).to(tl.float32)
    return tl.sum(weight, 0), tl.sum(used.to(tl.int32), 0)


@triton.jit
def merge(merged, numbers, index, share, row, J: tl.constexpr, SIZE: tl.constexpr):  # (J,) twice, (N, J) twice
    """List the rows of a table that a position weighs, each once and with all its weight; how many there are."""
    every = tl.arange(0, SIZE)
    number = tl.load(index + row * J + every, mask=every < J, other=-1)
    weight = tl.load(share + row * J + every, mask=number >= 0, other=0.0).to(tl.float32)
    same = number[:, None] == number[None, :]
    total = tl.sum(tl.where(same, weight[None, :], 0.0), 1)
    earlier = tl.sum((same & (every[None, :] < every[:, None])).to(tl.int32), 1)
    first = (earlier == 0) & (number >= 0) & (total != 0)
    before = tl.sum((first[None, :] & (every[None, :] < every[:, None])).to(tl.int32), 1)
    tl.store(merged + before, total, mask=first)
    tl.store(numbers + before, number, mask=first)
    return tl.sum(first.to(tl.int32), 0)


@triton.jit
def _nth(table, stride, merged, numbers, distinct, j):
    """The weight and the place of a listed row of a table; a weight of 0 if there are not as many."""
    weight = tl.load(merged + j, mask=j < distinct, other=0.0)
    return weight, table + tl.load(numbers + j, mask=j < distinct, other=0) * stride


@triton.jit
def first_rows(table, stride, merged, numbers, distinct):
    """The first three listed rows, held where all blocks of columns find them: seldom are there more."""
    weight_1, row_1 = _nth(table, stride, merged, numbers, distinct, 0)
    weight_2, row_2 = _nth(table, stride, merged, numbers, distinct, 1)
    weight_3, row_3 = _nth(table, stride, merged, numbers, distinct, 2)
    return weight_1, row_1, weight_2, row_2, weight_3, row_3


@triton.jit
def values_at(first, limit, distinct, at, POLICY: tl.constexpr):
    """What these three rows have at some columns, 0 before the first and after the last."""
    _, row_1, _, row_2, _, row_3 = first
    inside = (at >= 0) & (at < limit)
    one = tl.load(row_1 + at, mask=inside & (distinct > 0), other=0.0, eviction_policy=POLICY)
    two = tl.load(row_2 + at, mask=inside & (distinct > 1), other=0.0, eviction_policy=POLICY)
    three = tl.load(row_3 + at, mask=inside & (distinct > 2), other=0.0, eviction_policy=POLICY)
    return one, two, three


@triton.jit
def mixture(
    first, one, two, three, table, stride, limit, merged, numbers, distinct, at, J: tl.constexpr, POLICY: tl.constexpr
):  # fmt: skip
    """The weighted sum of all listed rows of a table at some columns, of which the first three are loaded."""
    weight_1, _, weight_2, _, weight_3, _ = first
    total = weight_1 * one.to(tl.float32) + weight_2 * two.to(tl.float32)
    if J > 2:
        total += weight_3 * three.to(tl.float32)
    if J > 3:
        for j in range(3, distinct):
            weight, row = _nth(table, stride, merged, numbers, distinct, j)
            inside = (at >= 0) & (at < limit)
            total += weight * tl.load(row + at, mask=inside, other=0.0, eviction_policy=POLICY).to(tl.float32)
    return total


@triton.jit
def background(at, level, without_1, without_2, without_3, without_4, EXCLUDED: tl.constexpr):
    """A constant over the vocabulary without a few tokens."""
    value = tl.zeros_like(at).to(tl.float32) + level
    if EXCLUDED > 0:
        value = tl.where(at == without_1, 0.0, value)
    if EXCLUDED > 1:
        value = tl.where(at == without_2, 0.0, value)
    if EXCLUDED > 2:
        value = tl.where(at == without_3, 0.0, value)
    if EXCLUDED > 3:
        value = tl.where(at == without_4, 0.0, value)
    return value
