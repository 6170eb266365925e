"""A soft target sorted by how the loss kernels read its parts, and which targets they serve at all."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, SetTable, SparseTable, UniformTable

MOST_SLOTS = 128
"""Slots a row that are held at once; to find those of one token compares each with each."""
MOST_LISTED = 512
"""The same where all but a few are known to be of different tokens."""
FEW = 8
MOST_SLOTS_OF_TILES = 32
"""The same where a law is made on the fly: there every slot is looked for in every tile."""
MOST_ROWS = 64
"""Rows of one table that a position may weigh."""
MOST_EXCLUDED = 4
"""Tokens that a background may leave out."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The rows of a target by kind; each `Rows` is of one table."""

    sparse: Rows | None = None
    dense: tuple[Rows, ...] = ()
    uniform: Rows | None = None
    law: Rows | None = None

    @property
    def single(self) -> bool:
        """Whether the first dense table has one row, which all positions share."""
        return bool(self.dense) and self.dense[0].table.size == 1

    @property
    def bits(self) -> bool:
        """Whether the only dense table is of sets, and a position weighs one: then its bits are read as they are."""
        alone = len(self.dense) == 1 and self.law is None and self.dense[0].index.shape[-1] == 1
        return alone and isinstance(self.dense[0].table, SetTable)


_NOTHING = Parts()


def fitting(target: SoftTarget) -> Parts | None:
    """The parts of a target; None where the kernels cannot serve it."""
    if torch.is_grad_enabled() and _learned(target):
        return None
    parts = sort_parts(target)
    return parts if parts is not None and _fits(target, parts) else None


def _fits(target: SoftTarget, parts: Parts) -> bool:
    slots = target.ids.shape[-1]
    if parts.law is not None:
        table = parts.law.table
        assert isinstance(table, SimilarityTable)
        simple = parts.sparse is None and len(parts.dense) <= 1 and slots <= MOST_SLOTS_OF_TILES
        return simple and table.units.dtype == torch.float32 and table.tau >= 0.01
    if parts.sparse is not None:
        most = MOST_LISTED if distinct(target, parts) else MOST_SLOTS
        return slots + parts.sparse.index.shape[-1] * lists_of(parts.sparse).ids.shape[1] <= most
    return slots <= MOST_SLOTS


def sort_parts(target: SoftTarget) -> Parts | None:
    """The parts of a target; None where there are more than the kernels read."""
    if not target.rows:
        return _NOTHING
    sparse: list[Rows] = []
    dense: list[Rows] = []
    uniform: list[Rows] = []
    law: list[Rows] = []
    for row in target.rows:
        table = row.table
        if row.index.shape[-1] > MOST_ROWS:
            return None
        if isinstance(table, UniformTable) and len(table.excluded) <= MOST_EXCLUDED:
            uniform.append(row)
        elif isinstance(table, SparseTable) and table.size == 1 and table.ids.shape[1] > MOST_SLOTS // 2:
            dense.append(row)
        elif isinstance(table, SparseTable):
            sparse.append(row)
        elif isinstance(table, SetTable) or (isinstance(table, DenseTable) and table.values.stride(-1) == 1):
            dense.append(row)
        elif isinstance(table, SimilarityTable):
            law.append(row)
        else:
            return None
    if max(len(sparse), len(dense) - 1, len(uniform), len(law)) > 1:
        return None
    return Parts(_only(sparse), tuple(dense), _only(uniform), _only(law))


def distinct(target: SoftTarget, parts: Parts) -> bool:
    """Whether only the slots of the target itself can be of one token with others."""
    row, uniform = parts.sparse, parts.uniform
    if row is None or row.index.shape[-1] > 1 or target.ids.shape[-1] > FEW or not lists_of(row).distinct:
        return False
    return uniform is None or not background_of(uniform).excluded  # tokens left out have slots of their own


def lists_of(row: Rows) -> SparseTable:
    """The table of rows that are sparse."""
    assert isinstance(row.table, SparseTable)
    return row.table


def background_of(row: Rows) -> UniformTable:
    """The table of rows that are uniform."""
    assert isinstance(row.table, UniformTable)
    return row.table


def _only(found: list[Rows]) -> Rows | None:
    return found[0] if found else None


def _learned(target: SoftTarget) -> bool:
    """Whether a gradient of the target itself is wanted."""
    if target.weights.requires_grad:
        return True
    for row in target.rows:
        table = row.table
        if row.weights.requires_grad or (isinstance(table, DenseTable) and table.values.requires_grad):
            return True
    return False
