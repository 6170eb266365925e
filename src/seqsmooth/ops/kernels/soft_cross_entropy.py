"""Launches of the loss kernels: what they are given, and how it is tiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops.cross_entropy import Job
from seqsmooth.ops.kernels import rows as row_kernels
from seqsmooth.ops.kernels import similarity as similarity_kernels
from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.kernels.sizes import blocks, power_of_2
from seqsmooth.ops.kernels.sorted_target import MOST_EXCLUDED, Parts, background_of, distinct, lists_of
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

_NO_TABLE = (None, 0, 0, *[None] * 5)
_NO_TABLES = (
    _NO_TABLE * 2,
    {"SINGLE": False, "BITS": False, "TABLES": "", "J1": 0, "S1": 2, "J2": 0, "S2": 2},
)
SHARED = ("K", "EXCLUDED", "BIAS", "ENTROPY", "COUNTED", "FOLD", "EXACT")
"""Constants of `rows` that the kernel of a law has, too."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A job as the kernels take it: what is the same in the forward and in the backward pass, and holds no logits."""

    job: Job
    parts: Parts
    before: tuple[Any, ...]
    """Arguments of `rows` that come before what is sent from above, and those that come after."""
    after: tuple[Any, ...]
    constants: dict[str, Any]
    background: tuple[Any, ...]


def prepare(
    job: Job,
    parts: Parts,
    logits: Tensor,  # (N, V), for its size and type
) -> Prepared:
    """Lay out a job for `run`; `parts` are those of its target."""
    vocab_size = logits.shape[1]
    target, labels, bonuses, law = job.target, job.labels, job.entropy_weights, parts.law
    lists, listed_ids, listed_weights, index_l, share_l, length = 0, None, None, None, None, 1
    if parts.sparse is not None:
        table = lists_of(parts.sparse)
        lists, length = parts.sparse.index.shape[-1], table.ids.shape[1]
        listed_ids, listed_weights = table.ids.contiguous(), table.weights.contiguous()
        index_l, share_l = parts.sparse.index.contiguous(), parts.sparse.weights.contiguous()
    background = _background_arguments(parts.uniform)
    tables, sizes = _dense_arguments(parts, vocab_size) if parts.dense else _NO_TABLES
    slots = target.ids.shape[-1]
    before = (
        None if labels is None else labels.contiguous(), bonuses, 0 if bonuses is None else bonuses.stride(0),
        job.items, job.factor,
    )  # fmt: skip
    after = (
        *_slots(target.ids), *_slots(target.weights),
        listed_ids, listed_weights, index_l, share_l,
        *tables,
        *background[:-1],
        *((None, None) if law is None else (law.index.contiguous(), law.weights.contiguous())),
        job.ignore_index,
    )  # fmt: skip
    j0, s0 = _sizes(parts.uniform)
    j3, s3 = _sizes(law)
    constants = {
        "K": slots, "EXCLUDED": background[-1], "ENTROPY": bonuses is not None, "COUNTED": job.items is not None,
        "FOLD": job.reduced and logits.dtype in FOLDED, "EXACT": logits.dtype == torch.float32,
        "LISTS": lists, "LENGTH": length, "DISTINCT": distinct(target, parts),
        "SLOTS": power_of_2(slots + lists * length + background[-1], 16),
        "J0": j0, "S0": s0, "J3": j3, "S3": s3, "LABELS": labels is not None, **sizes,
    }  # fmt: skip
    return Prepared(job, parts, before, after, constants, background)


def empty_losses(
    like: Tensor,  # (N, ...)
) -> tuple[Tensor, Tensor]:  # (N,) each
    """Memory for the losses of rows, and for their unsmoothed NLL."""
    smoothed = torch.empty(like.shape[0], dtype=torch.float32, device=like.device)
    return smoothed, torch.empty_like(smoothed)


def run(
    prepared: Prepared,
    logits: Tensor,  # (N, V)
    gradient: Tensor | None,  # (N, V)
    results: tuple[Tensor, Tensor],  # (N,) each
    bias: Tensor | None = None,  # (V,)
) -> Tensor:  # (4, N)
    """Losses of rows, and their gradient where there is a place for it."""
    state = results[0].new_empty(4, logits.shape[0])
    _launch(prepared, logits, gradient, bias, (*results, state), None)
    return state


