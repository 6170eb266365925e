"""Launches of the loss kernels: what they are given, and how it is tiled."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops.cross_entropy import Job
from seqsmooth.ops.kernels import rows as row_kernels
from seqsmooth.ops.kernels import similarity as similarity_kernels
from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.kernels.sizes import blocks, power_of_2
from seqsmooth.ops.kernels.sorted_target import MOST_EXCLUDED, Parts, background_of, distinct, lists_of, sort_parts
from seqsmooth.ops.similarity import BLOCK, SimilarityTable, two_powers
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, SetTable, padded, padded_rows

TILES = {"ROWS": 128, "TOKENS": BLOCK, "num_warps": 8, "num_stages": 3}
"""How rows of logits and tokens are tiled where a law is made on the fly."""
WITHIN_REACH = 2**24
"""Numbers of a table that a GPU's cache has room for; rows of larger ones would drive the logits out."""
WIDEST_HELD = 512
"""Dimensions of embeddings that fit on the chip for all rows of a tile."""
FOLDED = (torch.float32, torch.bfloat16)
"""Types in which a gradient divided by the number of items beforehand loses nothing; fp16 would underflow."""


def run(
    logits: Tensor,
    gradient: Tensor | None,
    bias: Tensor | None,
    job: Job,
    results: tuple[Tensor, Tensor],
    upstream: Tensor | None = None,
) -> Tensor:  # (4, N)
    """Losses of rows, and their gradient where there is a place for it (again, where upstream is not as expected)."""
    count, vocab_size = logits.shape
    smoothed, nll = results
    state = smoothed.new_empty(4, count)
    if count == 0:
        return state
    target, labels = job.target, job.labels
    ids, weights = target.ids, target.weights
    parts = sort_parts(target)
    assert parts is not None
    slots = ids.shape[1]
    lists, listed_ids, listed_weights, index_l, share_l, length = 0, None, None, None, None, 1
    if parts.sparse is not None:
        table = lists_of(parts.sparse)
        lists, length = parts.sparse.index.shape[1], table.ids.shape[1]
        listed_ids, listed_weights = table.ids.contiguous(), table.weights.contiguous()
        index_l, share_l = parts.sparse.index.contiguous(), parts.sparse.weights.contiguous()
    background = _background_arguments(parts.uniform)
    law = parts.law
    limit = vocab_size if job.inplace else _limit(logits)  # columns beyond a view are another's, and not written
    if gradient is not None and gradient is not logits:
        limit = min(limit, _limit(gradient))
    into = logits if gradient is None else gradient
    fold = job.reduced and logits.dtype in FOLDED
    bonuses, bonus_stride = job.entropy_weights, 0 if job.entropy_weights is None else job.entropy_weights.stride(0)
    sent = None if upstream is None else upstream.reshape(-1)
    sent_stride = 0 if sent is None or sent.shape[0] == 1 else sent.stride(0)
    same = {
        "K": slots,
        "EXCLUDED": background[-1],
        "BIAS": bias is not None,
        "ENTROPY": bonuses is not None,
        "COUNTED": job.items is not None,
        "FOLD": fold,
        "EXACT": logits.dtype == torch.float32,
    }
    by_rows = gradient is not None and law is None
    width = power_of_2(slots + lists * length + background[-1], 16)
    block, warps = _tiling(vocab_size, parts, job, logits, width, gradient=by_rows)
    j0, s0 = _sizes(parts.uniform)
    j1, s1 = _sizes(*parts.dense[:1])
    j2, s2 = _sizes(*parts.dense[1:])
    j3, s3 = _sizes(law)
    given = (
        logits, logits.stride(0), into, into.stride(0), bias, limit, vocab_size,
        smoothed, nll, state, count,
        None if labels is None else labels.contiguous(), bonuses, bonus_stride,
        job.items, job.factor, sent, sent_stride,
        ids, *ids.stride(), weights, *weights.stride(),
        listed_ids, listed_weights, index_l, share_l,
        *(_set_arguments(parts.dense[0]) if parts.bits else _table_arguments(parts.dense, 0, vocab_size)),
        *_table_arguments(parts.dense, 1, vocab_size),
        *background[:-1],
        *((None, None) if law is None else (law.index.contiguous(), law.weights.contiguous())),
        job.ignore_index,
    )  # fmt: skip
    large = any(row.table.size * vocab_size > WITHIN_REACH for row in parts.dense)
    constants = same | {
        "LISTS": lists, "LENGTH": length, "DISTINCT": distinct(target, parts), "SLOTS": width,
        "SINGLE": parts.single, "BITS": parts.bits, "TABLES": "evict_first" if large else "",
        "J0": j0, "S0": s0, "J1": j1, "S1": s1, "J2": j2, "S2": s2, "J3": j3, "S3": s3,
        "LABELS": labels is not None, "GRADIENT": by_rows, "PADDED": limit > vocab_size,
        "AGAIN": upstream is not None and law is None, "BLOCK": block,
    }  # fmt: skip
    launch(row_kernels.rows, (count,), given, constants, num_warps=warps)
    if law is not None:
        _add_law(law, parts, logits, gradient, bias, job, state, smoothed, sent, sent_stride, limit, background, same)
    return state


