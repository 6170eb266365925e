"""Word vectors on disk, in the text format of GloVe and word2vec."""

from __future__ import annotations

import gzip
import os
from collections.abc import Container
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from seqsmooth.files.atomic import atomic_write
from seqsmooth.files.reading import read_lines
from seqsmooth.ops import checks
from seqsmooth.text.vocabulary import EOS, SPECIALS, Vocabulary


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words, and a vector for each.

    Examples:
        >>> vectors = WordVectors(("dog", "cat", "sun"), torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.0, 1.0]]))
        >>> [word for word, cosine in vectors.nearest("dog", 2)]
        ['cat', 'sun']
        >>> from seqsmooth.text import WordCounts
        >>> values, known = vectors.align(WordCounts.of([["dog", "fish"]]).vocabulary(min_count=1))
        >>> values.shape, int(known.sum())  # neither "fish" nor the special tokens have a vector
        (torch.Size([6, 2]), 1)
    """

    words: tuple[str, ...]
    values: Tensor  # (N, d)

    def __post_init__(self) -> None:
        checks.floats("values", self.values)
        checks.shape("values", self.values, len(self.words), None, letters="(N, d)")

    def align(self, vocabulary: Vocabulary, *, eos: bool = True) -> tuple[Tensor, Tensor]:  # (V, d), (V,) bool
        """Return the vectors of a vocabulary, zero where there is none, and which words have one.

        PAD, BOS and UNK never have one; EOS has one if `eos` and there is a vector of the name `<eos>`.
        """
        places = {word: place for place, word in reversed(list(enumerate(self.words)))}
        wanted = [-1] * len(SPECIALS) + [places.get(word, -1) for word in vocabulary.words[len(SPECIALS) :]]
        if eos:
            wanted[EOS] = places.get(SPECIALS[EOS], -1)
        chosen = torch.tensor(wanted)
        known = chosen >= 0
        table = self.values.new_zeros(len(vocabulary), self.values.shape[1])
        table[known] = self.values[chosen[known]]
        return table, known

    def nearest(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """Return the words of the greatest cosine, each with its cosine."""
        checks.must(word in self.words, "word", "one that has a vector", repr(word))
        place = self.words.index(word)
        cosines = F.cosine_similarity(self.values, self.values[place], dim=1)
        cosines[place] = -2
        best = cosines.topk(min(count, len(self.words) - 1))
        return [(self.words[i], cosine) for i, cosine in zip(best.indices.tolist(), best.values.tolist(), strict=True)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `word x_1 ... x_d` lines, `.gz` or not, whole or not at all; float32 comes back as it was."""
        for word in self.words:
            checks.must(word != "" and word.split() == [word], "words", "without white space", repr(word))
        with atomic_write(path) as whole:
            packed = os.fspath(path).endswith(".gz")  # without a name or a time: equal vectors are equal bytes
            with gzip.GzipFile("", "wb", fileobj=whole, mtime=0) if packed else nullcontext(whole) as file:
                for word, row in zip(self.words, self.values.tolist(), strict=True):
                    file.write(f"{word} {' '.join(map('%.9g'.__mod__, row))}\n".encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], only: Container[str] | None = None) -> WordVectors:
        """Read vectors; of a word that is there twice, the first.

        Args:
            path: lines of a word and its numbers, `.gz` or not; a first line of two whole numbers, as word2vec writes
                it, is skipped.
            only: leave out the words that are not in it, a `Vocabulary` for example, which saves time and memory.
        """
        rows: dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]] = {}
        dim = promised = 0
        for number, line in enumerate(read_lines(path, "path"), 1):
            try:
                text = line.rstrip()
                if number == 1 and _is_header(text):
                    promised, dim = map(int, text.split(" "))
                    continue
                dim = dim or text.count(" ")
                word, *values = text.rsplit(" ", dim)  # from the right: some published words contain a space
                if not values or len(values) != dim or not word:
                    raise ValueError(f"it has {len(values)} numbers")
                if word in rows or (only is not None and word not in only and word != SPECIALS[EOS]):
                    promised -= 1
                    continue
                rows[word] = np.array(values, dtype=np.float32)
                if not np.isfinite(rows[word]).all():
                    raise ValueError("not all of them are finite")
            except ValueError as error:
                rule = f"a text file of words and {dim or 'their'} numbers each"
                raise ValueError(f"`path` must be {rule}, but line {number} of {path} is not.") from error
        checks.must(dim > 0, "path", "a file of word vectors", f"{path}, which is empty")
        checks.must(promised <= len(rows), "path", "a whole file, as its first line says", f"{path}, cut short")
        return cls(tuple(rows), torch.from_numpy(np.stack(list(rows.values()))) if rows else torch.zeros(0, dim))


def _is_header(line: str) -> bool:
    parts = line.split(" ")
    return len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts) and int(parts[1]) > 0
