"""Tables of distributions over the vocabulary: G rows, each a way to spread one unit of mass.

A soft target points into tables by row number instead of carrying its own row of V numbers. A table may store its
rows (`DenseTable`), store only where they are not zero (`SparseTable`) or a bit a token (`SetTable`), store nothing
(`UniformTable`), or compute them when asked (`seqsmooth.ops.similarity.SimilarityTable`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.dispatch import widen

WIDENED = 2**20
"""Numbers in half precision that are widened at once on a CPU, so that they stay in its cache."""
LEAST_COLUMNS = 256
MERGED = 16
"""The most rows of a position among which those that are the same are looked for."""


class RowTable(Protocol):
    """G distributions over V tokens. Row numbers given to a table are always in [0, G)."""

    @property
    def vocab_size(self) -> int | None:
        """V; None where any will do."""
        ...

    @property
    def size(self) -> int:
        """G."""
        ...

    @property
    def mixed(self) -> bool:
        """Whether a token law has been applied to the rows already."""
        ...

    def combine(
        self,
        index: Tensor,  # (N, J) row numbers
        weights: Tensor,  # (N, J)
    ) -> Tensor:  # (N, V)
        """Weighted sums of rows, dense."""
        ...

    def mass(
        self,
        index: Tensor,  # (N, J)
    ) -> Tensor:  # (N, J)
        """The sum of each row: 1 unless the row dropped some of its mass, 0 for an empty one."""
        ...

    def dot(
        self,
        logits: Tensor,  # (N, V)
        index: Tensor,  # (N, J)
        weights: Tensor,  # (N, J)
    ) -> Tensor:  # (N,)
        """Inner products of weighted sums of rows with rows of logits."""
        ...


def masked_dot(
    weights: Tensor,  # (..., V)
    logits: Tensor,  # (..., V)
) -> Tensor:  # (...)
    """Inner product in which a weight of 0 silences its logit, even one of minus infinity."""
    return (weights * logits.masked_fill(weights == 0, 0)).sum(-1)


def one_row_dot(
    row: Tensor,  # (V,)
    logits: Tensor,  # (N, V)
    weights: Tensor,  # (N, J)
) -> Tensor:  # (N,)
    """Inner products with one row that all positions share, each with its weight."""
    share = weights.sum(-1).to(logits.dtype)
    with torch.autocast(logits.device.type, enabled=False):  # which would round both to bf16
        dot = logits.masked_fill(row == 0, 0) @ row
    return torch.where(share == 0, 0, share * dot)


def padded(columns: int) -> int:
    """Columns with which every row of a matrix starts where wide loads can: at a multiple of 32 bytes or more."""
    return -(-columns // 16) * 16


def padded_rows(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A matrix with columns of padding, zero as all of it is."""
    return torch.zeros(rows, padded(columns), dtype=dtype, device=device)


def merge_weights(
    index: Tensor,  # (N, J)
    weights: Tensor,  # (N, J)
) -> Tensor:  # (N, J)
    """The same sums of rows with each row once: the first of its entries has the weight of all, the others nothing."""
    if not 1 < index.shape[1] <= MERGED:
        return weights
    same = index.unsqueeze(-1) == index.unsqueeze(-2)  # (N, J, J)
    first = same.int().argmax(-1) == torch.arange(index.shape[1], device=index.device)
    return torch.where(first, (same * weights.unsqueeze(-2)).sum(-1), 0)


def _eight(device: torch.device) -> Tensor:  # (8,)
    """The places of the bits of a byte."""
    return torch.arange(8, dtype=torch.uint8, device=device)