def _add_law(
    law: Rows,
    parts: Parts,
    logits: Tensor,
    gradient: Tensor | None,
    bias: Tensor | None,
    job: Job,
    state: Tensor,
    smoothed: Tensor,
    upstream: Tensor | None,
    upstream_stride: int,
    limit: int,
    background: tuple[Any, ...],
    same: dict[str, Any],
) -> None:
    """The part of a target that is made on the fly, and with it the whole gradient."""
    table, target = law.table, job.target
    assert isinstance(table, SimilarityTable)
    count, vocab_size = logits.shape
    wide, narrow = two_powers(table.units.shape[1])
    exact = logits.dtype == torch.float32
    held = law.index.shape[1] == 1 and wide + narrow <= WIDEST_HELD and not exact
    made = table.singles if exact else table.halves
    groups = blocks(count, TILES["ROWS"])
    share = min(blocks(vocab_size, TILES["TOKENS"]), max(1, 1056 // groups))
    partial = torch.empty(share, count, dtype=torch.float32, device=logits.device)
    across, slots = blocks(vocab_size, TILES["TOKENS"]), target.ids.shape[1]
    marks = torch.zeros(groups, across, dtype=torch.int8, device=logits.device)
    if slots:
        launch(
            similarity_kernels.marked,
            (blocks(count * slots, 256),),
            (target.ids, *target.ids.stride(), marks, count, across, job.ignore_index),
            {"K": slots, "ROWS": TILES["ROWS"], "TOKENS": TILES["TOKENS"], "BLOCK": 256},
        )
    into = logits if gradient is None else gradient
    dense = parts.dense[0] if parts.dense else None
    values = None if dense is None else _dense(dense, vocab_size).values
    frequency = table.counts is not None and table.beta > 0
    given = (
        logits, logits.stride(0), into, into.stride(0), bias, limit, vocab_size,
        state, partial, count,
        job.entropy_weights, 0 if job.entropy_weights is None else job.entropy_weights.stride(0),
        job.items, job.factor, upstream, upstream_stride,
        target.ids, target.ids.stride(0), target.ids.stride(1),
        target.weights, target.weights.stride(0), target.weights.stride(1), job.ignore_index, marks,
        values, 0 if values is None else values.stride(0),
        *((None, None) if dense is None else (dense.index.contiguous(), dense.weights.contiguous())),
        *background[:-1],
        made.units, table.known, made.whole, made.offsets, table.counts, 1 / table.tau, table.beta,
        law.index.contiguous(), law.weights.contiguous(),
    )  # fmt: skip
    constants = {
        "J": law.index.shape[1], "J0": 0 if parts.uniform is None else parts.uniform.index.shape[1],
        "J2": 0 if dense is None else dense.index.shape[1], "FREQUENCY": frequency, "GRADIENT": gradient is not None,
        "WIDE": wide, "NARROW": narrow, "HELD": held, "DEPTH": 32, "PRECISION": "tf32x3", "AGAIN": upstream is not None,
        "ROWS": TILES["ROWS"], "TOKENS": TILES["TOKENS"], "PARTS": share,
    }  # fmt: skip
    options = {name: TILES[name] for name in ("num_warps", "num_stages")}
    launch(similarity_kernels.tiles, (groups, share), given, constants | same, **options)
    if upstream is None:
        smoothed -= partial.sum(0)


def _dense(row: Rows, vocab_size: int) -> DenseTable:
    """A table in full; sets, or a single long list, are written out."""
    if isinstance(row.table, DenseTable):
        return row.table
    if isinstance(row.table, SetTable):
        return row.table.written(row.table.masses)
    table = lists_of(row)
    weights = table.weights.float()
    values = padded_rows(1, vocab_size, weights.dtype, weights.device)
    return DenseTable(values.scatter_add_(1, table.ids, weights), weights.sum(-1), columns=vocab_size)


def _set_arguments(row: Rows) -> tuple[Any, ...]:
    assert isinstance(row.table, SetTable)
    bits, masses = row.table.bits, row.table.masses
    return bits, bits.stride(0), bits.shape[1], masses, row.index.contiguous(), row.weights.contiguous(), None, None


def _table_arguments(dense: tuple[Rows, ...], number: int, vocab_size: int) -> tuple[Any, ...]:
    if number >= len(dense):
        return (None, 0, 0, *[None] * 5)
    row = dense[number]
    table = _dense(row, vocab_size)
    index, share = row.index.contiguous(), row.weights.contiguous()
    # One row a position of the first table needs no merging.
    alone = number == 0 and index.shape[1] == 1
    lists = (None, None) if alone else (torch.empty_like(index, dtype=torch.float32), torch.empty_like(index))
    limit = min(padded(vocab_size), table.values.shape[1])
    return table.values, table.values.stride(0), limit, table.masses, index, share, *lists


def _background_arguments(row: Rows | None) -> tuple[Any, ...]:
    """Index, weights, number of tokens, four tokens without, and how many of those there are."""
    if row is None:
        return (None, None, 1, 0, 0, 0, 0, 0)
    table = background_of(row)
    without = (*table.excluded, 0, 0, 0, 0)[:MOST_EXCLUDED]
    return row.index.contiguous(), row.weights.contiguous(), table.tokens, *without, len(table.excluded)


def _sizes(row: Rows | None = None) -> tuple[int, int]:
    """Rows that a position weighs, and the size of a tile of them."""
    count = 0 if row is None else row.index.shape[1]
    return count, power_of_2(count, 2)


def _limit(values: Tensor) -> int:
    """Columns that may be read in every row: with those of padding, if there are any, loads are wide."""
    rows, columns = values.shape
    limit = padded(columns)
    last = values.storage_offset() + (rows - 1) * values.stride(0) + limit
    inside = values.stride(0) >= limit and last * values.element_size() <= values.untyped_storage().nbytes()
    return limit if inside else columns


def _tiling(vocab_size: int, parts: Parts, job: Job, logits: Tensor, slots: int, *, gradient: bool) -> tuple[int, int]:
    """Columns of a block, and warps, as measured on an H200.

    Long rows are few at once, so that the cache holds them; short ones all at once, if their registers allow it.
    """
    several = any(row.index.shape[1] > 1 for row in parts.dense)
    stored, even = parts.dense and not parts.bits, parts.uniform or parts.bits
    if vocab_size > 65536 and gradient:
        if stored or job.entropy_weights is not None or logits.dtype == torch.float32:
            return 16384, 16
        return 16384 if even else 32768, 32
    if vocab_size > 24576 and gradient:
        if stored:
            return 2048, 4 if several else 8
        if even:
            return 4096, 8
        return 8192, 8 if slots <= 16 else 4
    if vocab_size > 65536:
        return 8192, 8
    if several and gradient:
        return 4096 if vocab_size > 16384 else 1024, 4
    shared = parts.single and vocab_size > 16384  # always near
    alone = stored and not several and job.target.ids.shape[1] > 0 and not shared
    if vocab_size < 1024 or (even and vocab_size < 16384) or alone:
        return 1024, 4
    return 2048, 8 if parts.bits else 4
