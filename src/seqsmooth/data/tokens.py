"""Sequences of token ids of any length, on disk: one row of ids, and where each sequence starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqsmooth.data.arrays import ArrayWriter, open_array
from seqsmooth.text import Vocabulary
from seqsmooth.text.vocabulary import EOS

_BLOCK = 1 << 16  # sentences that are encoded at a time


class TokenStore:
    """Sequences that end with EOS, in two arrays which may be memory maps.

    Attributes:
        ids: the ids of all sequences, one after the other.
        offsets: where each sequence starts, and where the last one ends.

    Examples:
        >>> store = TokenStore(np.array([7, 8, 9, 2, 5, 2]), np.array([0, 4, 6]))
        >>> store.rows(np.array([1, 0, 2]), 3)  # 2 is no sequence: a row of PAD
        array([[5, 2, 0],
               [7, 8, 2],
               [0, 0, 0]])
    """

    def __init__(
        self,
        ids: NDArray[Any],  # (M,) of whole numbers
        offsets: NDArray[np.int64],  # (N + 1,)
    ) -> None:
        if ids.ndim != 1 or offsets.ndim != 1 or len(offsets) == 0 or int(offsets[-1]) != len(ids):
            raise ValueError("`offsets` must be where the sequences of `ids` start and end, but are not.")
        self.ids = ids
        self.offsets = offsets

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> TokenStore:
        """Map what `write_tokens` wrote at `path`."""
        try:
            return cls(open_array(f"{path}.ids.npy", dimensions=1), open_array(f"{path}.offsets.npy", dimensions=1))
        except ValueError as error:
            if "offsets" not in str(error):
                raise
            raise ValueError(f"`{path}.ids.npy` must be as long as its offsets say; it is not.") from error

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int32]:  # (N,)
        """How many ids each sequence has, EOS counted."""
        return np.diff(self.offsets).astype(np.int32)

    def rows(
        self,
        which: NDArray[np.integer[Any]],  # (n,); the number of sequences means none
        width: int,
    ) -> NDArray[np.int64]:  # (n, width)
        """Write sequences as a matrix: PAD after EOS; longer ones are cut and end with EOS in the last column."""
        last = len(self)
        start = self.offsets[which]
        size = np.minimum(self.offsets[np.minimum(which + 1, last)] - start, width)
        if len(self.ids) == 0:
            return np.zeros((len(which), width), dtype=np.int64)
        column = np.arange(width)
        there = column < size[:, None]
        place = np.minimum(start[:, None] + column, len(self.ids) - 1)
        matrix = np.where(there, self.ids[place], 0).astype(np.int64, copy=False)
        some = np.flatnonzero(size)
        matrix[some, size[some] - 1] = EOS
        return matrix


def write_tokens(
    path: str | os.PathLike[str],
    sentences: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    max_words: int | None = None,
) -> int:
    """Encode sentences, some at a time, and write them; how many there were is returned.

    Args:
        path: the name that both files begin with.
        sentences: the words of each; an iterator will do.
        vocabulary: makes ids of them.
        max_words: cut sentences after so many words; EOS comes after them.
    """
    dtype = np.uint16 if len(vocabulary) <= 1 << 16 else np.int32
    remaining = iter(sentences)
    end = 0
    with ArrayWriter(Path(f"{path}.ids.npy"), dtype) as ids, ArrayWriter(Path(f"{path}.offsets.npy"), np.int64) as to:
        to.append(np.zeros(1, dtype=np.int64))
        while block := [words[:max_words] for words in islice(remaining, _BLOCK)]:
            flat, offsets = vocabulary.encode_all(block, eos=True)
            ids.append(flat)
            to.append(offsets[1:] + end)
            end += len(flat)
        return to.rows - 1
