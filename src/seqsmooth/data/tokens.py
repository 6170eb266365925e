"""Sequences of token ids of any length, on disk: one row of ids, and where each sequence starts."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqsmooth.data.arrays import ArrayWriter, open_array
from seqsmooth.text.vocabulary import EOS


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
        """Map what `TokenWriter` wrote at `path`."""
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


class TokenWriter:
    """Writes what `TokenStore.open` reads, block by block.

    Args:
        path: the name that both files begin with.
        words: the size of the vocabulary.
        max_words: cut sentences after so many words; EOS comes after them.
    """

    def __init__(self, path: str | os.PathLike[str], words: int, max_words: int | None = None) -> None:
        self._max_words, self._end = max_words, 0
        self._ids = ArrayWriter(Path(f"{path}.ids.npy"), np.uint16 if words <= 1 << 16 else np.int32)
        self._offsets = ArrayWriter(Path(f"{path}.offsets.npy"), np.int64)
        self._offsets.append(np.zeros(1, dtype=np.int64))

    def append(
        self,
        ids: NDArray[np.integer[Any]],  # (M,), of all words
        sizes: NDArray[np.integer[Any]],  # (N,), the words of each sentence
    ) -> None:
        """Write some sentences, each with EOS at its end."""
        if self._max_words is not None:
            place = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            ids, sizes = ids[place < self._max_words], np.minimum(sizes, self._max_words)
        ends = np.cumsum(sizes + 1, dtype=np.int64)
        inner = np.ones(len(ids) + len(sizes), dtype=bool)
        inner[ends - 1] = False
        flat = np.full(len(inner), EOS, dtype=self._ids.dtype)
        flat[inner] = ids
        self._ids.append(flat)
        self._offsets.append(ends + self._end)
        self._end += len(flat)

    def __enter__(self) -> TokenWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ids.__exit__(kind, error, trace)
        self._offsets.__exit__(kind, error, trace)