@dataclass(frozen=True, eq=False)
class DenseTable:
    """Rows stored in full; they may have columns of padding, which are 0."""

    values: Tensor  # (G, V), or (G, W) with W - V columns of padding
    masses: Tensor  # (G,)
    mixed: bool = False
    columns: int | None = None  # V, where there is padding

    @classmethod
    def of(cls, values: Tensor) -> DenseTable:
        """A table from its rows (G, V)."""
        return cls(values, widen(values).sum(-1))

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.values.shape[-1] if self.columns is None else self.columns

    @property
    def size(self) -> int:
        """G."""
        return self.values.shape[0]

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of rows; `embedding_bag` does it without an (N, J, V) intermediate."""
        if index.shape[1] == 0:
            return self.values.new_zeros(index.shape[0], self.vocab_size, dtype=weights.dtype)
        if self.values.dtype in (torch.float16, torch.bfloat16):
            return self._combine_widened(index, weights)
        weights = weights.to(self.values.dtype)
        offsets = None
        if checks.visible(index) and checks.visible(weights) and not weights.requires_grad:
            weights = merge_weights(index, weights)
            used = weights != 0  # rows that weigh nothing are not read
            count = used.sum(-1)
            offsets, index, weights = count.cumsum(0) - count, index[used], weights[used]
        sums = F.embedding_bag(index, self.values, offsets, mode="sum", per_sample_weights=weights)
        return sums[:, : self.vocab_size]

    def _combine_widened(self, index: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of rows in half precision; on a CPU each distinct row is widened once, columns by columns."""
        if not (checks.visible(index) and checks.visible(weights)):
            return (widen(self.values[index]) * weights.unsqueeze(-1)).sum(1)[:, : self.vocab_size]
        distinct, place = torch.unique(index, return_inverse=True)
        at_once = max(LEAST_COLUMNS, WIDENED // max(1, distinct.shape[0]))
        parts = torch.split(self.values[:, : self.vocab_size], at_once, 1)
        weights = widen(weights)
        return torch.cat(
            [
                F.embedding_bag(
                    place, part.index_select(0, distinct).to(weights.dtype), mode="sum", per_sample_weights=weights
                )
                for part in parts
            ],
            1,
        )

    def mass(self, index: Tensor) -> Tensor:
        """Row sums."""
        return self.masses[index]

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Inner products; a table of one row needs no gather."""
        if self.size == 1:
            return one_row_dot(self.values[0, : self.vocab_size].to(logits.dtype), logits, weights)
        return masked_dot(self.combine(index, weights).to(logits.dtype), logits)


@dataclass(frozen=True, eq=False)
class SparseTable:
    """Rows stored as (token, mass) pairs; pairs of mass 0 are padding."""

    ids: Tensor  # (G, P) in [0, V)
    weights: Tensor  # (G, P)
    vocab_size: int | None
    mixed: bool = False
    distinct: bool = False
    """Whether no row has mass on a token in two pairs."""

    @property
    def size(self) -> int:
        """G."""
        return self.ids.shape[0]

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of rows."""
        checks.must(self.vocab_size is not None, "vocab_size", "known where rows are written out in full", None)
        assert self.vocab_size is not None
        ids, slots = self.gather(index, weights)
        return slots.new_zeros(index.shape[0], self.vocab_size).scatter_add(-1, ids, slots)

    def gather(self, index: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Rows as slots: ids and weights of shape (N, J * P)."""
        slots = widen(self.weights[index]) * weights.unsqueeze(-1)
        return self.ids[index].flatten(1), slots.flatten(1)

    def mass(self, index: Tensor) -> Tensor:
        """Row sums."""
        return widen(self.weights).sum(-1)[index]

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Inner products by gathering P logits a row, or by a pass over them where all positions share one row."""
        if self.size == 1:
            row = logits.new_zeros(logits.shape[-1]).scatter_add(0, self.ids[0], self.weights[0].to(logits.dtype))
            return one_row_dot(row, logits, weights)
        ids, slots = self.gather(index, weights)
        return masked_dot(slots.to(logits.dtype), logits.gather(-1, ids))


@dataclass(frozen=True, eq=False)
class SetTable:
    """Sets of tokens: a row has 1 for each of its own. It is kept as bits, for a row of logits reads all of it."""

    bits: Tensor  # (G, W) uint8, 8 tokens each, the first of them lowest
    masses: Tensor  # (G,) float32, how many tokens there are
    vocab_size: int
    mixed: bool = False

    @classmethod
    def of(
        cls,
        ids: Tensor,  # (G, P) of which none is in a row twice
        used: Tensor,  # (G, P) bool
        vocab_size: int,
    ) -> SetTable:
        """Sets from lists; ids that are not used may be anything."""
        width = -(-vocab_size // 8)
        flags = torch.zeros(ids.shape[0], 8 * width + 1, dtype=torch.uint8, device=ids.device)
        flags.scatter_(1, torch.where(used, ids, 8 * width), 1)
        eights = flags[:, :-1].reshape(-1, width, 8) << _eight(ids.device)
        return cls(eights.sum(-1, dtype=torch.uint8), used.sum(-1, dtype=torch.float32), vocab_size)

    @property
    def size(self) -> int:
        """G."""
        return self.bits.shape[0]

    def flags(
        self,
        index: Tensor | None = None,  # (n,) row numbers; all G if None
    ) -> Tensor:  # (n, V) uint8
        """1 for each token of a row."""
        bits = self.bits if index is None else self.bits[index]
        each = (bits.unsqueeze(-1) >> _eight(bits.device)) & 1
        return each.flatten(1)[:, : self.vocab_size]

    def written(self, like: Tensor) -> DenseTable:
        """The rows in full, of the type of a tensor."""
        return DenseTable(self.flags().to(like.dtype), self.masses)

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of rows."""
        return self.written(weights).combine(index, weights)

    def mass(self, index: Tensor) -> Tensor:
        """The number of tokens of each row."""
        return self.masses[index]

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums over sets."""
        return self.written(logits).dot(logits, index, weights)


@dataclass(frozen=True, eq=False)
class UniformTable:
    """V rows, all alike: uniform over the vocabulary without the excluded ids; empty if nothing is left."""

    vocab_size: int
    excluded: tuple[int, ...] = ()
    mixed: bool = False

    @property
    def size(self) -> int:
        """V: as many rows as tokens, so that a token is the number of its row."""
        return self.vocab_size

    @property
    def tokens(self) -> int:
        """How many tokens share the mass."""
        return self.vocab_size - len(set(self.excluded))

    def row(
        self,
        like: Tensor,
    ) -> Tensor:  # (V,)
        """The row in full, of the type and on the device of a tensor."""
        values = like.new_full((self.vocab_size,), 1 / max(self.tokens, 1))
        for token in self.excluded:
            values[token] = 0
        return values

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        """The row, as often as asked."""
        return weights.sum(-1, keepdim=True) * self.row(weights)

    def mass(self, index: Tensor) -> Tensor:
        """1 each, or 0 for the empty row."""
        return torch.full_like(index, min(self.tokens, 1), dtype=torch.float32)

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Means over the vocabulary."""
        share = weights.sum(-1).to(logits.dtype)
        inside = logits.masked_fill(self.row(logits) == 0, 0) if self.excluded else logits
        return torch.where(share == 0, 0, share * (inside.sum(-1) / max(self.tokens, 1)))
