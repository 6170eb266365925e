"""CIDEr-D of every candidate in one launch: one program for a candidate and its references.

The document frequencies are a trie in a hash table (`seqsmooth.ops.hash_table`). The key of an n-gram is the node of
its first n-1 words, shifted by 32 bits, plus the id of its last word; the value is its own node, shifted by 32 bits,
plus the bits of its squared weight in single precision. So the four orders are four steps down the trie, each one trip
to memory, and every position of every row goes down at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops import hash_table
from seqsmooth.ops.kernels import rows

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
    height, width = rows.tile(candidates, references)
    scores = torch.empty((items, samples), dtype=torch.float32, device=candidates.device)
    _cider[(items * samples,)](
        candidates.contiguous(),
        references.contiguous(),
        table,
        scores,
        samples,
        ours,
        references.shape[1],
        references.shape[2],
        table.shape[0],
        rarest,
        min(1 / sigma, 1e18),
        ORDER=order,
        ROWS=height,
        WIDTH=width,
        STEPS=rows.steps(candidates, references),
        num_warps=rows.warps(height, width),
        num_stages=1,
    )
    return scores


@triton.jit
def _cider(
    candidates,  # (B, L, T)
    references,  # (B, R, S)
    table,  # (M, 4)
    scores,  # (B, L)
    L,
    T,
    R,
    S,
    buckets,  # M
    rarest,
    narrowness,  # 1 / sigma
    ORDER: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    item = pair // L
    line = tl.arange(0, ROWS)
    row = line[:, None]
    at = tl.arange(0, WIDTH)[None, :]
    x0 = rows.read(candidates, references, pair, item, row, at, T, R, S)
    x1 = rows.read(candidates, references, pair, item, row, at + 1, T, R, S)
    x2 = rows.read(candidates, references, pair, item, row, at + 2, T, R, S)
    x3 = rows.read(candidates, references, pair, item, row, at + 3, T, R, S)
    top = tl.zeros((1, 1), tl.int32)
    c0 = rows.read(candidates, references, pair, item, top, at, T, R, S)
    c1 = rows.read(candidates, references, pair, item, top, at + 1, T, R, S)
    c2 = rows.read(candidates, references, pair, item, top, at + 2, T, R, S)
    c3 = rows.read(candidates, references, pair, item, top, at + 3, T, R, S)

    # The number of each occurrence within its own row, and how often the candidate's n-gram at i is in each row.
    own1 = tl.zeros((ROWS, WIDTH), tl.int32)
    own2 = tl.zeros((ROWS, WIDTH), tl.int32)
    own3 = tl.zeros((ROWS, WIDTH), tl.int32)
    own4 = tl.zeros((ROWS, WIDTH), tl.int32)
    in1 = tl.zeros((ROWS, WIDTH), tl.int32)
    in2 = tl.zeros((ROWS, WIDTH), tl.int32)
    in3 = tl.zeros((ROWS, WIDTH), tl.int32)
    in4 = tl.zeros((ROWS, WIDTH), tl.int32)
    y0 = rows.read_other(candidates, references, pair, item, row, top, T, R, S)
    y1 = rows.read_other(candidates, references, pair, item, row, top + 1, T, R, S)
    y2 = rows.read_other(candidates, references, pair, item, row, top + 2, T, R, S)
    for j in range(0, STEPS):
        y3 = rows.read_other(candidates, references, pair, item, row, top + (j + 3), T, R, S)
        same = (x0 == y0) & (at >= j)
        own1 += same.to(tl.int32)
        same = same & (x1 == y1)
        own2 += same.to(tl.int32)
        same = same & (x2 == y2)
        own3 += same.to(tl.int32)
        same = same & (x3 == y3)
        own4 += same.to(tl.int32)
        same = c0 == y0
        in1 += same.to(tl.int32)
        same = same & (c1 == y1)
        in2 += same.to(tl.int32)
        same = same & (c2 == y2)
        in3 += same.to(tl.int32)
        same = same & (c3 == y3)
        in4 += same.to(tl.int32)
        y0 = y1
        y1 = y2
        y2 = y3

    node = tl.zeros((ROWS, WIDTH), tl.int64)
    node, square = _descend(table, buckets, node, x0, rarest)
    total = _cosine(line, row, square, own1, in1)
    if ORDER > 1:
        node, square = _descend(table, buckets, node, x1, rarest)
        total += _cosine(line, row, square, own2, in2)
    if ORDER > 2:
        node, square = _descend(table, buckets, node, x2, rarest)
        total += _cosine(line, row, square, own3, in3)
    if ORDER > 3:
        node, square = _descend(table, buckets, node, x3, rarest)
        total += _cosine(line, row, square, own4, in4)

    length = tl.sum((x0 >= 0).to(tl.int32), axis=1)  # (ROWS,)
    bigrams = tl.maximum(length - 1, 0)
    apart = (bigrams - tl.sum(tl.where(line == 0, bigrams, 0), axis=0)).to(tl.float32) * narrowness
    # A row that is empty adds nothing, and an absent reference is such a row.
    reward = tl.sum(tl.where(line > 0, total * tl.exp(-0.5 * apart * apart), 0.0), axis=0)
    number = tl.sum(((line > 0) & (length > 0)).to(tl.int32), axis=0)
    tl.store(scores + pair, reward * (10.0 / ORDER) / tl.maximum(number, 1).to(tl.float32))


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
def _cosine(line, row, square, own, shared):
    # For each row the clipped product of its weights with the candidate's over both norms, not divided where one is 0.
    norm = tl.sqrt(tl.sum(square * tl.maximum(2 * own - 1, 0).to(tl.float32), axis=1))
    both = norm * tl.sum(tl.where(line == 0, norm, 0.0), axis=0)
    square = tl.sum(tl.where(row == 0, square, 0.0), axis=0)[None, :]
    own = tl.sum(tl.where(row == 0, own, 0), axis=0)[None, :]
    product = tl.sum(tl.where(own <= shared, shared, 0).to(tl.float32) * square, axis=1)
    return product / tl.where(both == 0, 1.0, both)
