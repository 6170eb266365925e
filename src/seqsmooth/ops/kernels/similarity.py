"""Targets that are rows of the similarity law, made on the fly: never V x V numbers, nor even N x V.

After `rows` has found the log-partition of each row of logits, one pass over tiles of rows and tokens multiplies
embeddings on the tensor cores, turns cosines into probabilities with normalisers known beforehand, adds their part of
the inner product, and writes the gradient.
"""

from __future__ import annotations

import triton
import triton.language as tl

from seqsmooth.ops.kernels.rows import LOG2_E, LOWEST
from seqsmooth.ops.kernels.target_parts import background, share_of


@triton.jit
def _vectors(units, dimension, first, tokens, WIDTH: tl.constexpr):
    """Some dimensions of the embeddings of some tokens, a token a row."""
    return tl.load(units + tokens[:, None] * dimension + first + tl.arange(0, WIDTH)[None, :])


@triton.jit
def _law(cosine, of, at, offset, counts, steepness, beta, vocab_size, FREQUENCY: tl.constexpr):
    """r(v|y) for some tokens y (`of`) and v (`at`), from their cosines, as if all had embeddings."""
    if FREQUENCY:
        one = tl.load(counts + of)[:, None]
        other = tl.load(counts + at, mask=at < vocab_size, other=0.0)[None, :]
        high = tl.maximum(one, other)
        cosine -= beta * tl.where(high > 0, tl.minimum(one, other) / tl.maximum(high, 1e-37), 1.0)
    return tl.exp2(cosine * steepness - offset[:, None])


@triton.jit
def _with(q, token, weight, at):
    """Add weights of tokens where they are among some columns."""
    return q + tl.where(token.to(tl.int32)[:, None] == at[None, :], weight[:, None], 0.0)


@triton.jit
def _tile(logits, stride, row, live, block, limit, TOKENS: tl.constexpr):
    """The logits of some rows in a block of columns; 0 beyond the last."""
    at = block * TOKENS + tl.arange(0, TOKENS)
    mask = live[:, None] & (at < limit)[None, :]
    return tl.load(logits + row[:, None] * stride + at[None, :], mask=mask, other=0.0, eviction_policy="evict_first")


