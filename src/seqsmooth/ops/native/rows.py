"""The pass over rows of logits in C: `rows.c`, and how a target is laid out for it."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int64, c_void_p

import torch
from torch import Tensor

from seqsmooth.ops import checks, native
from seqsmooth.ops.native import threads
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, SetTable, SparseTable, UniformTable

TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
"""Types of logits, gradients and tables, as rows.h counts them."""
DENSE, LIST, UNIFORM, BITS = range(4)
OUT_OF_MEMORY, OUT_OF_RANGE = 1, 2
CACHE = 16 * 2**20
"""Bytes of a gradient that a processor's caches may keep until it is read."""
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
        ("past", c_int64),
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
        ("parallel", c_void_p),
    )


def run(
    target: SoftTarget,  # of N positions in one dimension, of tables whose rows are in memory
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
    target = SoftTarget(target.ids, target.weights, tuple(_shared(row, logits) for row in target.rows))
    library = native.library()
    assert library is not None
    memory: list[Tensor] = []  # what C reads is alive until it returns

    def pointer(values: Tensor | None, dtype: torch.dtype, *sizes: int) -> int | None:
        """Where the numbers are, in a type and shape that C takes them to have."""
        if values is None:
            return None
        memory.append(_in_memory(values, *sizes).to(dtype).contiguous())
        return memory[-1].data_ptr()

    def laid_out(row: Rows) -> _Part:
        table, count = row.table, row.index.shape[-1]
        each = count, pointer(row.index, torch.int64, rows, count), pointer(row.weights, wide, rows, count)
        if isinstance(table, UniformTable):
            excluded = torch.tensor(sorted(set(table.excluded)), dtype=torch.int64, device="cpu")
            share = 1 / table.tokens if table.tokens else 0.0
            given = pointer(excluded, torch.int64, len(excluded)), len(excluded), share
            return _Part(UNIFORM, *each, None, 0, 0, table.size, *given)
        if isinstance(table, SparseTable):
            size, length = table.ids.shape
            dtype = table.weights.dtype
            listed = pointer(table.weights, dtype, size, length), TYPES[dtype], 0, size
            return _Part(LIST, *each, *listed, pointer(table.ids, torch.int64, size, length), length, 0.0)
        if isinstance(table, SetTable):
            size, width = table.bits.shape
            bits = pointer(table.bits, torch.uint8, size, max(width, -(-vocab_size // 8)))
            return _Part(BITS, *each, bits, 0, width, size, None, 0, 0.0)
        assert isinstance(table, DenseTable)
        values = _in_memory(table.values, table.size, max(table.values.shape[-1], vocab_size))
        memory.append(values if values.stride(1) == 1 else values.contiguous())
        stored = memory[-1].data_ptr(), TYPES[values.dtype], memory[-1].stride(0), table.size
        return _Part(DENSE, *each, *stored, None, 0, 0.0)

    wide, slots = torch.float64, target.ids.shape[-1]
    parts = [laid_out(row) for row in target.rows]
    listed = (_Part * max(1, len(parts)))(*parts)
    given = _Pass(
        rows, vocab_size, TYPES[logits.dtype], logits.data_ptr(), logits.stride(0),
        *((None, 0, 0) if gradient is None else (gradient.data_ptr(), gradient.stride(0), _is_past(logits, gradient))),
        *(part.data_ptr() for part in results), kept.data_ptr(),
        pointer(labels, torch.int64, rows), pointer(entropy_weights, wide, rows), pointer(upstream, wide, rows),
        scale, ignore_index,
        slots, pointer(target.ids, torch.int64, rows, slots), pointer(target.weights, wide, rows, slots),
        len(parts), ctypes.addressof(listed), torch.get_num_threads(), threads.parallel(),
    )  # fmt: skip
    result = library.seqsmooth_rows(ctypes.byref(given))
    if result == OUT_OF_MEMORY:
        raise MemoryError(f"There is no memory for a few rows of {vocab_size} numbers.")
    if result == OUT_OF_RANGE:
        raise IndexError(f"An id of the target is not in [0, {vocab_size}), or a row number not in its table.")


def _is_past(logits: Tensor, gradient: Tensor) -> bool:
    """Whether nobody would find the gradient in a cache, and the logits are not where it goes."""
    return gradient.nbytes >= CACHE and gradient.data_ptr() != logits.data_ptr()


def _in_memory(values: Tensor, *sizes: int) -> Tensor:
    """A tensor whose numbers are where its pointer says, of these sizes: C asks nobody before it reads."""
    if values.shape != sizes:
        rule = f"of tensors that fit each other and the logits, here of shape {sizes}"
        raise checks.wrong("target", rule, f"with one of shape {tuple(values.shape)}")
    if not values.is_cpu:
        checks.device("target", values, torch.device("cpu"))
    return values.clone() if values.is_neg() or values._is_zerotensor() else values


def _shared(row: Rows, like: Tensor) -> Rows:
    """A long list that all positions share, as a row in full: it is read as fast as the logits are."""
    table = row.table
    if not isinstance(table, SparseTable) or table.size != 1 or table.ids.shape[1] <= LONG:
        return row
    dtype = torch.promote_types(like.dtype, torch.float32)
    values = like.new_zeros(1, like.shape[1], dtype=dtype).scatter_add_(1, table.ids.long(), table.weights.to(dtype))
    return Rows(DenseTable(values, values[:, 0]), row.index, row.weights)
