"""Losses of rows of logits against soft targets, and their gradient, in one read and one write.

One program a row: c lse(z) - <q, z> and g (c softmax(z) - q) need the row twice, and the second time it is still in the
cache. Target parts are read where they lie: slots and rows of sparse tables (held at once, duplicates merged), rows of
dense tables, and a constant background.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN_2: tl.constexpr = tl.constexpr(0.6931471805599453)
FAR: tl.constexpr = tl.constexpr(2.0**90)
"""A sum of exponentials above which another reference than the first block's greatest logit is taken."""
TOGETHER: tl.constexpr = tl.constexpr(8)
"""Columns side by side, which one thread has, that are summed before they are kept: fewer registers hold the sums."""
LOWEST: tl.constexpr = tl.constexpr(-1e38)
"""Stands for ln 0, since 0 times it is 0."""


@triton.jit
def share_of(items, factor, COUNTED: tl.constexpr):
    """What a reduced loss is multiplied by; a mean over nothing divides by 1."""
    share = factor
    if COUNTED:
        number = tl.load(items).to(tl.float32)
        share = factor / tl.where(number == 0, 1.0, number)
    return share


@triton.jit
def _slots(
    ids, id_row, id_slot, weights, weight_row, weight_slot,
    list_ids, list_weights, list_index, list_share,
    without_1, without_2, without_3, without_4, row, ignore_index,
    K: tl.constexpr, LISTS: tl.constexpr, LENGTH: tl.constexpr, EXCLUDED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Tokens and masses of a row's slots and of its rows of a sparse table; which of them are no padding.

    After them come the tokens that a background leaves out, with no mass; with these, which are no padding.
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
    written = filled | left_out
    return tl.where(written, token, 0), weight, filled, written


@triton.jit
def _joined(ids, id_row, id_slot, token, weight, filled, row, ignore_index, K: tl.constexpr, SLOTS: tl.constexpr):
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
def _mass(masses, index, share, row, J: tl.constexpr, SIZE: tl.constexpr, UNIT: tl.constexpr):
    """The mass that a row takes from a table (UNIT: whose rows all sum to 1), and from how many of its rows."""
    at = tl.arange(0, SIZE)
    number = tl.load(index + row * J + at, mask=at < J, other=-1)
    used = number >= 0
    weight = tl.load(share + row * J + at, mask=used, other=0.0).to(tl.float32)
    if not UNIT:
        weight *= tl.load(masses + number, mask=used, other=0.0).to(tl.float32)
    return tl.sum(weight, 0), tl.sum(used.to(tl.int32), 0)


@triton.jit
def _merge(merged, numbers, index, share, row, J: tl.constexpr, SIZE: tl.constexpr):  # (J,) twice, (N, J) twice
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
def _first(table, stride, merged, numbers, distinct):
    """The first three listed rows, held where all blocks of columns find them: seldom are there more."""
    weight_1, row_1 = _nth(table, stride, merged, numbers, distinct, 0)
    weight_2, row_2 = _nth(table, stride, merged, numbers, distinct, 1)
    weight_3, row_3 = _nth(table, stride, merged, numbers, distinct, 2)
    return weight_1, row_1, weight_2, row_2, weight_3, row_3


@triton.jit
def _values(first, limit, distinct, at):
    """What these three rows have at some columns, 0 before the first and after the last."""
    _, row_1, _, row_2, _, row_3 = first
    inside = (at >= 0) & (at < limit)
    one = tl.load(row_1 + at, mask=inside & (distinct > 0), other=0.0)
    two = tl.load(row_2 + at, mask=inside & (distinct > 1), other=0.0)
    three = tl.load(row_3 + at, mask=inside & (distinct > 2), other=0.0)
    return one, two, three


@triton.jit
def _mixture(first, one, two, three, table, stride, limit, merged, numbers, distinct, at, J: tl.constexpr):
    """The weighted sum of all listed rows of a table at some columns, of which the first three are loaded."""
    weight_1, _, weight_2, _, weight_3, _ = first
    total = weight_1 * one.to(tl.float32) + weight_2 * two.to(tl.float32)
    if J > 2:
        total += weight_3 * three.to(tl.float32)
    if J > 3:
        for j in range(3, distinct):
            weight, row = _nth(table, stride, merged, numbers, distinct, j)
            total += weight * tl.load(row + at, mask=(at >= 0) & (at < limit), other=0.0).to(tl.float32)
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


@triton.jit
def _widened(raw, bias, at, end, vocab_size, BIAS: tl.constexpr, PADDED: tl.constexpr):
    """Logits as they were loaded, in single precision; columns of padding, which only make loads wide, do not count."""
    z = raw.to(tl.float32)
    if BIAS:
        z += tl.load(bias + at, mask=at < vocab_size, other=0.0).to(tl.float32)
    if PADDED:  # noqa: SIM102 - this is known when compiled
        if end > vocab_size:  # as in the last block
            z = tl.where(at < vocab_size, z, -float("inf"))
    return z


@triton.jit
def _below(z, base, lse, EXACT: tl.constexpr):
    """(z - base) log2(e) - lse. Half-precision logits are coarser than what the second rounding costs."""
    return (z - base) * LOG2_E - lse if EXACT else z * LOG2_E - (base * LOG2_E + lse)


@triton.jit
def _summed(values, BLOCK: tl.constexpr):
    """Sums over neighbours, (BLOCK / TOGETHER,)."""
    return tl.sum(tl.reshape(values, [BLOCK // TOGETHER, TOGETHER]), 1)


@triton.jit
def rows(
    logits, stride, gradient, gradient_stride, bias, limit, vocab_size,
    smoothed, nll, state, count,  # (N,) twice, (4, N): lse - base, base, c, entropy
    labels,  # (N,)
    bonuses, bonus_stride,  # (N,) weights of the entropy
    items, factor,  # () by which losses are divided once they are summed, and a factor
    upstream, upstream_stride,  # (N,), where the gradient is made again
    ids, id_row, id_slot, weights, weight_row, weight_slot,  # (N, K)
    list_ids, list_weights, list_index, list_share,  # (G, LENGTH) twice, (N, LISTS) twice
    table_1, stride_1, limit_1, masses_1, index_1, share_1, merged_1, numbers_1,  # (G, V), (G,), (N, J1) each
    table_2, stride_2, limit_2, masses_2, index_2, share_2, merged_2, numbers_2,
    index_0, share_0, uniform_size, without_1, without_2, without_3, without_4,  # (N, J0) twice, a background
    index_3, share_3,  # (N, J3) of a table that another kernel adds
    ignore_index,
    K: tl.constexpr, LISTS: tl.constexpr, LENGTH: tl.constexpr, DISTINCT: tl.constexpr, SLOTS: tl.constexpr,
    J0: tl.constexpr, S0: tl.constexpr, J1: tl.constexpr, S1: tl.constexpr,
    J2: tl.constexpr, S2: tl.constexpr, J3: tl.constexpr, S3: tl.constexpr, EXCLUDED: tl.constexpr,
    BIAS: tl.constexpr, LABELS: tl.constexpr, ENTROPY: tl.constexpr, GRADIENT: tl.constexpr,
    COUNTED: tl.constexpr, FOLD: tl.constexpr, AGAIN: tl.constexpr,
    EXACT: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row, a block of columns at a time."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    gradient += row * gradient_stride
    columns = tl.arange(0, BLOCK)

    full = share_of(items, factor, COUNTED)
    scale = full if FOLD else 1.0
    if AGAIN:
        wanted = full * tl.load(upstream + row * upstream_stride).to(tl.float32)
        if wanted == scale:
            return
        scale = wanted

    token, weight, filled, written = _slots(
        ids, id_row, id_slot, weights, weight_row, weight_slot, list_ids, list_weights, list_index, list_share,
        without_1, without_2, without_3, without_4, row, ignore_index, K, LISTS, LENGTH, EXCLUDED, SLOTS,
    )  # fmt: skip
    parts = tl.sum(filled.to(tl.int32), 0)
    c = tl.sum(weight, 0)
    level = 0.0
    if J0 > 0:
        mass, used = _mass(share_0, index_0, share_0, row, J0, S0, True)
        mass = tl.where(uniform_size > 0, mass, 0.0)
        level = mass / tl.maximum(uniform_size, 1)
        c += mass
        parts += used
    if J1 > 0:
        mass, used = _mass(masses_1, index_1, share_1, row, J1, S1, False)
        if J1 > 1:
            merged_1, numbers_1 = merged_1 + row * J1, numbers_1 + row * J1
            distinct_1 = _merge(merged_1, numbers_1, index_1, share_1, row, J1, S1)
        c += mass
        parts += used
    if J2 > 0:
        mass, used = _mass(masses_2, index_2, share_2, row, J2, S2, False)
        merged_2, numbers_2 = merged_2 + row * J2, numbers_2 + row * J2
        distinct_2 = _merge(merged_2, numbers_2, index_2, share_2, row, J2, S2)
        c += mass
        parts += used
    if J3 > 0:
        mass, used = _mass(share_3, index_3, share_3, row, J3, S3, True)
        c += mass
        parts += used

    if parts == 0:
        if not AGAIN:
            tl.store(smoothed + row, 0.0)
            tl.store(nll + row, 0.0)
            tl.store(state + row, float("inf"))  # the mark of an ignored row
        if GRADIENT:
            for start in range(0, vocab_size, BLOCK):
                at = start + columns
                tl.store(gradient + at, tl.zeros([BLOCK], gradient.dtype.element_ty), mask=at < vocab_size)
        return

    chosen = tl.load(logits + token, mask=written, other=0.0).to(tl.float32)
    if BIAS:
        chosen += tl.load(bias + token, mask=written, other=0.0).to(tl.float32)
    named = False
    right = 0.0
    if LABELS:
        label = tl.load(labels + row)
        named = label != ignore_index
        right = tl.load(logits + tl.where(named, label, 0)).to(tl.float32)
        if BIAS:
            right += tl.load(bias + tl.where(named, label, 0)).to(tl.float32)
    tl.debug_barrier()  # the merged weights are there, and the gradient may overwrite the logits

    # Logarithms are to base 2 from here on, and of z - base, base the greatest of the first block. Each thread sums its
    # own columns, so the loop has no barrier, and each block is loaded while the one before is worked on.
    raw = tl.load(logits + columns, mask=columns < limit, other=-float("inf"), eviction_policy="evict_last")
    base = tl.max(_widened(raw, bias, columns, BLOCK, vocab_size, BIAS, PADDED), 0)
    base = tl.where(base == -float("inf"), 0.0, base)
    sums = tl.zeros([BLOCK // TOGETHER], tl.float32)
    moments = tl.zeros([BLOCK // TOGETHER], tl.float32)
    for start in range(0, vocab_size, BLOCK):
        at = start + columns
        z = _below(_widened(raw, bias, at, start + BLOCK, vocab_size, BIAS, PADDED), base, 0.0, EXACT)
        after = at + BLOCK
        raw = tl.load(logits + after, mask=after < limit, other=-float("inf"), eviction_policy="evict_last")
        grown = tl.exp2(z)
        sums += _summed(grown, BLOCK)
        if ENTROPY:
            moments += _summed(tl.where(grown > 0, grown * z, 0.0), BLOCK)
    total = tl.sum(sums, 0)
    if total > FAR:  # then again, from the greatest of all
        tops = tl.zeros([BLOCK], tl.float32) + base
        for start in range(0, vocab_size, BLOCK):
            at = start + columns
            raw = tl.load(logits + at, mask=at < limit, other=-float("inf"))
            tops = tl.maximum(tops, _widened(raw, bias, at, start + BLOCK, vocab_size, BIAS, PADDED))
        base = tl.max(tops, 0)
        sums = tl.zeros([BLOCK // TOGETHER], tl.float32)
        moments = tl.zeros([BLOCK // TOGETHER], tl.float32)
        for start in range(0, vocab_size, BLOCK):
            at = start + columns
            raw = tl.load(logits + at, mask=at < limit, other=-float("inf"))
            z = _below(_widened(raw, bias, at, start + BLOCK, vocab_size, BIAS, PADDED), base, 0.0, EXACT)
            grown = tl.exp2(z)
            sums += _summed(grown, BLOCK)
            if ENTROPY:
                moments += _summed(tl.where(grown > 0, grown * z, 0.0), BLOCK)
        total = tl.sum(sums, 0)
    lse = tl.log2(total)
    entropy = 0.0
    bonus = 0.0
    if ENTROPY:
        bonus = tl.load(bonuses + row * bonus_stride).to(tl.float32)
        entropy = lse - tl.sum(moments, 0) / total

    # The dense parts of q are read once, for loss and gradient; both are scaled as the gradient is.
    far = _below(chosen, base, lse, EXACT)
    value = -bonus * entropy - tl.sum(tl.where(weight != 0, weight * far, 0.0), 0)
    mass = scale * c
    level *= scale
    if GRADIENT or (J0 + J1 + J2 > 0):
        evens = tl.zeros([BLOCK // TOGETHER], tl.float32)
        dots = tl.zeros([BLOCK // TOGETHER], tl.float32)
        blocks = tl.cdiv(vocab_size, BLOCK)
        at = (blocks - 1) * BLOCK + columns  # backwards: what was read last is nearest
        raw = tl.load(logits + at, mask=at < limit, other=-float("inf"), eviction_policy="evict_first")
        if J1 == 1:
            number_1 = tl.load(index_1 + row)
            share = scale * tl.load(share_1 + row).to(tl.float32)
            share = tl.where(number_1 >= 0, share, 0.0)
            row_1 = table_1 + tl.maximum(number_1, 0) * stride_1
            ahead = tl.load(row_1 + at, mask=at < limit_1, other=0.0)
        elif J1 > 1:
            first_1 = _first(table_1, stride_1, merged_1, numbers_1, distinct_1)
            one_1, two_1, three_1 = _values(first_1, limit_1, distinct_1, at)
        if J2 > 0:
            first_2 = _first(table_2, stride_2, merged_2, numbers_2, distinct_2)
            one_2, two_2, three_2 = _values(first_2, limit_2, distinct_2, at)
        for block in range(0, blocks):
            start = (blocks - 1 - block) * BLOCK
            at = start + columns
            z = _below(_widened(raw, bias, at, start + BLOCK, vocab_size, BIAS, PADDED), base, lse, EXACT)
            after = at - BLOCK
            raw = tl.load(logits + after, mask=after >= 0, other=0.0, eviction_policy="evict_first")
            if J0 > 0:
                special = start + BLOCK > vocab_size
                if EXCLUDED > 0:
                    special = special | (without_1 // BLOCK == start // BLOCK) | (without_2 // BLOCK == start // BLOCK)
                if EXCLUDED > 2:
                    special = special | (without_3 // BLOCK == start // BLOCK) | (without_4 // BLOCK == start // BLOCK)
                if special:  # as few blocks are
                    ones = background(at, 1.0, without_1, without_2, without_3, without_4, EXCLUDED)
                    even = _summed(tl.where((ones > 0) & (at < vocab_size), z, 0.0), BLOCK)
                else:
                    even = _summed(z, BLOCK)
                evens += even
            if J1 + J2 > 0:
                law = tl.zeros([BLOCK], tl.float32)
                if J1 == 1:
                    law = share * ahead.to(tl.float32)
                    ahead = tl.load(row_1 + after, mask=after >= 0, other=0.0)
                elif J1 > 1:
                    law = scale * _mixture(
                        first_1, one_1, two_1, three_1,
                        table_1, stride_1, limit_1, merged_1, numbers_1, distinct_1, at, J1,
                    )  # fmt: skip
                    one_1, two_1, three_1 = _values(first_1, limit_1, distinct_1, after)
                if J2 > 0:
                    law += scale * _mixture(
                        first_2, one_2, two_2, three_2,
                        table_2, stride_2, limit_2, merged_2, numbers_2, distinct_2, at, J2,
                    )  # fmt: skip
                    one_2, two_2, three_2 = _values(first_2, limit_2, distinct_2, after)
                dots += _summed(law * tl.maximum(z, LOWEST), BLOCK)
            if GRADIENT:
                p = tl.exp2(z)
                slope = mass * p
                if ENTROPY:
                    slope += tl.where(p > 0, scale * bonus * LN_2 * p * (z + entropy), 0.0)
                if J1 + J2 > 0:
                    slope -= law
                if J0 > 0:
                    slope -= level  # also at tokens without: their slots mend it
                tl.store(
                    gradient + at, slope.to(gradient.dtype.element_ty), mask=at < limit, eviction_policy="evict_first"
                )  # fmt: skip
        if J0 > 0:
            value -= tl.where(level != 0, level / scale * tl.sum(evens, 0), 0.0)
        if J1 + J2 > 0:
            dot = tl.sum(dots, 0)
            value -= tl.where(dot < LOWEST * 1e-20, -float("inf"), dot / scale)
    if not AGAIN:
        tl.store(smoothed + row, LN_2 * value)
        tl.store(nll + row, tl.where(named, -LN_2 * _below(right, base, lse, EXACT), 0.0))
        tl.store(state + row, LN_2 * lse)
        if J3 > 0:
            tl.store(state + count + row, base)
            tl.store(state + 2 * count + row, c)
            tl.store(state + 3 * count + row, LN_2 * entropy)
    if GRADIENT and (K + LISTS + EXCLUDED > 0):
        # Every slot writes the whole gradient of its token, so that two slots of one token write the same.
        tl.debug_barrier()
        short = token.to(tl.int32)
        if DISTINCT:
            q = scale * _joined(ids, id_row, id_slot, short, weight, written, row, ignore_index, K, SLOTS)
        else:
            same = (short[:, None] == short[None, :]) & filled[None, :]
            q = scale * tl.sum(tl.where(same, weight[None, :], 0.0), 1)
        if J0 > 0:
            q += background(short, level, without_1, without_2, without_3, without_4, EXCLUDED)
        if J1 == 1:
            q += share * tl.load(row_1 + token, mask=written, other=0.0).to(tl.float32)
        elif J1 > 1:
            one, two, three = _values(first_1, limit_1, distinct_1, token)
            q += scale * _mixture(
                first_1, one, two, three, table_1, stride_1, limit_1, merged_1, numbers_1, distinct_1, token, J1
            )  # fmt: skip
        if J2 > 0:
            one, two, three = _values(first_2, limit_2, distinct_2, token)
            q += scale * _mixture(
                first_2, one, two, three, table_2, stride_2, limit_2, merged_2, numbers_2, distinct_2, token, J2
            )  # fmt: skip
        p = tl.exp2(far)
        slope = mass * p - q
        if ENTROPY:
            slope += tl.where(p > 0, scale * bonus * LN_2 * p * (far + entropy), 0.0)
        tl.store(gradient + token, slope.to(gradient.dtype.element_ty), mask=written)


@triton.jit
def summed(smoothed, nll, count, items, factor, total, total_nll, COUNTED: tl.constexpr, BLOCK: tl.constexpr):
    """The sums of the smoothed losses and of the NLLs, divided by the number of items."""
    at = tl.arange(0, BLOCK)
    first = tl.zeros([BLOCK], tl.float32)
    second = tl.zeros([BLOCK], tl.float32)
    for start in range(0, count, BLOCK):
        inside = start + at < count
        first += tl.load(smoothed + start + at, mask=inside, other=0.0)
        second += tl.load(nll + start + at, mask=inside, other=0.0)
    scale = share_of(items, factor, COUNTED)
    tl.store(total, scale * tl.sum(first, 0))
    tl.store(total_nll, scale * tl.sum(second, 0))


@triton.jit
def _rescale(values, size, scale, BLOCK: tl.constexpr):
    """Multiply in place, every program its blocks."""
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(0, tl.cdiv(size, step)):
        value = tl.load(values + at, mask=at < size, other=0.0).to(tl.float32)
        tl.store(values + at, (scale * value).to(values.dtype.element_ty), mask=at < size)
        at += step


@triton.jit
def rescaled(
    first, second, third, first_size, second_size, third_size, upstream, items, factor,
    COUNTED: tl.constexpr, FOLD: tl.constexpr, NUMBER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Multiply by what came from above, and if not done before, divide by the number of items; by 1 is by nothing."""
    scale = tl.load(upstream).to(tl.float32)
    if not FOLD:
        scale *= share_of(items, factor, COUNTED)
    if scale != 1:
        _rescale(first, first_size, scale, BLOCK)
        if NUMBER > 1:
            _rescale(second, second_size, scale, BLOCK)
        if NUMBER > 2:
            _rescale(third, third_size, scale, BLOCK)


@triton.jit
def emptied(states, clean, state, width, BLOCK: tl.constexpr):
    """Copy a row, or write zeros where the loss ignored it."""
    row = tl.program_id(0).to(tl.int64)
    end = tl.where(tl.load(state + row) < float("inf"), width, 0)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(states + row * width + at, mask=at < end, other=0.0)
        tl.store(clean + row * width + at, value, mask=at < width)
