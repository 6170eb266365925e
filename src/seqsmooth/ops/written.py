"""Targets with tables that compute their rows when asked, in parts for which the rows fit into memory.

Each distinct row of a similarity law is computed once a part, whatever the number of positions that read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, RowTable, SetTable, SparseTable, UniformTable

STORED_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
MOST_ELEMENTS = 2**21
"""Numbers of computed rows in memory at once: 8 MiB of fp32, and as much while they are computed."""


def parts_in_memory(
    target: SoftTarget,  # of N positions in one dimension
    vocab_size: int,
) -> Iterator[tuple[slice, SoftTarget]]:
    """Parts of the positions, and their target with no table but those whose rows are in memory."""
    made = [row for row in target.rows if not _is_stored(row.table)]
    if not made:
        yield slice(0, target.ids.shape[0]), target
        return
    for part in _stretches(made, max(1, MOST_ELEMENTS // vocab_size)):
        some = target[part]
        rows = tuple(row if _is_stored(row.table) else _write(row) for row in some.rows)
        yield part, SoftTarget(some.ids, some.weights, rows)


def _is_stored(table: RowTable) -> bool:
    if isinstance(table, DenseTable):
        return table.values.dtype in STORED_TYPES
    if isinstance(table, SparseTable):
        return table.weights.dtype in STORED_TYPES
    return isinstance(table, (SetTable, UniformTable))


def _stretches(made: Sequence[Rows], most: int) -> Iterator[slice]:
    """Positions in a row that need at most so many computed rows, or one position that needs more."""
    columns = []
    for number, row in enumerate(made):
        if isinstance(row.table, SimilarityTable):
            needed = row.index.masked_fill(row.weights == 0, -1)
        else:  # one sum of rows a position
            needed = torch.arange(row.index.shape[0], device=row.index.device).unsqueeze(-1)
        columns.append(torch.where(needed < 0, -1, len(made) * needed + number))
    start, seen = 0, set[int]()
    every = torch.cat(columns, -1).tolist()
    for place, needed in enumerate(every):
        here = {row for row in needed if row >= 0}
        if place > start and len(seen | here) > most:
            yield slice(start, place)
            start, seen = place, set()
        seen |= here
    yield slice(start, len(every))


def _write(row: Rows) -> Rows:
    """Rows of a table as rows in full."""
    empty = row.index < 0
    weights = row.weights.masked_fill(empty, 0)
    if not isinstance(row.table, SimilarityTable):
        values = row.table.combine(row.index.clamp_min(0), weights)
        values = values if values.dtype in STORED_TYPES else values.float()
        index = torch.arange(len(values), device=row.index.device).masked_fill(empty.all(-1), -1).unsqueeze(-1)
        return Rows(DenseTable.of(values), index, torch.ones_like(index, dtype=values.dtype))
    used = weights != 0
    distinct, place = torch.unique(row.index[used], return_inverse=True)
    values = row.table.rows(distinct) if len(distinct) else row.table.units.new_zeros(1, row.table.vocab_size)
    index = torch.where(empty, -1, torch.zeros_like(row.index).masked_scatter_(used, place))
    return Rows(DenseTable.of(values), index, weights)