def run_again(
    prepared: Prepared,
    logits: Tensor,  # (N, V)
    gradient: Tensor,  # (N, V)
    upstream: Tensor,  # (), or (N,)
) -> None:
    """The gradient once more, where what came from above is not as expected."""
    written: tuple[Tensor | None, ...] = (None, None, None)
    if prepared.parts.law is not None:  # of which another kernel makes the gradient, from what this one finds
        smoothed, nll = empty_losses(logits)
        written = smoothed, nll, smoothed.new_empty(4, logits.shape[0])
    _launch(prepared, logits, gradient, None, written, upstream)


def _launch(
    prepared: Prepared,
    logits: Tensor,
    gradient: Tensor | None,
    bias: Tensor | None,
    written: tuple[Tensor | None, ...],
    upstream: Tensor | None,
) -> None:
    count, vocab_size = logits.shape
    if count == 0:
        return
    job, parts = prepared.job, prepared.parts
    limit = vocab_size if job.inplace else _limit(logits)  # columns beyond a view are another's, and not written
    if gradient is not None and gradient is not logits:
        limit = min(limit, _limit(gradient))
    into = logits if gradient is None else gradient
    sent_stride = 0 if upstream is None or upstream.numel() == 1 else upstream.stride(0)
    by_rows = gradient is not None and parts.law is None
    block, warps = _tiling(vocab_size, prepared, logits.dtype, gradient=by_rows)
    given = (
        logits, logits.stride(0), into, into.stride(0), bias, limit, vocab_size, *written, count,
        *prepared.before, upstream, sent_stride, *prepared.after,
    )  # fmt: skip
    constants = prepared.constants | {
        "BIAS": bias is not None, "GRADIENT": by_rows, "PADDED": limit > vocab_size,
        "AGAIN": upstream is not None and parts.law is None, "BLOCK": block,
    }  # fmt: skip
    launch(row_kernels.rows, (count,), given, constants, num_warps=warps)
    if parts.law is not None:
        sent = (upstream, sent_stride)
        _add_law(prepared, parts.law, logits, gradient, bias, written, sent, limit, constants)


