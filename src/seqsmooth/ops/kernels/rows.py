"""Losses of rows of logits against soft targets, and their gradient, in one read and one write.

One program a row: c lse(z) - <q, z> and g (c softmax(z) - q) need the row twice, and it is still on the chip the second
time, in registers if it is short and in the cache if it is long. Target parts are read where they lie: slots and rows
of sparse tables (held at once, duplicates merged), rows of dense tables, and a constant background.
"""

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
def _slots(
    ids, id_row, id_slot, weights, weight_row, weight_slot,
    list_ids, list_weights, list_index, list_share,
    row, ignore_index, K: tl.constexpr, LISTS: tl.constexpr, LENGTH: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Tokens and masses of a row's slots and of its rows of a sparse table; how many of them are no padding."""
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
    return tl.where(filled, token, 0), weight, filled


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
def _mixture(
    total, table, stride, index, share, row, at, inside, J: tl.constexpr, SIZE: tl.constexpr
):  # fmt: skip
    """Add the weighted sum of J rows of a table at some columns; a row named twice is read once."""
    every = tl.arange(0, SIZE)
    numbers = tl.load(index + row * J + every, mask=every < J, other=-1)
    weights = tl.load(share + row * J + every, mask=numbers >= 0, other=0.0).to(tl.float32)
    for j in range(J):
        number = tl.load(index + row * J + j)
        same = numbers == number
        weight = tl.sum(tl.where(same, weights, 0.0), 0)
        first = tl.min(tl.where(same, every, SIZE), 0) == j
        if first & (number >= 0) & (weight != 0):
            total += weight * tl.load(table + number * stride + at, mask=inside, other=0.0).to(tl.float32)
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
def _dense_parts(
    at, row, vocab_size,
    table_1, stride_1, limit_1, index_1, share_1, table_2, stride_2, limit_2, index_2, share_2,
    level, without_1, without_2, without_3, without_4,
    J0: tl.constexpr, J1: tl.constexpr, S1: tl.constexpr, J2: tl.constexpr, S2: tl.constexpr,
    EXCLUDED: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """All of q at some columns but the slots."""
    q = tl.zeros([SIZE], tl.float32)
    if J0 > 0:
        q += background(at, level, without_1, without_2, without_3, without_4, EXCLUDED)
    if J1 > 0:
        q = _mixture(q, table_1, stride_1, index_1, share_1, row, at, at < limit_1, J1, S1)
    if J2 > 0:
        q = _mixture(q, table_2, stride_2, index_2, share_2, row, at, at < limit_2, J2, S2)
    return tl.where(at < vocab_size, q, 0.0)


@triton.jit
def _scores(logits, bias, at, limit, vocab_size, BIAS: tl.constexpr, POLICY: tl.constexpr):
    """Logits at some columns; columns of padding, up to a limit that makes loads wide, count for nothing."""
    z = tl.load(logits + at, mask=at < limit, other=0.0, eviction_policy=POLICY).to(tl.float32)
    if BIAS:
        z += tl.load(bias + at, mask=at < vocab_size, other=0.0).to(tl.float32)
    return tl.where(at < vocab_size, z, -float("inf"))


@triton.jit
def rows(
    logits, stride, gradient, gradient_stride, bias, limit, vocab_size,
    smoothed, nll, state, count,  # (N,) twice, (3, N): lse, c, entropy
    labels,  # (N,)
    bonuses, bonus_stride,  # (N,) weights of the entropy
    items, factor,  # () by which losses are divided once they are summed, and a factor
    upstream, upstream_stride,  # (N,), where the gradient is made again
    ids, id_row, id_slot, weights, weight_row, weight_slot,  # (N, K)
    list_ids, list_weights, list_index, list_share,  # (G, LENGTH) twice, (N, LISTS) twice
    table_1, stride_1, limit_1, masses_1, index_1, share_1,  # (G, V), (G,), (N, J1) twice
    table_2, stride_2, limit_2, masses_2, index_2, share_2,
    index_0, share_0, uniform_size, without_1, without_2, without_3, without_4,  # (N, J0) twice, a background
    index_3, share_3,  # (N, J3) of a table that another kernel adds
    ignore_index,
    K: tl.constexpr, LISTS: tl.constexpr, LENGTH: tl.constexpr, SLOTS: tl.constexpr,
    J0: tl.constexpr, S0: tl.constexpr, J1: tl.constexpr, S1: tl.constexpr,
    J2: tl.constexpr, S2: tl.constexpr, J3: tl.constexpr, S3: tl.constexpr, EXCLUDED: tl.constexpr,
    BIAS: tl.constexpr, LABELS: tl.constexpr, ENTROPY: tl.constexpr, GRADIENT: tl.constexpr,
    COUNTED: tl.constexpr, FOLD: tl.constexpr, AGAIN: tl.constexpr, WHOLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row. WHOLE: it fits one block and stays in registers."""
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

    token, weight, filled = _slots(
        ids, id_row, id_slot, weights, weight_row, weight_slot, list_ids, list_weights, list_index, list_share,
        row, ignore_index, K, LISTS, LENGTH, SLOTS,
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
        c += mass
        parts += used
    if J2 > 0:
        mass, used = _mass(masses_2, index_2, share_2, row, J2, S2, False)
        c += mass
        parts += used
    own = c
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

    chosen = tl.load(logits + token, mask=filled, other=0.0).to(tl.float32)
    if BIAS:
        chosen += tl.load(bias + token, mask=filled, other=0.0).to(tl.float32)
    named = False
    right = 0.0
    if LABELS:
        label = tl.load(labels + row)
        named = label != ignore_index
        right = tl.load(logits + tl.where(named, label, 0)).to(tl.float32)
        if BIAS:
            right += tl.load(bias + tl.where(named, label, 0)).to(tl.float32)

    # All sums are of z - base, so that a constant added to the logits costs no digits; `top` is their greatest.
    if WHOLE:
        z = _scores(logits, bias, columns, limit, vocab_size, BIAS, "evict_first")
        base = tl.max(z, 0)
        base = tl.where(base == -float("inf"), 0.0, base)
        top = 0.0
        z -= base
        q = _dense_parts(
            columns, row, vocab_size, table_1, stride_1, limit_1, index_1, share_1,
            table_2, stride_2, limit_2, index_2, share_2, level, without_1, without_2, without_3, without_4,
            J0, J1, S1, J2, S2, EXCLUDED, BLOCK,
        )  # fmt: skip
        dot = tl.sum(tl.where(q != 0, q * z, 0.0), 0)
        grown = tl.exp(z)
        total = tl.sum(grown, 0)
        moment = 0.0
        if ENTROPY:
            moment = tl.sum(tl.where(grown > 0, grown * z, 0.0), 0)
    else:
        base = tl.max(_scores(logits, bias, columns, limit, vocab_size, BIAS, "evict_last"), 0)
        base = tl.where(base == -float("inf"), 0.0, base)
        top = -float("inf")
        sums = tl.zeros([BLOCK], tl.float32)
        moments = tl.zeros([BLOCK], tl.float32)
        dots = tl.zeros([BLOCK], tl.float32)
        for start in range(0, vocab_size, BLOCK):
            at = start + columns
            z = _scores(logits, bias, at, limit, vocab_size, BIAS, "evict_last") - base
            higher = tl.maximum(top, tl.max(z, 0))
            higher = tl.where(higher == -float("inf"), 0.0, higher)
            shrink = tl.exp(top - higher)
            grown = tl.exp(z - higher)
            sums = sums * shrink + grown
            if ENTROPY:
                moments = moments * shrink + tl.where(grown > 0, grown * z, 0.0)
            top = higher
            if (J0 > 0) or (J1 > 0) or (J2 > 0):
                q = _dense_parts(
                    at, row, vocab_size, table_1, stride_1, limit_1, index_1, share_1,
                    table_2, stride_2, limit_2, index_2, share_2, level, without_1, without_2, without_3, without_4,
            J0, J1, S1, J2, S2, EXCLUDED, BLOCK,
                )  # fmt: skip
                dots += tl.where(q != 0, q * z, 0.0)
        dot = tl.sum(dots, 0)
        total = tl.sum(sums, 0)
        moment = tl.sum(moments, 0)
    lse = top + tl.log(total)
    value = own * lse - dot - tl.sum(tl.where(weight != 0, weight * (chosen - base), 0.0), 0)
    entropy = 0.0
    bonus = 0.0
    if ENTROPY:
        bonus = tl.load(bonuses + row * bonus_stride).to(tl.float32)
        entropy = lse - moment / total
        value -= bonus * entropy
    if not AGAIN:
        tl.store(smoothed + row, value)
        tl.store(nll + row, tl.where(named, lse - (right - base), 0.0))
        tl.store(state + row, lse + base)
        if J3 > 0:
            tl.store(state + count + row, c)
            tl.store(state + 2 * count + row, entropy)

    if GRADIENT:
        tl.debug_barrier()  # the gradient may overwrite the logits, which must have been read
        if WHOLE:
            p = grown / total
            slope = c * p - q
            if ENTROPY:
                slope += tl.where(p > 0, bonus * p * (z - lse + entropy), 0.0)
            tl.store(gradient + columns, (scale * slope).to(gradient.dtype.element_ty), mask=columns < limit)
        else:
            blocks = tl.cdiv(vocab_size, BLOCK)
            for block in range(0, blocks):
                at = (blocks - 1 - block) * BLOCK + columns  # backwards: what was read last is nearest
                z = _scores(logits, bias, at, limit, vocab_size, BIAS, "evict_first") - base
                p = tl.exp(z - lse)
                slope = c * p
                if ENTROPY:
                    slope += tl.where(p > 0, bonus * p * (z - lse + entropy), 0.0)
                if (J0 > 0) or (J1 > 0) or (J2 > 0):
                    slope -= _dense_parts(
                        at, row, vocab_size, table_1, stride_1, limit_1, index_1, share_1,
                        table_2, stride_2, limit_2, index_2, share_2,
                        level, without_1, without_2, without_3, without_4,
                        J0, J1, S1, J2, S2, EXCLUDED, BLOCK,
                    )  # fmt: skip
                tl.store(
                    gradient + at, (scale * slope).to(gradient.dtype.element_ty), mask=at < limit,
                    eviction_policy="evict_first",
                )  # fmt: skip
        if K + LISTS > 0:
            # Every slot writes the whole gradient of its token, so that two slots of one token write the same.
            tl.debug_barrier()
            same = (token[:, None] == token[None, :]) & filled[None, :]
            merged = tl.sum(tl.where(same, weight[None, :], 0.0), 1)
            if (J0 > 0) or (J1 > 0) or (J2 > 0):
                merged += _dense_parts(
                    token, row, vocab_size, table_1, stride_1, limit_1, index_1, share_1,
                    table_2, stride_2, limit_2, index_2, share_2, level, without_1, without_2, without_3, without_4,
                    J0, J1, S1, J2, S2, EXCLUDED, SLOTS,
                )  # fmt: skip
            distance = chosen - base - lse
            p = tl.exp(distance)
            slope = c * p - merged
            if ENTROPY:
                slope += tl.where(p > 0, bonus * p * (distance + entropy), 0.0)
            tl.store(gradient + token, (scale * slope).to(gradient.dtype.element_ty), mask=filled)


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
def rescaled(values, size, upstream, items, factor, COUNTED: tl.constexpr, FOLD: tl.constexpr, BLOCK: tl.constexpr):
    """Multiply by what came from above, and if not done before, divide by the number of items; by 1 is by nothing."""
    scale = tl.load(upstream).to(tl.float32)
    if not FOLD:
        scale *= share_of(items, factor, COUNTED)
    if scale != 1:
        step = tl.num_programs(0).to(tl.int64) * BLOCK
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        for _ in range(0, tl.cdiv(size, step)):
            value = tl.load(values + at, mask=at < size, other=0.0).to(tl.float32)
            tl.store(values + at, (scale * value).to(values.dtype.element_ty), mask=at < size)
            at += step


@triton.jit
def emptied(states, clean, state, width, BLOCK: tl.constexpr):
    """Copy a row, or write zeros where the loss ignored it."""
    row = tl.program_id(0).to(tl.int64)
    live = tl.load(state + row) < float("inf")
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(states + row * width + at, mask=live & (at < width), other=0.0)
        tl.store(clean + row * width + at, value, mask=at < width)
