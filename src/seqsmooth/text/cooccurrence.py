"""How often words occur near each other, as GloVe counts it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.ops import checks

_Pairs = tuple[NDArray[np.int64], NDArray[np.int64], float]
_CELLS = 1 << 27  # of the table that is counted in at a time: 1 GiB


@dataclass(frozen=True, eq=False)
class Cooccurrence:
    """The nonzero entries X_ij of the co-occurrence matrix (Pennington et al. 2014, section 3), sorted by (i, j).

    Examples:
        >>> from seqsmooth.text import GloVe, WordCounts
        >>> sentences = [["a", "dog"], ["a", "dog"]]
        >>> vocabulary = WordCounts.of(sentences).vocabulary(min_count=1)
        >>> cooccurrence = GloVe(window=1, eos=False).count(sentences, vocabulary)
        >>> cooccurrence.dense().sum()  # twice beside each other, in both directions
        tensor(4., dtype=torch.float64)
    """

    size: int
    rows: Tensor  # (N,) int64
    columns: Tensor  # (N,) int64
    values: Tensor  # (N,) float64

    def dense(self) -> Tensor:  # (V, V) float64
        """Return the whole matrix, which suits small vocabularies."""
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
    beside itself counts twice. Leave out words that shall have no vector before counting: they take up no place.

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
    pairs: list[_Pairs] = []  # of the words at each distance, the later one first
    for step in range(1, min(window, len(words) - 1) + 1):
        near = sentence[step:] == sentence[:-step]
        pairs.append((words[step:][near], words[:-step][near], 1 / step if weighted else 1.0))
    if symmetric:
        both = [(np.maximum(later, earlier), np.minimum(later, earlier), weight) for later, earlier, weight in pairs]
        rows, columns, values = _triangle(both, size, block_cells)
        below = rows != columns
        upper = columns[below], rows[below], values[below]
        values = torch.where(below, values, 2 * values)
    else:
        lower = [(later[at], earlier[at], n) for later, earlier, n in pairs for at in (later >= earlier,)]
        rows, columns, values = _triangle(lower, size, block_cells)
        swapped = [(earlier[at], later[at], n) for later, earlier, n in pairs for at in (later < earlier,)]
        right, left, above = _triangle(swapped, size, block_cells)
        upper = left, right, above
    order = torch.argsort(torch.cat((rows * size + columns, upper[0] * size + upper[1])))
    return Cooccurrence(size, *(torch.cat(both)[order] for both in zip((rows, columns, values), upper, strict=True)))


def _triangle(pairs: list[_Pairs], size: int, block_cells: int) -> tuple[Tensor, Tensor, Tensor]:  # each (M,)
    """Sum the weights of equal pairs whose row is never below their column, some rows of the triangle at a time.

    Row r starts at cell r (r + 1) / 2. Where frequent words have small ids, most pairs so fall into few cells, which
    stay in the cache.
    """
    starts = torch.arange(size + 1) * torch.arange(1, size + 2) // 2
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    first = 0
    while first < size:
        last = max(first + 1, int(torch.searchsorted(starts, starts[first] + block_cells, right=True)) - 1)
        start, whole = int(starts[first]), last - first == size
        table = torch.zeros(int(starts[last]) - start, dtype=torch.float64)
        for high, low, weight in pairs:
            inside = slice(None) if whole else (high >= first) & (high < last)
            places = torch.from_numpy(high[inside] * (high[inside] + 1) // 2 + low[inside] - start)
            table.scatter_add_(0, places, torch.tensor(weight, dtype=torch.float64).expand(len(places)))
        cells = table.nonzero().squeeze(1)
        rows_of = torch.searchsorted(starts, cells + start, right=True) - 1
        parts.append((rows_of, cells + start - starts[rows_of], table[cells]))
        first = last
    rows, columns, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return rows, columns, values
