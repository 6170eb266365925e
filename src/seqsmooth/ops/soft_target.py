"""`SoftTarget`: what the model should predict at each position, as a sum of cheap parts."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.tables import DenseTable, RowTable, SparseTable, UniformTable

IGNORED = -100
"""An empty slot, as torch's losses have it."""

Tail = Literal["zero", "uniform", "renormalise"]
"""Where the mass goes that a top-k list does not name."""
TAILS: tuple[Tail, ...] = ("zero", "uniform", "renormalise")


@dataclass(frozen=True, eq=False)
class Rows:
    """Weighted rows of a table: the law of a label, or the background over a pool."""

    table: RowTable
    index: Tensor  # (..., J) row numbers; a negative one is empty
    weights: Tensor  # (..., J)

    def __post_init__(self) -> None:
        if not hasattr(self.table, "combine"):
            raise checks.wrong("rows.table", "a table, as DenseTable.of(values)", checks.describe(self.table))
        checks.integers("rows.index", self.index)
        checks.floats("rows.weights", self.weights)
        if self.index.dim() < 1:
            raise checks.wrong("rows.index", "of shape (..., J)", "a scalar")
        if self.index.dtype != torch.int64:
            object.__setattr__(self, "index", self.index.long())


@dataclass(frozen=True, eq=False)
class SoftTarget:
    """A measure over the vocabulary at each position: q(v) = sum_k weights_k [v = ids_k] + sum_j w_j table_j(v).

    Nothing of size V is stored a position: `ids` and `weights` are K slots, and each of `rows` points into a table
    that positions share. Masses need not sum to 1: a position's total is the constant c in c * lse - <q, z>. Parts may
    be negative as long as their sum is not; only at a logit of minus infinity they must not cancel each other.

    Args:
        ids: tokens of the slots; an id equal to `ignore_index` (-100) is an empty slot, and a position with nothing
            but empty slots and empty rows is ignored: it is neither in the sum nor in the mean.
        weights: mass of each slot.
        rows: weighted rows of tables.

    Examples:
        >>> target = SoftTarget(torch.tensor([[2, 0]]), torch.tensor([[0.9, 0.1]]))
        >>> target.dense(vocab_size=3)
        tensor([[0.1000, 0.0000, 0.9000]])
    """

    ids: Tensor  # (..., K) int64
    weights: Tensor  # (..., K)
    rows: tuple[Rows, ...] = ()

    def __post_init__(self) -> None:
        ids, weights, rows = self.ids, self.weights, self.rows
        checks.integers("ids", ids)
        checks.floats("weights", weights)
        shape = ids.shape
        if not shape:
            raise checks.wrong("ids", "of shape (..., K)", "a scalar")
        if shape != weights.shape:
            raise checks.wrong("weights", f"of the shape of `ids`, {tuple(shape)}", tuple(weights.shape))
        if not isinstance(rows, tuple):
            raise checks.wrong("rows", "a tuple of Rows", checks.describe(rows))
        if weights.device != ids.device:
            checks.device("weights", weights, ids.device)
        if ids.dtype != torch.int64:
            object.__setattr__(self, "ids", ids.long())
        for row in rows:
            if not isinstance(row, Rows):
                raise checks.wrong("rows", "a tuple of Rows", f"one with {checks.describe(row)}")
            given = row.index.shape
            if given != row.weights.shape or given[:-1] != shape[:-1]:
                lead = ", ".join(str(size) for size in self.shape)
                raise checks.wrong("rows.index", f"of shape ({lead}, J), as `rows.weights`", tuple(given))
            if checks.visible(row.index):
                checks.ids_below("rows.index", row.index, row.table.size, where=row.index >= 0)

    @property
    def shape(self) -> torch.Size:
        """The shape of the positions, without the slots."""
        return self.ids.shape[:-1]

    @classmethod
    def from_labels(
        cls,
        labels: Tensor,  # (...) int64
        *,
        dtype: torch.dtype = torch.float32,
    ) -> SoftTarget:
        """All mass on one token a position: the plain target of maximum likelihood."""
        checks.integers("labels", labels)
        ids = labels.long().unsqueeze(-1)
        return cls(ids, torch.ones_like(ids, dtype=dtype))

    @classmethod
    def from_dense(
        cls,
        probabilities: Tensor,  # (..., V)
    ) -> SoftTarget:
        """Any measure, given in full: the form of `F.cross_entropy` with class probabilities."""
        checks.floats("probabilities", probabilities)
        checks.must(probabilities.dim() >= 1, "probabilities", "of shape (..., V)", "a scalar")
        _check_finite("probabilities", probabilities)
        table = DenseTable.of(probabilities.flatten(0, -2) if probabilities.dim() > 1 else probabilities.unsqueeze(0))
        shape = probabilities.shape[:-1]
        index = torch.arange(table.values.shape[0], device=probabilities.device).view(*shape, 1)
        empty = index.new_empty(*shape, 0)
        rows = Rows(table, index, torch.ones_like(index, dtype=probabilities.dtype))
        return cls(empty, torch.zeros_like(empty, dtype=probabilities.dtype), (rows,))

    @classmethod
    def from_topk(
        cls,
        ids: Tensor,  # (..., K) int64, distinct at each position
        logprobs: Tensor,  # (..., K)
        *,
        tail: Tail = "zero",
        vocab_size: int | None = None,
        excluded: tuple[int, ...] = (),
    ) -> SoftTarget:
        """The K best tokens of a teacher with their log-probabilities, as distillation stores keep them.

        A log-probability of minus infinity is padding, whatever its id.

        Args:
            ids: tokens.
            logprobs: their log-probabilities.
            tail: where the mass 1 - sum(exp(logprobs)) goes: "zero" drops it, "uniform" spreads it over all other
                tokens, "renormalise" scales the K up to 1.
            vocab_size: V, needed for `tail="uniform"`.
            excluded: tokens that the tail leaves out.
        """
        checks.integers("ids", ids)
        checks.floats("logprobs", logprobs)
        same = f"of the shape of `ids`, {tuple(ids.shape)}"
        checks.must(ids.shape == logprobs.shape, "logprobs", same, tuple(logprobs.shape))
        checks.one_of("tail", tail, TAILS)
        checks.device("logprobs", logprobs, ids.device)
        used = logprobs > -math.inf
        _check_topk(ids.long(), logprobs, used, vocab_size)
        slots = torch.where(used, ids.long(), IGNORED)
        logprobs = widen(logprobs)
        if tail == "zero":
            return cls(slots, logprobs.exp())
        total = logprobs.logsumexp(-1, keepdim=True)
        if tail == "renormalise":
            return cls(slots, torch.where(used, logprobs - total, -math.inf).exp())
        checks.must(vocab_size is not None, "vocab_size", "given when `tail` is 'uniform'", None)
        assert vocab_size is not None
        table = UniformTable(vocab_size, tuple(excluded))
        inside = used
        for token in table.excluded:
            inside = inside & (ids != token)
        others = (table.tokens - inside.sum(-1, keepdim=True)).clamp_min(1)
        share = (1 - total.exp()).clamp_min(0) / others
        index = torch.where(used.any(-1, keepdim=True), 0, -1)
        rows = Rows(table, index, share * table.tokens)
        # The background covers every token but the excluded, so the listed ones of those give their share of it back.
        return cls(slots, logprobs.exp() - torch.where(inside, share, 0), (rows,))

    def __getitem__(self, part: slice | Tensor) -> SoftTarget:
        """Some of the positions, along the first dimension."""
        rows = tuple([Rows(row.table, row.index[part], row.weights[part]) for row in self.rows])
        return SoftTarget(self.ids[part], self.weights[part], rows)

    def flatten(self) -> SoftTarget:
        """All positions in one dimension: slots of shape (N, K)."""
        *shape, slots = self.ids.shape
        if len(shape) == 1:
            return self
        count = math.prod(shape)
        ids = self.ids.reshape(count, slots)
        rows = []
        for row in self.rows:
            size = count, row.index.shape[-1]
            index = ids if row.index is self.ids else row.index.reshape(size)
            rows.append(Rows(row.table, index, row.weights.reshape(size)))
        return SoftTarget(ids, self.weights.reshape(count, slots), tuple(rows))

    def kept(
        self,
        ignore_index: int = IGNORED,
    ) -> Tensor:  # (...) bool
        """Positions that have anything to predict."""
        kept = (self.ids != ignore_index).any(-1)
        for row in self.rows:
            kept = kept | (row.index >= 0).any(-1)
        return kept

    def where(
        self,
        mask: Tensor,  # (...) bool
    ) -> SoftTarget:
        """The target with every position outside `mask` emptied."""
        checks.is_tensor("mask", mask)
        checks.must(mask.dtype == torch.bool, "mask", "a mask (torch.bool)", mask.dtype)
        checks.must(mask.shape == self.shape, "mask", f"of shape {tuple(self.shape)}, as the target", tuple(mask.shape))
        mask = mask.unsqueeze(-1)
        rows = tuple(Rows(row.table, torch.where(mask, row.index, -1), row.weights) for row in self.rows)
        return SoftTarget(torch.where(mask, self.ids, IGNORED), self.weights, rows)

    def settle(self, ignore_index: int = IGNORED) -> SoftTarget:  # of N positions in one dimension
        """The target with safe ids and wide weights: empty slots and rows point at 0 and weigh nothing."""
        count = self.shape.numel()
        rows = []
        for row in self.rows:
            index, weights = (part.reshape(count, row.index.shape[-1]) for part in (row.index, row.weights))
            rows.append(Rows(row.table, index.clamp_min(0), widen(weights).masked_fill(index < 0, 0)))
        ids, weights = (part.reshape(count, self.ids.shape[-1]) for part in (self.ids, self.weights))
        empty = ids == ignore_index
        return SoftTarget(ids.masked_fill(empty, 0), widen(weights).masked_fill(empty, 0), tuple(rows))

    def mass(self) -> Tensor:  # (...)
        """The total mass c of each position of a settled target."""
        total = self.weights.sum(-1)
        for row in self.rows:
            total = total + (row.weights * row.table.mass(row.index)).sum(-1)
        return total

    def dense(
        self,
        vocab_size: int,
    ) -> Tensor:  # (..., V)
        """The whole measure as V numbers a position: for tests, plots and reports."""
        checks.at_least("vocab_size", vocab_size, 1)
        self.check(vocab_size)
        flat = self.settle()
        full = flat.weights.new_zeros(flat.ids.shape[0], vocab_size).scatter_add(-1, flat.ids, flat.weights)
        for row in flat.rows:
            table = row.table
            if isinstance(table, SparseTable):
                table = dataclasses.replace(table, vocab_size=vocab_size)
            full = full + table.combine(row.index, row.weights)
        return full.reshape(*self.shape, vocab_size)

    def check(self, vocab_size: int, ignore_index: int = IGNORED, *, name: str = "vocab_size") -> None:
        """Check that tables and ids fit a vocabulary; `name` is the argument that told its size."""
        if vocab_size < 1:
            raise checks.wrong(name, "over 1 token or more", f"over {vocab_size}")
        for row in self.rows:
            size = row.table.vocab_size
            if isinstance(row.table, SparseTable) and size is None:
                checks.ids_below("target.rows", row.table.ids, vocab_size)
            if size not in (None, vocab_size):
                raise checks.wrong(name, f"over the {size} tokens of the target", f"over {vocab_size}")
        if not checks.visible(self.ids):
            return
        empty = self.ids == ignore_index
        checks.ids_below("target.ids", self.ids, vocab_size, where=~empty)
        _check_finite("target.weights", self.weights, empty)
        for row in self.rows:
            _check_finite("rows.weights", row.weights, row.index < 0)


def _check_finite(name: str, values: Tensor, empty: Tensor | None = None) -> None:
    if checks.visible(values):
        finite = values.isfinite() if empty is None else values.isfinite() | empty
        checks.must(bool(finite.all()), name, "finite", "NaN or infinite somewhere")


def _check_topk(ids: Tensor, logprobs: Tensor, used: Tensor, vocab_size: int | None) -> None:
    if vocab_size is not None:
        checks.at_least("vocab_size", vocab_size, 1)
        checks.ids_below("ids", ids, vocab_size, where=used)
    if checks.visible(logprobs) and logprobs.numel():
        lowest = int(ids.masked_fill(~used, 0).min())
        checks.must(lowest >= 0, "ids", "0 or more where there is a log-probability", lowest)
        checks.must(not bool(logprobs.isnan().any()), "logprobs", "free of NaN", "NaN somewhere")
        total = float(widen(logprobs).logsumexp(-1).max().exp())
        # Stores in half precision sum to a little more than 1.
        checks.must(
            total <= 1.02, "logprobs", "logarithms of probabilities, of 1 at most in all", f"of {total:.3g} in all"
        )