def _add_law(
    prepared: Prepared,
    law: Rows,
    logits: Tensor,
    gradient: Tensor | None,
    bias: Tensor | None,
    written: tuple[Tensor | None, ...],
    sent: tuple[Tensor | None, int],
    limit: int,
    same: dict[str, Any],
) -> None:
    """The part of a target that is made on the fly, and with it the whole gradient."""
    smoothed, _, state = written
    assert smoothed is not None
    job, parts = prepared.job, prepared.parts
    table = law.table
    assert isinstance(table, SimilarityTable)
    count, vocab_size = logits.shape
    wide, narrow = two_powers(table.units.shape[1])
    exact = logits.dtype == torch.float32
    held = law.index.shape[-1] == 1 and wide + narrow <= WIDEST_HELD and not exact
    form = table.singles if exact else table.halves
    groups = blocks(count, TILES["ROWS"])
    share = min(blocks(vocab_size, TILES["TOKENS"]), max(1, 1056 // groups))
    partial = torch.empty(share, count, dtype=torch.float32, device=logits.device)
    across, slots = blocks(vocab_size, TILES["TOKENS"]), same["K"]
    marks = torch.zeros(groups, across, dtype=torch.int8, device=logits.device)
    if slots:
        launch(
            similarity_kernels.marked,
            (blocks(count * slots, 256),),
            (*prepared.after[:3], marks, count, across, job.ignore_index),
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
        job.items, job.factor, *sent,
        *prepared.after[:6], job.ignore_index, marks,
        values, 0 if values is None else values.stride(0),
        *((None, None) if dense is None else (dense.index.contiguous(), dense.weights.contiguous())),
        *prepared.background[:-1],
        form.units, table.known, form.whole, form.offsets, table.counts, 1 / table.tau, table.beta,
        law.index.contiguous(), law.weights.contiguous(),
    )  # fmt: skip
    constants = {
        "J": law.index.shape[-1], "J0": 0 if parts.uniform is None else parts.uniform.index.shape[-1],
        "J2": 0 if dense is None else dense.index.shape[-1], "FREQUENCY": frequency, "GRADIENT": gradient is not None,
        "WIDE": wide, "NARROW": narrow, "HELD": held, "DEPTH": 32, "PRECISION": "tf32x3", "AGAIN": sent[0] is not None,
        "ROWS": TILES["ROWS"], "TOKENS": TILES["TOKENS"], "PARTS": share,
    }  # fmt: skip
    shared = {name: same[name] for name in SHARED}
    options = {name: TILES[name] for name in ("num_warps", "num_stages")}
    launch(similarity_kernels.tiles, (groups, share), given, constants | shared, **options)
    if sent[0] is None:
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


def _slots(values: Tensor) -> tuple[Tensor, int, int]:
    """Slots of all positions, and how far it is to the next position and to the next slot."""
    if values.is_contiguous():
        return values, values.shape[-1], 1
    flat = values.reshape(-1, values.shape[-1])
    return flat, flat.stride(0), flat.stride(1)


def _dense_arguments(parts: Parts, vocab_size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Two tables at most, and the constants that go with them."""
    bits, first = parts.bits, parts.dense[0]
    second = parts.dense[1] if len(parts.dense) > 1 else None
    j1, s1 = _sizes(first)
    j2, s2 = _sizes(second)
    given = _set_arguments(first) if bits else _table_arguments(first, vocab_size, alone=j1 == 1)
    more = _NO_TABLE if second is None else _table_arguments(second, vocab_size, alone=False)
    large = any(row.table.size * vocab_size > WITHIN_REACH for row in parts.dense)
    constants = {"SINGLE": parts.single, "BITS": bits, "TABLES": "evict_first" if large else ""}
    return (*given, *more), constants | {"J1": j1, "S1": s1, "J2": j2, "S2": s2}


def _set_arguments(row: Rows) -> tuple[Any, ...]:
    assert isinstance(row.table, SetTable)
    bits, masses = row.table.bits, row.table.masses
    return bits, bits.stride(0), bits.shape[1], masses, row.index.contiguous(), row.weights.contiguous(), None, None


def _table_arguments(row: Rows, vocab_size: int, *, alone: bool) -> tuple[Any, ...]:
    """What tells a table's rows of each position; where there is one `alone`, there is nothing to merge."""
    table = _dense(row, vocab_size)
    index, share = row.index.contiguous(), row.weights.contiguous()
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


def _sizes(row: Rows | None) -> tuple[int, int]:
    """Rows that a position weighs, and the size of a tile of them."""
    if row is None:
        return 0, 2
    count = row.index.shape[-1]
    return count, power_of_2(count, 2)


def _limit(values: Tensor) -> int:
    """Columns that may be read in every row: with those of padding, if there are any, loads are wide."""
    rows, columns = values.shape
    limit = padded(columns)
    if limit == columns:
        return columns
    last = values.storage_offset() + (rows - 1) * values.stride(0) + limit
    inside = values.stride(0) >= limit and last * values.element_size() <= values.untyped_storage().nbytes()
    return limit if inside else columns


def _tiling(vocab_size: int, prepared: Prepared, dtype: torch.dtype, *, gradient: bool) -> tuple[int, int]:
    """Columns of a block, and warps, as measured on an H200.

    Long rows are few at once, so that the cache holds them; short ones all at once, if their registers allow it.
    """
    job, parts = prepared.job, prepared.parts
    several = any(row.index.shape[-1] > 1 for row in parts.dense)
    stored, even = parts.dense and not parts.bits, parts.uniform or parts.bits
    if vocab_size > 65536 and gradient:
        if stored or job.entropy_weights is not None or dtype == torch.float32:
            return 16384, 16
        return 16384 if even else 32768, 32
    if vocab_size > 24576 and gradient:
        if stored:
            return 2048, 4 if several else 8
        if even:
            return 4096, 8
        return 8192, 8 if prepared.constants["SLOTS"] <= 16 else 4
    if vocab_size > 65536:
        return 8192, 8
    if several and gradient:
        return 4096 if vocab_size > 16384 else 1024, 4
    shared = parts.single and vocab_size > 16384  # always near
    alone = stored and not several and prepared.constants["K"] > 0 and not shared
    if vocab_size < 1024 or (even and vocab_size < 16384) or alone:
        return 1024, 4
    return 2048, 8 if parts.bits else 4
