"""The V x V matrix S of a similarity law: what is kept of it between steps, products with it, draws from its rows.

Rows are made some at a time, so that S need not be in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.ops.sampling import Generator, categorical
from seqsmooth.ops.similarity import ROW_ELEMENTS, SimilarityTable
from seqsmooth.ops.tables import DenseTable, RowTable, SetTable, SparseTable, UniformTable, padded_rows
from seqsmooth.smoothing.law import Tables

Mode = Literal["dense", "sampled", "top-k"]
TopTail = Literal["renormalise", "zero"]
TokenMatrix = DenseTable | SparseTable | SimilarityTable
"""One row a token."""
STORED_VOCABULARY = 20_000
"""Up to this many tokens the V x V table is kept (1.6 GB of fp32 at the limit); beyond, rows are made when needed."""
CHUNK_ROWS = 1024


class KeptMatrix(Tables):
    """The part of a matrix that is kept between steps: only `known`, where rows are computed when they are needed."""

    NAMES: ClassVar[tuple[str, ...]] = ("known", "table", "neighbours", "masses")

    known: Tensor
    """(V,) bool, the tokens that have a vector and may get mass."""
    table: Tensor | None
    """(V, W) rows in full, with W - V columns of padding; or (V, k), masses of the nearest."""
    neighbours: Tensor | None
    """(V, k) the nearest of each token, where only these are kept."""
    masses: Tensor | None
    """(V,) mass of each row; where only the nearest are kept, what the others have."""

    def __init__(
        self,
        law: SimilarityTable,
        table: Tensor | None = None,
        neighbours: Tensor | None = None,
        masses: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("known", law.known, persistent=False)
        for name, value in (("table", table), ("neighbours", neighbours), ("masses", masses)):
            self.register_buffer(name, value, persistent=False)
        self._law = law if table is None else None
        self._rows: DenseTable | SparseTable | None = None

    @property
    def in_full(self) -> bool:
        """Whether all entries are kept."""
        return self._buffers["table"] is not None and self._buffers["neighbours"] is None

    def matrix(
        self,
        units: Tensor,  # (V, D), where they are now
        counts: Tensor | None,  # (V,)
    ) -> TokenMatrix:
        """The rows, as a table: those that are kept, or a law that computes them."""
        table = self._buffers["table"]  # `self.table` takes longer than all the rest
        law = self._law
        if law is not None:
            if law.units is not units or law.known is not self.known:  # which moving to a device replaces
                self._law = law = replace(law, units=units, known=self.known, counts=counts)
            return law
        assert table is not None
        if self._rows is None or table is not _values(self._rows):
            if self.neighbours is None:
                assert self.masses is not None
                self._rows = DenseTable(table, self.masses, columns=units.shape[0])
            else:
                self._rows = SparseTable(self.neighbours, table, units.shape[0], distinct=True)
        return self._rows

    def take(self, other: KeptMatrix) -> None:
        """Overwrite what is kept by that of another law, in place: a CUDA graph that reads it sees the new one."""
        check_shapes(self, other, self.NAMES)
        for name, mine in self.named_buffers():
            mine.copy_(getattr(other, name))
        if self._law is not None and other._law is not None:
            self._law.take(other._law)

    def extra_repr(self) -> str:
        """How much of the matrix is kept."""
        if self.neighbours is not None:
            return f"the {self.neighbours.shape[1]} nearest"
        return "computed when needed" if self.table is None else "in full"


class StoredTable(Tables):
    """A `DenseTable` that moves with an objective."""

    values: Tensor
    masses: Tensor

    def __init__(self, table: DenseTable) -> None:
        super().__init__()
        self.register_buffer("values", table.values, persistent=False)
        self.register_buffer("masses", table.masses, persistent=False)
        self._table = table

    @property
    def table(self) -> DenseTable:
        """The table, where its tensors are now."""
        if self._table.values is not self.values:
            self._table = replace(self._table, values=self.values, masses=self.masses)
        return self._table


def check_shapes(law: nn.Module, other: nn.Module, names: Sequence[str]) -> None:
    """Refuse a law whose tensors are not like those that they shall overwrite."""
    for name in names:
        values = getattr(law, name), getattr(other, name)
        mine, theirs = (None if value is None else tuple(value.shape) for value in values)
        checks.must(mine == theirs, "other", f"a law with {name} of shape {mine}", "another")


def _values(rows: DenseTable | SparseTable) -> Tensor:
    return rows.values if isinstance(rows, DenseTable) else rows.weights


def check_choices(mode: Mode, k: int | None, tail: TopTail, stored: bool | torch.dtype | None, vocab_size: int) -> None:
    """Refuse choices that do not go together, see `Similarity`."""
    checks.one_of("mode", mode, ("dense", "sampled", "top-k"))
    checks.one_of("tail", tail, ("renormalise", "zero"))
    rule = f"{'left out' if mode == 'dense' else 'given'} with mode={mode!r}"
    checks.must((k is None) == (mode == "dense"), "k", rule, k)
    if k is not None:
        checks.at_least("k", k, 1)
        checks.must(mode == "sampled" or k <= vocab_size, "k", f"at most V = {vocab_size}", k)
    known = stored is None or isinstance(stored, bool) or stored == torch.float16
    checks.must(known, "stored", "True, False or torch.float16", repr(stored))
    checks.must(stored != torch.float16 or mode == "dense", "stored", f"True or False with mode={mode!r}", stored)


def keep(
    law: SimilarityTable, alpha: float, mode: Mode, k: int | None, tail: TopTail, stored: bool | torch.dtype | None
) -> KeptMatrix:
    """Compute what these choices keep: of M = (1 - alpha) I + alpha S where that says all of a target, or else of S."""
    if mode == "top-k":
        assert k is not None
        return _nearest(law, k, tail)
    if stored is None:
        stored = law.vocab_size <= STORED_VOCABULARY
    if not stored:
        return KeptMatrix(law)
    share = alpha if mode == "dense" else 1.0  # tokens are drawn from S itself
    return _in_full(law, share, torch.float16 if stored == torch.float16 else law.units.dtype)


def _nearest(law: SimilarityTable, k: int, tail: TopTail) -> KeptMatrix:
    """The k largest entries of each row of S."""
    best = [law.rows(tokens).topk(k, -1) for tokens in token_chunks(law.vocab_size, law.units.device)]
    weights = torch.cat([part.values for part in best])
    total = weights.sum(-1)
    if tail == "renormalise":
        weights = weights / total.unsqueeze(-1)
    return KeptMatrix(law, weights, torch.cat([part.indices for part in best]), 1 - total)


def _in_full(law: SimilarityTable, share: float, dtype: torch.dtype) -> KeptMatrix:
    """All entries of (1 - share) I + share S; masses are those of the rounded rows."""
    size = law.vocab_size
    table = padded_rows(size, size, dtype, law.units.device)
    masses = torch.empty_like(table[:, 0], dtype=law.units.dtype)
    for tokens in token_chunks(size, law.units.device):
        rows = law.rows(tokens).mul_(share)
        rows[torch.arange(len(tokens), device=rows.device), tokens] += 1 - share
        table[tokens, :size] = rows.to(dtype)
        masses[tokens] = table[tokens].to(masses.dtype).sum(-1)
    return KeptMatrix(law, table, None, masses)


def rows_of(
    matrix: TokenMatrix,
    tokens: Tensor,  # (n,)
    dtype: torch.dtype,
) -> Tensor:  # (n, V)
    """The rows of some tokens in full."""
    index = tokens.unsqueeze(-1)
    return matrix.combine(index, torch.ones_like(index, dtype=dtype))


def multiply(
    table: RowTable,
    matrix: TokenMatrix,
    like: Tensor,  # of the type and on the device of the result
) -> tuple[Tensor, Tensor]:  # (G, V) twice
    """The rows of a table in full, and the same times a matrix."""
    if isinstance(table, SparseTable):
        every = torch.arange(table.size, device=table.ids.device)
        return rows_of(table, every, table.weights.dtype), matrix.combine(table.ids, table.weights)
    assert isinstance(table, (DenseTable, SetTable, UniformTable))
    if isinstance(table, SetTable):
        table = table.written(like)
    plain = table.values[:, : matrix.size] if isinstance(table, DenseTable) else table.row(like).unsqueeze(0)
    product = torch.zeros_like(plain, dtype=like.dtype)
    for tokens in token_chunks(matrix.size, like.device):
        rows = rows_of(matrix, tokens, like.dtype)
        product = product + plain[:, tokens].to(rows.dtype) @ rows
    return plain, product


def draw_from(
    matrix: TokenMatrix,
    tokens: Tensor,  # (n,)
    count: int,
    dtype: torch.dtype,
    generator: Generator | None,
) -> Tensor:  # (n, count)
    """Draws from the rows of tokens, which are never all in memory."""
    at_once = max(1, ROW_ELEMENTS // matrix.size)
    drawn = [tokens.new_empty(0, count)]
    for start in range(0, tokens.shape[0], at_once):
        rows = rows_of(matrix, tokens[start : start + at_once], dtype)
        drawn.append(categorical(rows, count, generator))
    return torch.cat(drawn)


def token_chunks(vocab_size: int, device: torch.device) -> tuple[Tensor, ...]:
    """All tokens, a thousand at a time."""
    return torch.split(torch.arange(vocab_size, device=device), CHUNK_ROWS)
