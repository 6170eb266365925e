"""The V x V matrix S of a similarity law: what is kept of it between steps, products with it, draws from its rows.

Rows are made some at a time, so that S need not be in memory as a whole.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.ops.sampling import Generator, categorical, cumulate, draw_pieces, in_pieces, piece_sums
from seqsmooth.ops.similarity import SimilarityTable, rows_at_once
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, RowTable, SetTable, SparseTable, UniformTable, padded_rows
from seqsmooth.smoothing.law import Tables
from seqsmooth.smoothing.row_store import RowStore

Mode = Literal["dense", "sampled", "top-k"]
TopTail = Literal["renormalise", "zero"]
TokenMatrix = DenseTable | SparseTable | SimilarityTable
"""One row a token."""
STORED_VOCABULARY = 20_000
"""Up to this many tokens the V x V table is kept; beyond, rows are made when needed.

At the limit it takes 1.6 GB of fp32, and a sixteenth more where tokens are drawn from its rows.
"""
STORED_BYTES = 4 * STORED_VOCABULARY**2
"""How much the rows of tokens that were met may take beyond that, on a CPU."""
CHUNK_ROWS = 1024
DRAWN_ELEMENTS = 2**21
"""Numbers that are in memory at once on a CPU, where tokens are drawn: 8 MiB of fp32."""
QUIET_SECONDS = 2.0
"""How long a table may take before the log says how far it is, and between two lines that do."""

_log = logging.getLogger(__name__)


class KeptMatrix(Tables):
    """The part of a matrix that is kept between steps.

    Where rows are computed when they are needed that is `known`, and on a CPU a store of the rows of tokens met so far.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("known", "table", "neighbours", "masses", "sums")

    known: Tensor
    """(V,) bool, the tokens that have a vector and may get mass."""
    table: Tensor | None
    """(V, W) rows in full, with W - V columns of padding; or (V, k), masses of the nearest."""
    neighbours: Tensor | None
    """(V, k) the nearest of each token, where only these are kept."""
    masses: Tensor | None
    """(V,) mass of each row; where only the nearest are kept, what the others have."""
    sums: Tensor | None
    """(V, W / 16) the mass of each piece of a row, where tokens are drawn from rows in full."""

    def __init__(
        self,
        law: SimilarityTable,
        table: Tensor | None = None,
        neighbours: Tensor | None = None,
        masses: Tensor | None = None,
        store: RowStore | None = None,
        sums: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.store = store
        self.register_buffer("known", law.known, persistent=False)
        for name, value in (("table", table), ("neighbours", neighbours), ("masses", masses), ("sums", sums)):
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

    def rows(
        self,
        matrix: TokenMatrix,
        tokens: Tensor,  # (..., J); a negative one is none
        weights: Tensor,  # (..., J)
    ) -> tuple[Rows, ...]:
        """Weighted rows of the matrix: on a CPU those in the store, and whatever is not there."""
        if self.store is None or not isinstance(matrix, SimilarityTable) or not checks.visible(tokens):
            return (Rows(matrix, tokens, weights),)
        table, index = self.store.find(matrix, tokens)
        stored = Rows(table, index, weights)
        others = tokens.masked_fill(index >= 0, -1)
        return (stored, Rows(matrix, others, weights)) if bool((others >= 0).any()) else (stored,)

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


def find_nearest(law: SimilarityTable, k: int) -> tuple[Tensor, Tensor]:  # (V, k) twice
    """The k largest entries of each row of S, and the tokens they are of."""
    weights = law.units.new_empty(law.vocab_size, k)
    ids = torch.empty_like(weights, dtype=torch.int64)
    for part, rows in all_rows(law, f"the {k} nearest of each"):
        weights[part], ids[part] = rows.topk(k, -1)
    return ids, weights


Nearest = Callable[[SimilarityTable, int], tuple[Tensor, Tensor]]
"""`find_nearest`, or what remembers its results."""


def keep(
    law: SimilarityTable,
    alpha: float,
    mode: Mode,
    k: int | None,
    tail: TopTail,
    stored: bool | torch.dtype | None,
    nearest: Nearest = find_nearest,
) -> KeptMatrix:
    """Compute what these choices keep: of M = (1 - alpha) I + alpha S where that says all of a target, or else of S."""
    if mode == "top-k":
        assert k is not None
        ids, weights = nearest(law, k)
        total = weights.sum(-1)
        if tail == "renormalise":
            weights = weights / total.unsqueeze(-1)
        return KeptMatrix(law, weights, ids, 1 - total)
    if stored is None and law.vocab_size > STORED_VOCABULARY:
        return KeptMatrix(law, store=RowStore(STORED_BYTES))
    if stored is False:
        return KeptMatrix(law)
    if mode == "sampled":  # from S itself
        return _in_full(law, 1.0, law.units.dtype, drawn_from=True)
    return _in_full(law, alpha, torch.float16 if stored == torch.float16 else law.units.dtype)


def _in_full(law: SimilarityTable, share: float, dtype: torch.dtype, *, drawn_from: bool = False) -> KeptMatrix:
    """All entries of (1 - share) I + share S; masses are those of the rounded rows."""
    size = law.vocab_size
    table = padded_rows(size, size, dtype, law.units.device)
    masses = torch.empty_like(table[:, 0], dtype=law.units.dtype)
    for part, rows in all_rows(law, "rows"):
        rows.mul_(share).diagonal(part.start).add_(1 - share)
        table[part, :size] = rows
        masses[part] = table[part].to(masses.dtype).sum(-1)
    return KeptMatrix(law, table, None, masses, sums=piece_sums(in_pieces(table)) if drawn_from else None)


def all_rows(law: SimilarityTable, what: str) -> Iterator[tuple[slice, Tensor]]:
    """The rows of all tokens, as `SimilarityTable.blocks`; where that takes long, the log says how far it is."""
    size, last = law.vocab_size, time.monotonic()
    for part, rows in law.blocks(torch.arange(size, device=law.units.device)):
        yield part, rows
        if (now := time.monotonic()) > last + QUIET_SECONDS:
            _log.info("similarity of %s tokens, %s: %d %%", f"{size:,}", what, 100 * part.stop // size)
            last = now


def sum_rows(parts: Sequence[Rows]) -> Tensor:  # (N, V)
    """Weighted rows of tables, summed in full."""
    total, *others = [
        part.table.combine(part.index.clamp_min(0), part.weights.masked_fill(part.index < 0, 0)) for part in parts
    ]
    for other in others:
        total = total + other
    return total


def multiply(
    table: RowTable,
    kept: KeptMatrix,
    matrix: TokenMatrix,
    share: float,
    like: Tensor,  # of the type and on the device of the result
) -> Tensor:  # (G, V)
    """The rows of a table times (1 - share) I + share S, in full."""
    if isinstance(table, SparseTable):
        weights = table.weights.to(like.dtype)
        product = sum_rows(kept.rows(matrix, table.ids.masked_fill(weights == 0, -1), share * weights))
        return product if share == 1 else product.scatter_add_(-1, table.ids, (1 - share) * weights)
    if isinstance(table, SetTable):
        table = table.written(like)
    assert isinstance(table, (DenseTable, UniformTable))
    plain = table.values[:, : matrix.size] if isinstance(table, DenseTable) else table.row(like).unsqueeze(0)
    plain = plain.to(like.dtype)
    product = (1 - share) * plain
    for part, rows in _pieces(matrix, like):
        product.addmm_(plain[:, part], rows, alpha=share)
    return product


def _pieces(matrix: TokenMatrix, like: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The rows of all tokens, some at a time."""
    if isinstance(matrix, SimilarityTable):
        yield from all_rows(matrix, "their mean")
        return
    for start in range(0, matrix.size, CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        if isinstance(matrix, DenseTable):
            yield part, matrix.values[part, : matrix.vocab_size].to(like.dtype)
        else:
            tokens = torch.arange(matrix.size, device=like.device)[part].unsqueeze(-1)
            yield part, matrix.combine(tokens, torch.ones_like(tokens, dtype=like.dtype))


def draw_from(
    kept: KeptMatrix,
    matrix: TokenMatrix,
    tokens: Tensor,  # (n,)
    count: int,
    dtype: torch.dtype,
    generator: Generator | None,
) -> Tensor:  # (n, count)
    """Draws from the rows of tokens, of which few are in full at once, or few cumulative sums where these suffice."""
    table, sums = kept.table, kept.sums
    numbers = matrix.size if sums is None else 2 * sums.shape[1]  # of a row in memory: sums are in double precision
    at_once = (
        max(1, DRAWN_ELEMENTS // numbers) if tokens.device.type == "cpu" else rows_at_once(matrix.size, tokens.device)
    )
    drawn = [tokens.new_empty(0, count)]
    for start in range(0, tokens.shape[0], at_once):
        every = some = tokens[start : start + at_once]
        place = None
        if checks.visible(some):
            some, place = torch.unique(some, return_inverse=True)
        if table is None or sums is None:
            drawn.append(categorical(_rows_of(kept, matrix, some, dtype), count, generator, place))
            continue
        each = cumulate(sums[some])
        each = each if place is None else each[place]
        drawn.append(draw_pieces(in_pieces(table), each, every, count, generator))
    return torch.cat(drawn)


def _rows_of(
    kept: KeptMatrix,
    matrix: TokenMatrix,
    tokens: Tensor,  # (n,)
    dtype: torch.dtype,
) -> Tensor:  # (n, V or more)
    """The rows of tokens in full, with the padding that they are stored with."""
    index = tokens.unsqueeze(-1)
    parts = kept.rows(matrix, index, torch.ones_like(index, dtype=dtype))
    first = parts[0].table
    if len(parts) == 1 and isinstance(first, DenseTable):
        return first.values.index_select(0, parts[0].index.squeeze(-1)).to(dtype)
    return sum_rows(parts)