@triton.jit
def marked(
    ids, id_row, id_slot, marks, count, across, ignore_index,  # (N, K), and (N / ROWS, V / TOKENS) that are 0
    K: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mark the tiles that have slots: a look at a mark costs less than all threads agreeing on what they have."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = at // K
    token = tl.load(ids + row * id_row + at % K * id_slot, mask=row < count, other=ignore_index)
    tl.store(marks + row // ROWS * across + token // TOKENS, 1, mask=(row < count) & (token != ignore_index))


@triton.jit
def tiles(
    logits, stride, gradient, gradient_stride, bias, limit, vocab_size,
    state, partial, count,  # (4, N) as in `rows`; (PARTS, N): inner products of log-probabilities with the law
    bonuses, bonus_stride, items, factor, upstream, upstream_stride,  # as in `rows`
    ids, id_row, id_slot, weights, weight_row, weight_slot, ignore_index, marks,  # (N, K), and of `marked`
    table, table_stride, table_index, table_share,  # (G, V), (N, J2) twice
    index_0, share_0, uniform_size, without_1, without_2, without_3, without_4,  # (N, J0) twice, a background
    units, known, whole, offsets, counts, inverse_tau, beta,  # (V, D), (V,), (V / TOKENS,), (V,) twice
    index, share,  # (N, J)
    K: tl.constexpr, J: tl.constexpr, J0: tl.constexpr, J2: tl.constexpr, EXCLUDED: tl.constexpr,
    FREQUENCY: tl.constexpr, ENTROPY: tl.constexpr, BIAS: tl.constexpr, GRADIENT: tl.constexpr,
    COUNTED: tl.constexpr, FOLD: tl.constexpr, AGAIN: tl.constexpr,
    WIDE: tl.constexpr, NARROW: tl.constexpr, HELD: tl.constexpr, DEPTH: tl.constexpr,  # D = WIDE + NARROW
    EXACT: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Some rows, and every PARTS-th tile of tokens. HELD: the embeddings of the rows' tokens stay on the chip."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    there = row < count
    lse = tl.load(state + row, mask=there, other=float("inf"))
    live = lse < float("inf")
    lse = tl.where(live, lse, 0.0)
    base = tl.load(state + count + row, mask=live, other=0.0)
    full = share_of(items, factor, COUNTED)
    expected = full if FOLD else 1.0
    scale = tl.zeros([ROWS], tl.float32) + expected
    written = there
    if AGAIN:
        scale = full * tl.load(upstream + row * upstream_stride, mask=there, other=0.0).to(tl.float32)
        written = there & (scale != expected)
        if tl.sum(written.to(tl.int32), 0) == 0:
            return
    c = scale * tl.load(state + 2 * count + row, mask=live, other=0.0)
    bonus = tl.zeros([ROWS], tl.float32)
    entropy = tl.zeros([ROWS], tl.float32)
    if ENTROPY:
        bonus = scale * tl.load(bonuses + row * bonus_stride, mask=live, other=0.0).to(tl.float32)
        entropy = tl.load(state + 3 * count + row, mask=live, other=0.0)
    dimension: tl.constexpr = WIDE + NARROW
    steepness = inverse_tau * LOG2_E

    if HELD:
        of = tl.load(index + row, mask=live, other=-1)
        given = scale * tl.load(share + row, mask=of >= 0, other=0.0).to(tl.float32)
        of = tl.maximum(of, 0)
        spread = tl.where(tl.load(known + of) != 0, given, 0.0)
        kept = given - spread  # a token without an embedding keeps its mass
        any_kept = tl.sum((kept != 0).to(tl.int32), 0) > 0
        offset = tl.load(offsets + of)
        held = _vectors(units, dimension, 0, of, WIDE)
        if NARROW > 0:
            held_too = _vectors(units, dimension, WIDE, of, NARROW)

    # All of q is scaled as the gradient is; logarithms are to base 2.
    dots = tl.zeros([ROWS], tl.float32)
    ahead = _tile(logits, stride, row, live, part, limit, TOKENS)  # logits come from afar: they set out a tile early
    for block in range(part, tl.cdiv(vocab_size, TOKENS), PARTS):
        first = block * TOKENS
        at = first + tl.arange(0, TOKENS)
        inside = at < vocab_size
        raw = ahead
        ahead = _tile(logits, stride, row, live, block + PARTS, limit, TOKENS)
        plain = tl.load(whole + first // 64) != 0
        slotted = tl.load(marks + tl.program_id(0) * tl.cdiv(vocab_size, TOKENS) + block) != 0
        them = tl.minimum(at, vocab_size - 1).to(tl.int64)
        if HELD:
            cosine = tl.dot(held, tl.trans(_vectors(units, dimension, 0, them, WIDE)))
            if NARROW > 0:
                cosine = tl.dot(held_too, tl.trans(_vectors(units, dimension, WIDE, them, NARROW)), cosine)
            q = spread[:, None] * _law(cosine, of, at, offset, counts, steepness, beta, vocab_size, FREQUENCY)
        else:
            q = tl.zeros([ROWS, TOKENS], tl.float32)
            for j in range(J):
                of = tl.load(index + row * J + j, mask=live, other=-1)
                given = scale * tl.load(share + row * J + j, mask=of >= 0, other=0.0).to(tl.float32)
                of = tl.maximum(of, 0)
                spread = tl.where(tl.load(known + of) != 0, given, 0.0)
                offset = tl.load(offsets + of)
                cosine = tl.zeros([ROWS, TOKENS], tl.float32)
                for depth in range(0, dimension, DEPTH):
                    ours = _vectors(units, dimension, depth, of, DEPTH)
                    cosine = tl.dot(ours, tl.trans(_vectors(units, dimension, depth, them, DEPTH)), cosine, PRECISION)
                law = _law(cosine, of, at, offset, counts, steepness, beta, vocab_size, FREQUENCY)
                q += tl.where(spread != 0, spread, 0.0)[:, None] * law
        z = raw.to(tl.float32)
        if BIAS:
            z += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)[None, :]
        if EXACT:
            z = (z - base[:, None]) * LOG2_E - (lse * LOG2_E)[:, None]
        else:
            z = z * LOG2_E - ((base + lse) * LOG2_E)[:, None]
        if not plain:  # tokens without an embedding, or the end of the vocabulary
            receives = tl.load(known + at, mask=inside, other=0) != 0
            q = tl.where(receives[None, :], q, 0.0)
            z = tl.where(inside[None, :], z, 0.0)
        if HELD:
            if any_kept:
                q = _with(q, of, kept, at)
        else:
            for j in range(J):
                of = tl.load(index + row * J + j, mask=live, other=-1)
                given = scale * tl.load(share + row * J + j, mask=of >= 0, other=0.0).to(tl.float32)
                lost = tl.where(tl.load(known + tl.maximum(of, 0)) != 0, 0.0, given)
                q = _with(q, of, lost, at)
        dots += tl.sum(q * tl.maximum(z, LOWEST), 1)
        if GRADIENT:
            if slotted:  # as few tiles are
                for k in range(K):
                    token = tl.load(ids + row * id_row + k * id_slot, mask=live, other=ignore_index)
                    filled = live & (token != ignore_index)
                    weight = tl.load(weights + row * weight_row + k * weight_slot, mask=filled, other=0.0)
                    q = _with(q, token, scale * weight.to(tl.float32), at)
            if J2 > 0:
                for j in range(J2):
                    number = tl.load(table_index + row * J2 + j, mask=live, other=-1)
                    weight = scale * tl.load(table_share + row * J2 + j, mask=number >= 0, other=0.0).to(tl.float32)
                    present = (number >= 0)[:, None] & inside[None, :]
                    values = tl.load(table + number[:, None] * table_stride + at[None, :], mask=present, other=0.0)
                    q += weight[:, None] * values.to(tl.float32)
            if J0 > 0:
                even = background(at, 1.0, without_1, without_2, without_3, without_4, EXCLUDED)
                for j in range(J0):
                    number = tl.load(index_0 + row * J0 + j, mask=live, other=-1)
                    weight = scale * tl.load(share_0 + row * J0 + j, mask=number >= 0, other=0.0).to(tl.float32)
                    q += (weight / tl.maximum(uniform_size, 1))[:, None] * even[None, :]
            # In an ignored row c and q are 0; what is written past the vocabulary is padding.
            p = tl.exp2(z)
            slope = c[:, None] * p - q
            if ENTROPY:
                slope += tl.where(p > 0, bonus[:, None] * p * (z / LOG2_E + entropy[:, None]), 0.0)
            place = row[:, None] * gradient_stride + at[None, :]
            mask = written[:, None] & (at < limit)[None, :]
            tl.store(gradient + place, slope.to(gradient.dtype.element_ty), mask=mask, eviction_policy="evict_first")
    if not AGAIN:
        dot = tl.where(dots < LOWEST * 1e-20, -float("inf"), dots / (expected * LOG2_E))
        tl.store(partial + part * count + row, dot, mask=there)
