"""The V x V matrix S of a similarity law: what is kept of it between steps, products with it, draws from its rows.

Rows are made some at a time, so that S need not be in memory as a whole.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.sampling import Generator, categorical
from seqsmooth.ops.similarity import ROW_ELEMENTS, SimilarityTable
from seqsmooth.ops.tables import DenseTable, SetTable, SparseTable, Table, UniformTable, padded_rows

Mode = Literal["dense", "sampled", "top-k"]
TopTail = Literal["renormalise", "zero"]
TokenMatrix = DenseTable | SparseTable | SimilarityTable
"""One row a token."""
STORED_VOCABULARY = 20_000
"""Up to this many tokens the V x V table is kept (1.6 GB of fp32 at the limit); beyond, rows are made when needed."""
CHUNK_ROWS = 1024


class Kept(NamedTuple):
    """What is kept of a matrix between steps: nothing, where rows are made when they are needed."""

    table: Tensor | None = None
    """(V, W) rows in full, with W - V columns of padding; or (V, k), masses of the nearest."""
    neighbours: Tensor | None = None
    """(V, k) the nearest of each token, where only these are kept."""
    masses: Tensor | None = None
    """(V,) mass of each row; where only the nearest are kept, what the others have."""


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
) -> Kept:
    """What these choices keep: of M = (1 - alpha) I + alpha S where that says all of a target, or else of S."""
    if mode == "top-k":
        assert k is not None
        return _nearest(law, k, tail)
    if stored is None:
        stored = law.vocab_size <= STORED_VOCABULARY
    if not stored:
        return Kept()
    share = alpha if mode == "dense" else 1.0  # tokens are drawn from S itself
    return _in_full(law, share, torch.float16 if stored == torch.float16 else law.units.dtype)


def _nearest(law: SimilarityTable, k: int, tail: TopTail) -> Kept:
    """The k largest entries of each row of S."""
    best = [law.rows(tokens).topk(k, -1) for tokens in token_chunks(law.vocab_size, law.units.device)]
    weights = torch.cat([part.values for part in best])
    total = weights.sum(-1)
    if tail == "renormalise":
        weights = weights / total.unsqueeze(-1)
    return Kept(weights, torch.cat([part.indices for part in best]), 1 - total)


def _in_full(law: SimilarityTable, share: float, dtype: torch.dtype) -> Kept:
    """All entries of (1 - share) I + share S; masses are those of the rounded rows."""
    size = law.vocab_size
    table = padded_rows(size, size, dtype, law.units.device)
    masses = torch.empty_like(table[:, 0], dtype=law.units.dtype)
    for tokens in token_chunks(size, law.units.device):
        rows = law.rows(tokens).mul_(share)
        rows[torch.arange(len(tokens), device=rows.device), tokens] += 1 - share
        table[tokens, :size] = rows.to(dtype)
        masses[tokens] = table[tokens].to(masses.dtype).sum(-1)
    return Kept(table, None, masses)


def rows_of(
    matrix: TokenMatrix,
    tokens: Tensor,  # (n,)
    dtype: torch.dtype,
) -> Tensor:  # (n, V)
    """The rows of some tokens in full."""
    index = tokens.unsqueeze(-1)
    return matrix.combine(index, torch.ones_like(index, dtype=dtype))


def multiply(
    table: Table,
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
