"""The pass over rows of logits in C: `rows.c`, and how a target is laid out for it."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops import native
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, RowTable, SetTable, SparseTable, UniformTable

TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
"""Types of logits, gradients and tables, as rows.h counts them."""
DENSE, LIST, UNIFORM, BITS = range(4)
OUT_OF_MEMORY, OUT_OF_RANGE = 1, 2
WRITTEN_OUT = 2**22
"""Numbers of rows that a table computes at once where C does not know the kind of table."""
LONG = 64
"""Entries of a list that are looked up one by one."""


class _Part(ctypes.Structure):
    _fields_ = (
        ("kind", c_int64),
        ("count", c_int64),
        ("index", c_void_p),
        ("weights", c_void_p),
        ("values", c_void_p),
        ("type", c_int64),
        ("stride", c_int64),
        ("size", c_int64),
        ("ids", c_void_p),
        ("length", c_int64),
        ("share", c_double),
    )


class _Pass(ctypes.Structure):
    _fields_ = (
        ("rows", c_int64),
        ("vocabulary", c_int64),
        ("type", c_int64),
        ("logits", c_void_p),
        ("logits_stride", c_int64),
        ("gradient", c_void_p),
        ("gradient_stride", c_int64),
        ("smoothed", c_void_p),
        ("nll", c_void_p),
        ("kept", c_void_p),
        ("labels", c_void_p),
        ("entropy", c_void_p),
        ("upstream", c_void_p),
        ("scale", c_double),
        ("ignore", c_int64),
        ("slots", c_int64),
        ("ids", c_void_p),
        ("weights", c_void_p),
        ("parts", c_int64),
        ("part", c_void_p),
        ("threads", c_int64),
    )


def run(
    target: SoftTarget,  # of N positions in one dimension
    labels: Tensor | None,  # (N,)
    entropy_weights: Tensor | None,  # (N,)
    ignore_index: int,
    scale: float,
    logits: Tensor,  # (N, V)
    gradient: Tensor | None,  # (N, V)
    upstream: Tensor | None,  # (N,)
    results: tuple[Tensor, Tensor],  # (N,) each
    kept: Tensor,  # (N,) bool
) -> None:
    """Losses, NLL and marks of the rows that are kept; and the gradient times `scale`, if there is a place for it."""
    rows, vocab_size = logits.shape
    if not all(_is_known(row.table) for row in target.rows):
        at_once = max(1, WRITTEN_OUT // vocab_size)
        if rows > at_once:
            for start in range(0, rows, at_once):
                part = slice(start, start + at_once)
                smoothed, nll = results
                run(
                    target[part], _some(labels, part), _some(entropy_weights, part), ignore_index, scale, logits[part],
                    _some(gradient, part), _some(upstream, part), (smoothed[part], nll[part]), kept[part],
                )  # fmt: skip
            return
        target = SoftTarget(target.ids, target.weights, tuple(_written(row, logits) for row in target.rows))
    target = SoftTarget(target.ids, target.weights, tuple(_shared(row, logits) for row in target.rows))
    library = native.library()
    assert library is not None
    memory: list[Tensor] = []  # what C reads is alive until it returns

    def pointer(values: Tensor | None, dtype: torch.dtype | None = None) -> int | None:
        if values is None:
            return None
        values = values.to(dtype or values.dtype).contiguous()
        memory.append(values)
        return values.data_ptr()

    def laid_out(row: Rows) -> _Part:
        table, wide = row.table, torch.float64
        each = row.index.shape[-1], pointer(row.index), pointer(row.weights, wide)
        if isinstance(table, UniformTable):
            excluded = torch.tensor(sorted(set(table.excluded)), dtype=torch.int64)
            share = 1 / max(table.tokens, 1)
            return _Part(UNIFORM, *each, None, 0, 0, table.size, pointer(excluded), len(excluded), share)
        if isinstance(table, SparseTable):
            listed = pointer(table.weights), TYPES[table.weights.dtype], 0, table.size
            return _Part(LIST, *each, *listed, pointer(table.ids), table.ids.shape[1], 0.0)
        if isinstance(table, SetTable):
            return _Part(BITS, *each, pointer(table.bits), 0, table.bits.shape[1], table.size, None, 0, 0.0)
        assert isinstance(table, DenseTable)
        values = table.values if table.values.stride(-1) == 1 else table.values.contiguous()
        memory.append(values)
        stored = values.data_ptr(), TYPES[values.dtype], values.stride(0), table.size
        return _Part(DENSE, *each, *stored, None, 0, 0.0)

    parts = [laid_out(row) for row in target.rows]
    listed = (_Part * max(1, len(parts)))(*parts)
    wide = torch.float64
    given = _Pass(
        rows, vocab_size, TYPES[logits.dtype], logits.data_ptr(), logits.stride(0),
        *((None, 0) if gradient is None else (gradient.data_ptr(), gradient.stride(0))),
        *(part.data_ptr() for part in results), kept.data_ptr(),
        pointer(labels), pointer(entropy_weights, wide), pointer(upstream, wide), scale, ignore_index,
        target.ids.shape[-1], pointer(target.ids), pointer(target.weights, wide),
        len(parts), ctypes.addressof(listed), torch.get_num_threads(),
    )  # fmt: skip
    result = library.seqsmooth_rows(ctypes.byref(given))
    if result == OUT_OF_MEMORY:
        raise MemoryError(f"There is no memory for a few rows of {vocab_size} numbers.")
    if result == OUT_OF_RANGE:
        raise IndexError(f"An id of the target is not in [0, {vocab_size}), or a row number not in its table.")


def _is_known(table: RowTable) -> bool:
    if isinstance(table, DenseTable):
        return table.values.dtype in TYPES
    if isinstance(table, SparseTable):
        return table.weights.dtype in TYPES
    return isinstance(table, (SetTable, UniformTable))


def _written(row: Rows, like: Tensor) -> Rows:
    """Rows of a table as one row a position in full, if the table is not of a kind that C knows."""
    if _is_known(row.table):
        return row
    empty = row.index < 0
    values = row.table.combine(row.index.clamp_min(0), row.weights.masked_fill(empty, 0))
    if values.dtype not in TYPES:
        values = values.float()
    index = torch.arange(len(values)).masked_fill(empty.all(-1), -1).unsqueeze(-1)
    return Rows(DenseTable(values, values[:, 0]), index, torch.ones_like(index, dtype=torch.float64))


def _shared(row: Rows, like: Tensor) -> Rows:
    """A long list that all positions share, as a row in full: it is read as fast as the logits are."""
    table = row.table
    if not isinstance(table, SparseTable) or table.size != 1 or table.ids.shape[1] <= LONG:
        return row
    dtype = torch.promote_types(like.dtype, torch.float32)
    values = torch.zeros(1, like.shape[1], dtype=dtype).scatter_add_(1, table.ids, table.weights.to(dtype))
    return Rows(DenseTable(values, values[:, 0]), row.index, row.weights)


def _some(values: Tensor | None, part: slice) -> Any:
    return None if values is None else values[part]
