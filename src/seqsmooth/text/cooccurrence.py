"""How often words occur near each other, as GloVe counts it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.ops import checks

_CELLS = 1 << 27  # of the table that is counted in at a time: 1 GiB


@dataclass(frozen=True, eq=False)
class Cooccurrence:
    """The nonzero entries X_ij of the co-occurrence matrix (Pennington et al. 2014, section 3), sorted by (i, j)."""

    size: int
    rows: Tensor  # (N,) int64
    columns: Tensor  # (N,) int64
    values: Tensor  # (N,) float64

    def dense(self) -> Tensor:  # (V, V) float64
        """The whole matrix: for small vocabularies."""
        table = torch.zeros(self.size, self.size, dtype=torch.float64)
        table[self.rows, self.columns] = self.values
        return table


def count(
    ids: NDArray[np.integer],  # (N,)
    offsets: NDArray[np.int64],  # (S + 1,)
    size: int,
    *,
    window: int = 15,
    symmetric: bool = True,
    weighted: bool = True,
    block_cells: int = _CELLS,
) -> Cooccurrence:
    """Count the words within `window` of each other in the same sentence.

    As in Stanford's program, each pair of places counts 1/distance, in both directions where `symmetric`; so a word
    beside itself counts twice. Words that shall have no vector must be left out before: they take up no place.

    Args:
        ids: the words of all sentences.
        offsets: sentence s is `ids[offsets[s]:offsets[s + 1]]`.
        size: the number of words, V.
        window: the greatest distance.
        symmetric: whether the words to the right of a word count, too, or only those to the left.
        weighted: whether a pair counts 1/distance, or 1.
        block_cells: how many entries are counted at a time, 8 bytes each.
    """
    checks.at_least("window", window, 1)
    sentence = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    words = np.ascontiguousarray(ids, dtype=np.int64)
    near = [sentence[step:] == sentence[:-step] for step in range(1, min(window, len(words) - 1) + 1)]
    height = max(1, min(size, block_cells // max(1, size)))
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for first in range(0, size, height):
        last = min(size, first + height)
        table = torch.zeros((last - first) * size, dtype=torch.float64)
        for step, together in enumerate(near, 1):
            rows, columns = words[step:][together], words[:-step][together]
            if symmetric:  # then one triangle is enough
                rows, columns = np.maximum(rows, columns), np.minimum(rows, columns)
            if height < size:
                inside = (rows >= first) & (rows < last)
                rows, columns = rows[inside], columns[inside]
            places = torch.from_numpy((rows - first) * size + columns)
            weight = torch.tensor(1 / step if weighted else 1.0, dtype=torch.float64)
            table.scatter_add_(0, places, weight.expand(len(places)))
        filled = table.nonzero().squeeze(1)
        parts.append((filled // size + first, filled % size, table[filled]))
    rows, columns, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return Cooccurrence(size, *(_mirrored(rows, columns, values, size) if symmetric else (rows, columns, values)))


def _mirrored(
    rows: Tensor,  # (M,)
    columns: Tensor,  # (M,) never greater than the row
    values: Tensor,  # (M,)
    size: int,
) -> tuple[Tensor, Tensor, Tensor]:  # each (N,)
    below = rows != columns
    keys = torch.cat((rows * size + columns, (columns * size + rows)[below]))
    values = torch.cat((torch.where(below, values, 2 * values), values[below]))
    keys, order = keys.sort()
    return keys // size, keys % size, values[order]
