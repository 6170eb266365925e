"""CIDEr-D of every candidate in one launch: one program for a few candidates of an item and its references.

The document frequencies are a trie in a hash table (`seqsmooth.ops.hash_table`). The key of an n-gram is the node of
its first n-1 words, shifted by 32 bits, plus the id of its last word; the value is its own node, shifted by 32 bits,
plus the bits of its squared weight in single precision. So the four orders are four steps down the trie, each one trip
to memory, and every position of every sequence goes down at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops import hash_table
from seqsmooth.ops.kernels import ngrams
from seqsmooth.ops.kernels.launching import launch

_FIRST: tl.constexpr = tl.constexpr(hash_table.FIRST_FACTOR)
_SECOND: tl.constexpr = tl.constexpr(hash_table.SECOND_FACTOR)
_LOW: tl.constexpr = tl.constexpr(hash_table.LOW)


def cider(
    candidates: Tensor,  # (B, L, T) int64
    references: Tensor,  # (B, R, S) int64
    table: Tensor,  # (M, 4) int64
    rarest: float,
    order: int,
    sigma: float,
) -> Tensor:  # (B, L) float32
    """Score each candidate against the references of its row; `rarest` is the squared weight of an unseen n-gram."""
    items, samples, ours = candidates.shape
    number, theirs = references.shape[1:]
    longest = max(ours, theirs)
    width = ngrams.cover(longest)
    programs, group, columns, warps = ngrams.spread(items, samples, number, width)
    scores = torch.empty((items, samples), dtype=torch.float32, device=candidates.device)
    given = (
        candidates.contiguous(), references.contiguous(), table, scores,
        programs, samples, ours, theirs, table.shape[0], rarest, min(1 / sigma, 1e18),
    )  # fmt: skip
    constants = {
        "ORDER": order, "GROUP": group, "REFERENCES": number, "COLUMNS": columns, "WIDTH": width,
        "STEPS": ngrams.steps(longest), "THEIR_STEPS": ngrams.steps(theirs),
    }  # fmt: skip
    launch(_cider, (items * programs,), given, constants, num_warps=warps, num_stages=1)
    return scores


@triton.jit
def _cider(
    candidates,  # (B, L, T)
    references,  # (B, R, S)
    table,  # (M, 4)
    scores,  # (B, L)
    programs,  # for an item
    L,
    T,
    S,
    buckets,  # M
    rarest,
    narrowness,  # 1 / sigma
    ORDER: tl.constexpr,
    GROUP: tl.constexpr,
    REFERENCES: tl.constexpr,  # R
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    THEIR_STEPS: tl.constexpr,
):
    item = tl.program_id(0).to(tl.int64) // programs
    column = tl.arange(0, COLUMNS)
    sample = (tl.program_id(0) % programs) * GROUP + column
    ours = (column < GROUP) & (sample < L)
    length = tl.where(ours, T, tl.where((column >= GROUP) & (column < GROUP + REFERENCES), S, 0))[None, :]
    candidate = candidates + (item * L + sample) * T
    sequence = tl.where(ours, candidate, references + (item * REFERENCES + column - GROUP) * S)[None, :]
    at = tl.arange(0, WIDTH)[:, None]
    x0, x1, x2, x3 = ngrams.windows(sequence, at, length)
    own1, own2, own3, own4 = ngrams.ordinals(x0, x1, x2, x3, sequence, at, length, STEPS)

    node = tl.zeros((WIDTH, COLUMNS), tl.int64)
    node, square1 = _descend(table, buckets, node, x0, rarest)
    node, square2 = _descend(table, buckets, node, x1, rarest)
    node, square3 = _descend(table, buckets, node, x2, rarest)
    node, square4 = _descend(table, buckets, node, x3, rarest)
    inverse1 = _inverse_norm(square1, own1)  # (COLUMNS,)
    inverse2 = _inverse_norm(square2, own2)
    inverse3 = _inverse_norm(square3, own3)
    inverse4 = _inverse_norm(square4, own4)
    bigrams = tl.maximum(tl.sum((x0 >= 0).to(tl.int32), axis=0) - 1, 0)

    reward = tl.zeros((COLUMNS,), tl.float32)
    number = 0
    for r in range(0, REFERENCES):
        reference = references + (item * REFERENCES + r) * S
        in1, in2, in3, in4, tokens = ngrams.counts(x0, x1, x2, x3, reference, S, THEIR_STEPS)
        mine = column == GROUP + r
        cosine = _product(square1, own1, in1) * inverse1 * tl.sum(tl.where(mine, inverse1, 0.0), axis=0)
        if ORDER > 1:
            cosine += _product(square2, own2, in2) * inverse2 * tl.sum(tl.where(mine, inverse2, 0.0), axis=0)
        if ORDER > 2:
            cosine += _product(square3, own3, in3) * inverse3 * tl.sum(tl.where(mine, inverse3, 0.0), axis=0)
        if ORDER > 3:
            cosine += _product(square4, own4, in4) * inverse4 * tl.sum(tl.where(mine, inverse4, 0.0), axis=0)
        apart = (bigrams - tl.maximum(tokens - 1, 0)).to(tl.float32) * narrowness
        # An absent reference has no n-grams: it adds nothing to the sum and is left out of the number.
        reward += cosine * tl.exp(-0.5 * apart * apart)
        number += (tokens > 0).to(tl.int32)
    reward *= 10.0 / ORDER / tl.maximum(number, 1).to(tl.float32)
    tl.store(scores + item * L + sample, reward, mask=ours)


@triton.jit
def _descend(table, buckets, node, token, rarest):
    # The child of each node by a token, -1 where there is none, and the squared weight of the n-gram that ends there.
    wanted = (node >= 0) & (token >= 0) & (token <= _LOW)
    key = (node << 32) | token
    mixed = (key ^ (key >> 32)) * _FIRST
    mixed = (mixed ^ ((mixed >> 32) & _LOW)) * _SECOND
    first = 4 * ((((mixed >> 32) & _LOW) * buckets) >> 32)
    second = 4 * (((mixed & _LOW) * buckets) >> 32)
    a = tl.load(table + first, mask=wanted, other=-1)
    b = tl.load(table + first + 2, mask=wanted, other=-1)
    c = tl.load(table + second, mask=wanted, other=-1)
    d = tl.load(table + second + 2, mask=wanted, other=-1)
    place = tl.where(a == key, first, tl.where(b == key, first + 2, tl.where(c == key, second, second + 2)))
    found = wanted & ((a == key) | (b == key) | (c == key) | (d == key))
    value = tl.load(table + place + 1, mask=found, other=-1)  # of a line that was just read
    square = tl.where(found, value.to(tl.int32).to(tl.float32, bitcast=True), rarest)
    return value >> 32, square


@triton.jit
def _inverse_norm(square, own):
    # 1 / ||w||; a norm of 0 means that no n-gram weighs anything, and then so little does the product.
    norm = tl.sqrt(tl.sum(square * tl.maximum(2 * own - 1, 0).to(tl.float32), axis=0))
    return tl.where(norm == 0, 0.0, 1.0 / tl.where(norm == 0, 1.0, norm))


@triton.jit
def _product(square, own, shared):
    # min(w_c, w_r) w_r of an n-gram is f_r times its squared weight for each occurrence left after clipping.
    return tl.sum(tl.where(own <= shared, shared, 0).to(tl.float32) * square, axis=0)
