"""Losses of rows of logits against soft targets, and their gradient, in one read and one write.

One program a row: c lse(z) - <q, z> and g (c softmax(z) - q) need the row twice, and the second time it is still in the
cache. Target parts are read where they lie: slots and rows of sparse tables (held at once, duplicates merged), rows of
dense tables, and a constant background.
"""

from __future__ import annotations

import triton
import triton.language as tl

from seqsmooth.ops.kernels.target_parts import (
    background,
    first_rows,
    joined,
    mass_of,
    merge,
    mixture,
    share_of,
    slots_of,
    values_at,
)

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN_2: tl.constexpr = tl.constexpr(0.6931471805599453)
FAR: tl.constexpr = tl.constexpr(2.0**90)
"""A sum of exponentials above which another reference than the first block's greatest logit is taken."""
TOGETHER: tl.constexpr = tl.constexpr(8)
"""Columns side by side, which one thread has, that are summed before they are kept: fewer registers hold the sums."""
LOWEST: tl.constexpr = tl.constexpr(-1e38)
"""Stands for ln 0, since 0 times it is 0."""


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
    SINGLE: tl.constexpr,  # the first table has one row only
    BITS: tl.constexpr,  # the first table is of sets, and the only one
    BIAS: tl.constexpr, LABELS: tl.constexpr, ENTROPY: tl.constexpr, GRADIENT: tl.constexpr,
    COUNTED: tl.constexpr, FOLD: tl.constexpr, AGAIN: tl.constexpr,
    EXACT: tl.constexpr, PADDED: tl.constexpr, TABLES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row, a block of columns at a time."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    gradient += row * gradient_stride
    columns = tl.arange(0, BLOCK)
    # On its way while the target is looked up.
    raw = tl.load(logits + columns, mask=columns < limit, other=-float("inf"), eviction_policy="evict_last")

    full = share_of(items, factor, COUNTED)
    scale = full if FOLD else 1.0
    if AGAIN:
        wanted = full * tl.load(upstream + row * upstream_stride).to(tl.float32)
        if wanted == scale:
            return
        scale = wanted

    token, weight, filled, written = slots_of(
        ids, id_row, id_slot, weights, weight_row, weight_slot, list_ids, list_weights, list_index, list_share,
        without_1, without_2, without_3, without_4, row, ignore_index, K, LISTS, LENGTH, EXCLUDED, SLOTS,
    )  # fmt: skip
    parts = tl.sum(filled.to(tl.int32), 0)
    c = tl.sum(weight, 0)
    level = 0.0
    if J0 > 0:
        mass, used = mass_of(share_0, index_0, share_0, row, J0, S0, True, False)
        mass = tl.where(uniform_size > 0, mass, 0.0)
        level = mass / tl.maximum(uniform_size, 1)
        c += mass
        parts += used
    if J1 > 0:
        mass, used = mass_of(masses_1, index_1, share_1, row, J1, S1, False, SINGLE)
        if J1 > 1:
            merged_1, numbers_1 = merged_1 + row * J1, numbers_1 + row * J1
            distinct_1 = merge(merged_1, numbers_1, index_1, share_1, row, J1, S1)
        c += mass
        parts += used
    if J2 > 0:
        mass, used = mass_of(masses_2, index_2, share_2, row, J2, S2, False, False)
        merged_2, numbers_2 = merged_2 + row * J2, numbers_2 + row * J2
        distinct_2 = merge(merged_2, numbers_2, index_2, share_2, row, J2, S2)
        c += mass
        parts += used
    if J3 > 0:
        mass, used = mass_of(share_3, index_3, share_3, row, J3, S3, True, False)
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
                tl.store(gradient + at, tl.zeros([BLOCK], gradient.dtype.element_ty), mask=at < limit)
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

    # The second pass goes backwards: what was read last is nearest. What it begins with is on its way from here on.
    blocks = tl.cdiv(vocab_size, BLOCK)
    last = (blocks - 1) * BLOCK + columns
    if J1 == 1:
        number_1 = tl.load(index_1 + row)
        share = scale * tl.load(share_1 + row).to(tl.float32)
        share = tl.where(number_1 >= 0, share, 0.0)
        row_1 = table_1 if SINGLE else table_1 + tl.maximum(number_1, 0) * stride_1
        if BITS:
            # A thread reads the bytes of its own columns. Told that bytes are contiguous, the compiler would give it
            # neighbours, and exchange them in every block.
            eighths = tl.arange(0, BLOCK // TOGETHER)
            byte = tl.max_contiguous((blocks - 1) * (BLOCK // TOGETHER) + eighths, 1)
            ahead = tl.load(row_1 + byte, mask=byte < limit_1, other=0)
            chosen_1 = (tl.load(row_1 + token // TOGETHER, mask=written, other=0) >> (token % TOGETHER)) & 1
        else:
            ahead = tl.load(row_1 + last, mask=last < limit_1, other=0.0, eviction_policy=TABLES)
            chosen_1 = tl.load(row_1 + token, mask=written, other=0.0)
    elif J1 > 1:
        first_1 = first_rows(table_1, stride_1, merged_1, numbers_1, distinct_1)
        one_1, two_1, three_1 = values_at(first_1, limit_1, distinct_1, last, TABLES)
    if J2 > 0:
        first_2 = first_rows(table_2, stride_2, merged_2, numbers_2, distinct_2)
        one_2, two_2, three_2 = values_at(first_2, limit_2, distinct_2, last, TABLES)

    # Logarithms are to base 2 from here on, and of z - base, base the greatest of the first block. Each thread sums its
    # own columns, so the loop has no barrier, and each block is loaded while the one before is worked on.
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
        raw = tl.load(logits + last, mask=last < limit, other=-float("inf"), eviction_policy="evict_first")
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
            if BITS:
                there = ((ahead.to(tl.int32)[:, None] >> tl.arange(0, TOGETHER)[None, :]) & 1) > 0
                law = tl.reshape(tl.where(there, share, 0.0), [BLOCK])
                dots += tl.sum(tl.where(there, tl.reshape(z, [BLOCK // TOGETHER, TOGETHER]), 0.0), 1)
                byte = tl.max_contiguous((start - BLOCK) // TOGETHER + eighths, 1)
                ahead = tl.load(row_1 + byte, mask=byte >= 0, other=0)
            elif J1 + J2 > 0:
                law = tl.zeros([BLOCK], tl.float32)
                if J1 == 1:
                    law = share * ahead.to(tl.float32)
                    ahead = tl.load(row_1 + after, mask=after >= 0, other=0.0, eviction_policy=TABLES)
                elif J1 > 1:
                    law = scale * mixture(
                        first_1, one_1, two_1, three_1,
                        table_1, stride_1, limit_1, merged_1, numbers_1, distinct_1, at, J1, TABLES,
                    )  # fmt: skip
                    one_1, two_1, three_1 = values_at(first_1, limit_1, distinct_1, after, TABLES)
                if J2 > 0:
                    law += scale * mixture(
                        first_2, one_2, two_2, three_2,
                        table_2, stride_2, limit_2, merged_2, numbers_2, distinct_2, at, J2, TABLES,
                    )  # fmt: skip
                    one_2, two_2, three_2 = values_at(first_2, limit_2, distinct_2, after, TABLES)
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
            if BITS:
                dot = tl.where(share != 0, share * dot, 0.0)
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
        if K + EXCLUDED == 1 and LISTS == 0:
            q = scale * weight
        elif DISTINCT:
            q = scale * joined(ids, id_row, id_slot, short, weight, written, row, ignore_index, K, SLOTS)
        else:
            same = (short[:, None] == short[None, :]) & filled[None, :]
            q = scale * tl.sum(tl.where(same, weight[None, :], 0.0), 1)
        if J0 > 0:
            q += background(short, level, without_1, without_2, without_3, without_4, EXCLUDED)
        if J1 == 1:
            q += share * chosen_1.to(tl.float32)
        elif J1 > 1:
            one, two, three = values_at(first_1, limit_1, distinct_1, token, TABLES)
            q += scale * mixture(
                first_1, one, two, three, table_1, stride_1, limit_1, merged_1, numbers_1, distinct_1, token, J1, TABLES
            )  # fmt: skip
        if J2 > 0:
            one, two, three = values_at(first_2, limit_2, distinct_2, token, TABLES)
            q += scale * mixture(
                first_2, one, two, three, table_2, stride_2, limit_2, merged_2, numbers_2, distinct_2, token, J2, TABLES
            )  # fmt: skip
        p = tl.exp2(far)
        slope = mass * p - q
        if ENTROPY:
            slope += tl.where(p > 0, scale * bonus * LN_2 * p * (far + entropy), 0.0)
        tl.store(gradient + token, slope.to(gradient.dtype.element_ty), mask=written)
