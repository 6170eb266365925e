"""`RowStore`: the rows of a similarity law for tokens that were met, each computed once."""

from __future__ import annotations

import threading
from typing import Any

import numpy
import torch
from torch import Tensor

from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.tables import DenseTable, padded

FEW = 32
"""Rows computed at once, always as many: so a row is the same to the last bit, whichever others were new with it."""


class RowStore:
    """The rows of tokens met so far, first come, first kept, on the CPU, in memory that is taken when it is written to.

    Where the law changes, rows start anew in other memory. Copies of a store are empty. Threads need not wait for each
    other: while one adds rows, the others do with those that are there.

    Args:
        most_bytes: how much memory the rows may take.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._rows: _Rows | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return RowStore, (self.most_bytes,)

    def find(
        self,
        law: SimilarityTable,  # on the CPU
        tokens: Tensor,  # (...) int64; a negative one is none
    ) -> tuple[DenseTable, Tensor]:  # (...)
        """A table, and for each token the number of its row there; -1 where it has none."""
        rows, state = self._rows, (law, *_versions(law))
        if rows is None or rows.state != state:
            self._rows = rows = _Rows(state, self.most_bytes)
        return rows.table, rows.find(tokens)


class _Rows:
    """The rows of a law as it is. Those that are there never change or move, for targets point at them."""

    def __init__(self, state: tuple[Any, ...], most_bytes: int) -> None:
        law: SimilarityTable = state[0]
        size, dtype = law.vocab_size, law.units.dtype
        count = max(1, min(size + 1, most_bytes // (padded(size) * dtype.itemsize)))
        with torch.inference_mode(False):  # in which these tensors could not be written to later on
            # Not `torch.empty`, which fills its memory where algorithms must be deterministic.
            empty = numpy.empty((count, padded(size)), str(dtype).removeprefix("torch."))
            values, masses = torch.from_numpy(empty), law.units.new_zeros(count)
            values[0] = 0  # what empty rows of a target point at
            self.places = torch.full((size,), -1, device="cpu")
        self.state = state
        self.table = DenseTable(values, masses, columns=size)
        self.used = 1
        self.lock = threading.Lock()

    def find(self, tokens: Tensor) -> Tensor:
        """The row of each token; of those that have none, as many as fit are given one."""
        found = self._look_up(tokens)
        missing = (found < 0) & (tokens >= 0)
        if self.used < self.table.size and bool(missing.any()) and self.lock.acquire(blocking=False):
            try:
                new = torch.unique(tokens[missing])
                self._add(new[self.places[new] < 0][: self.table.size - self.used])
            finally:
                self.lock.release()
            found = self._look_up(tokens)
        return found

    def _look_up(self, tokens: Tensor) -> Tensor:
        return torch.where(tokens < 0, -1, self.places[tokens.clamp_min(0)])

    @torch.inference_mode(False)
    @torch.no_grad()
    def _add(self, tokens: Tensor) -> None:
        law, count = self.state[0], tokens.shape[0]
        filled = torch.cat([tokens, tokens[:1].expand(-count % FEW)])
        for part, rows in law.blocks(filled, FEW):
            some = tokens[part]
            places = torch.arange(self.used, self.used + some.shape[0], device="cpu")
            kept = self.table.values[self.used : self.used + some.shape[0]]
            kept[:, : law.vocab_size] = rows[: some.shape[0]]
            kept[:, law.vocab_size :] = 0
            self.table.masses[places] = kept.sum(-1)
            self.places[some] = places  # last, for others look these up meanwhile
            self.used += some.shape[0]


def _versions(law: SimilarityTable) -> tuple[int, ...]:
    """How often the tensors of a law were written to."""
    tensors = (law.units, law.known) if law.counts is None else (law.units, law.known, law.counts)
    return tuple([0 if tensor.is_inference() else tensor._version for tensor in tensors])
