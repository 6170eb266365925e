"""Targets that are rows of the similarity law, made on the fly: never V x V numbers, nor even N x V.

After `rows` has found the log-partition of each row of logits, one pass over tiles of rows and tokens multiplies
embeddings on the tensor cores, turns cosines into probabilities with normalisers known beforehand, adds their part of
the inner product, and writes the gradient.
"""

from __future__ import annotations

import triton
import triton.language as tl

from seqsmooth.ops.kernels.rows import background, share_of


@triton.jit
def _law(
    units, dimension, of, at, spreads, receives, best, log_total, counts, inverse_tau, beta,
    vocab_size, D_BLOCK: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr, FREQUENCY: tl.constexpr,
):  # fmt: skip
    """r(v|y) for some tokens y (`of`) and v (`at`)."""
    cosine = tl.zeros([ROWS, TOKENS], tl.float32)
    depth = tl.arange(0, D_BLOCK)
    for start in range(0, dimension, D_BLOCK):
        left = tl.load(units + of[:, None] * dimension + start + depth[None, :])
        right = tl.load(
            units + at[None, :] * dimension + start + depth[:, None], mask=at[None, :] < vocab_size, other=0.0
        )
        cosine = tl.dot(left, right, cosine)
    if FREQUENCY:
        one = tl.load(counts + of)[:, None]
        other = tl.load(counts + at, mask=at < vocab_size, other=0.0)[None, :]
        high = tl.maximum(one, other)
        cosine -= beta * tl.where(high > 0, tl.minimum(one, other) / tl.maximum(high, 1e-37), 1.0)
    power = (cosine - tl.load(best + of)[:, None]) * inverse_tau - tl.load(log_total + of)[:, None]
    law = tl.where(receives[None, :], tl.exp(power), 0.0)
    itself = tl.where(of[:, None] == at[None, :], 1.0, 0.0)
    return tl.where(spreads[:, None], law, itself)


@triton.jit
def tiles(
    logits, stride, gradient, gradient_stride, bias, limit, vocab_size,
    state, partial, count,  # (3, N): lse, c, entropy; (PARTS, N): inner products of log-probabilities with the law
    bonuses, bonus_stride, items, factor, upstream, upstream_stride,  # as in `rows`
    ids, id_row, id_slot, weights, weight_row, weight_slot, ignore_index,  # (N, K)
    table, table_stride, table_index, table_share,  # (G, V), (N, J2) twice
    index_0, share_0, uniform_size, without_1, without_2, without_3, without_4,  # (N, J0) twice, a background
    units, dimension, known, best, log_total, counts, inverse_tau, beta,  # (V, D) fp16, and (V,) each
    index, share,  # (N, J)
    K: tl.constexpr, J: tl.constexpr, J0: tl.constexpr, J2: tl.constexpr, EXCLUDED: tl.constexpr,
    FREQUENCY: tl.constexpr, ENTROPY: tl.constexpr, BIAS: tl.constexpr, GRADIENT: tl.constexpr,
    COUNTED: tl.constexpr, FOLD: tl.constexpr, AGAIN: tl.constexpr,
    D_BLOCK: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Some rows, and every PARTS-th tile of tokens."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    there = row < count
    lse = tl.load(state + row, mask=there, other=float("inf"))
    live = lse < float("inf")
    c = tl.load(state + count + row, mask=live, other=0.0)
    full = share_of(items, factor, COUNTED)
    expected = full if FOLD else 1.0
    scale = tl.zeros([ROWS], tl.float32) + expected
    written = there
    if AGAIN:
        scale = full * tl.load(upstream + row * upstream_stride, mask=there, other=0.0).to(tl.float32)
        written = there & (scale != expected)
        if tl.sum(written.to(tl.int32), 0) == 0:
            return
    bonus = tl.zeros([ROWS], tl.float32)
    entropy = tl.zeros([ROWS], tl.float32)
    if ENTROPY:
        bonus = tl.load(bonuses + row * bonus_stride, mask=live, other=0.0).to(tl.float32)
        entropy = tl.load(state + 2 * count + row, mask=live, other=0.0)
    dot = tl.zeros([ROWS], tl.float32)
    for block in range(part, tl.cdiv(vocab_size, TOKENS), PARTS):
        at = block * TOKENS + tl.arange(0, TOKENS)
        inside = at < vocab_size
        receives = tl.load(known + at, mask=inside, other=0) != 0
        q = tl.zeros([ROWS, TOKENS], tl.float32)
        for j in range(J):
            of = tl.load(index + row * J + j, mask=live, other=-1)
            weight = tl.load(share + row * J + j, mask=of >= 0, other=0.0).to(tl.float32)
            of = tl.maximum(of, 0)
            q += weight[:, None] * _law(
                units, dimension, of, at, tl.load(known + of) != 0, receives, best, log_total, counts, inverse_tau,
                beta, vocab_size, D_BLOCK, ROWS, TOKENS, FREQUENCY,
            )  # fmt: skip
        place = row[:, None] * stride + at[None, :]
        z = tl.load(logits + place, mask=live[:, None] & (at < limit)[None, :], other=0.0).to(tl.float32)
        if BIAS:
            z += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)[None, :]
        z -= tl.where(live, lse, 0.0)[:, None]
        dot += tl.sum(tl.where(q != 0, q * z, 0.0), 1)
        if GRADIENT:
            for k in range(K):
                token = tl.load(ids + row * id_row + k * id_slot, mask=live, other=ignore_index)
                filled = live & (token != ignore_index)
                weight = tl.load(weights + row * weight_row + k * weight_slot, mask=filled, other=0.0).to(tl.float32)
                q += tl.where(token[:, None] == at[None, :], weight[:, None], 0.0)
            if J2 > 0:
                for j in range(J2):
                    of = tl.load(table_index + row * J2 + j, mask=live, other=-1)
                    weight = tl.load(table_share + row * J2 + j, mask=of >= 0, other=0.0).to(tl.float32)
                    present = (of >= 0)[:, None] & inside[None, :]
                    values = tl.load(table + of[:, None] * table_stride + at[None, :], mask=present, other=0.0)
                    q += weight[:, None] * values.to(tl.float32)
            if J0 > 0:
                even = background(at, 1.0, without_1, without_2, without_3, without_4, EXCLUDED)
                for j in range(J0):
                    of = tl.load(index_0 + row * J0 + j, mask=live, other=-1)
                    weight = tl.load(share_0 + row * J0 + j, mask=of >= 0, other=0.0).to(tl.float32)
                    q += (weight / tl.maximum(uniform_size, 1))[:, None] * even[None, :]
            p = tl.exp(z)
            slope = c[:, None] * p - q
            if ENTROPY:
                slope += tl.where(p > 0, bonus[:, None] * p * (z + entropy[:, None]), 0.0)
            slope = tl.where(live[:, None] & inside[None, :], scale[:, None] * slope, 0.0)
            place = row[:, None] * gradient_stride + at[None, :]
            mask = written[:, None] & (at < limit)[None, :]
            tl.store(gradient + place, slope.to(gradient.dtype.element_ty), mask=mask)
    if not AGAIN:
        tl.store(partial + part * count + row, dot, mask=there)
