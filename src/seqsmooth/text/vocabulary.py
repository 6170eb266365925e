"""Words and their ids."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.reading import read_record
from seqsmooth.ops import checks
from seqsmooth.smoothing import Specials
from seqsmooth.text.pieces import join, mark_of

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
_KIND = "seqsmooth vocabulary 1"


@dataclass(frozen=True)
class Vocabulary:
    """A list of words, each with its count; the place of a word is its id.

    The special tokens come first: PAD 0, BOS 1, EOS 2, UNK 3. Their names have no meaning in text: there, `<pad>` is a
    word that is not known.

    Attributes:
        words: the special tokens, then the words, the most frequent first.
        counts: how often each occurs; BOS and EOS once a sentence, UNK as often as the words left out, PAD never.
        min_count: the count below which words were left out.
        tokeniser: the signature of the tokeniser that made the words; empty where it is not known.

    Examples:
        >>> vocabulary = Vocabulary.build({"a": 7, "dog": 5, "okapi": 1}, sentences=6)
        >>> vocabulary.encode(["a", "okapi"], eos=True)
        [4, 3, 2]
        >>> vocabulary.decode([1, 4, 5, 2, 0])
        ['a', 'dog']
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    min_count: int = 1
    tokeniser: str = ""
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        """Show the size, not the words.

        Examples:
            >>> Vocabulary.build({"a": 7, "dog": 5}, sentences=6)
            Vocabulary(6 words, min_count=5, tokeniser='')
        """
        return f"Vocabulary({len(self.words):,} words, min_count={self.min_count}, tokeniser={self.tokeniser!r})"

    def __post_init__(self) -> None:
        named = self.words[: len(SPECIALS)]
        checks.must(named == SPECIALS, "words", f"a list that starts with {' '.join(SPECIALS)}", " ".join(named))
        same = len(self.words) == len(self.counts)
        checks.must(same, "counts", f"one for each of the {len(self.words)} words", f"{len(self.counts)} of them")
        checks.must(min(self.counts) >= 0, "counts", "0 or more everywhere", "negative somewhere")
        ids = {word: place for place, word in enumerate(self.words)}
        checks.must(len(ids) == len(self.words), "words", "all different", "the same word twice")
        for name in SPECIALS:
            del ids[name]
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def build(
        cls,
        counts: Mapping[str, int],
        sentences: int,
        *,
        min_count: int = 5,
        most_words: int | None = None,
        tokeniser: str = "",
        others: int = 0,
    ) -> Vocabulary:
        """Keep the words that occur often enough.

        Args:
            counts: how often each word occurs.
            sentences: in how many sentences, which is the count of EOS.
            min_count: keep words that occur at least so often; the paper keeps captions' words from 5 on.
            most_words: keep no more than so many, the most frequent; among equals the alphabet decides.
            tokeniser: the signature of the tokeniser that made the words.
            others: how often words occur that `counts` leaves out: they are UNK, too.
        """
        checks.at_least("min_count", min_count, 1)
        checks.at_least("sentences", sentences, 0)
        if most_words is not None:
            checks.at_least("most_words", most_words, 1)
        frequent = [(word, n) for word, n in counts.items() if n >= min_count and word not in SPECIALS]
        frequent.sort(key=lambda pair: (-pair[1], pair[0]))
        frequent = frequent[:most_words]
        left_out = sum(counts.values()) - sum(n for _, n in frequent) + others
        words = (*SPECIALS, *(word for word, _ in frequent))
        return cls(words, (0, sentences, sentences, left_out, *(n for _, n in frequent)), min_count, tokeniser)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """Return the id of a word, UNK where it is not known."""
        return self._ids.get(word, UNK)

    def specials(self) -> Specials:
        """Return the special tokens, as losses take them."""
        return Specials(pad=PAD, bos=BOS, eos=EOS, unk=UNK)

    def encode(
        self, tokens: Sequence[str], *, bos: bool = False, eos: bool = False, max_words: int | None = None
    ) -> list[int]:
        """Return the ids of the words of a sentence.

        Args:
            tokens: the words.
            bos: whether BOS comes before them.
            eos: whether EOS comes after them.
            max_words: cut the sentence after so many words (the paper: 16 in captions); EOS still comes after them.
        """
        ids = self._ids
        inner = [ids.get(word, UNK) for word in (tokens if max_words is None else tokens[:max_words])]
        return [*[BOS] * bos, *inner, *[EOS] * eos]

    def encode_all(
        self, sentences: Iterable[Sequence[str]], *, eos: bool = False, unk: bool = True
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of all sentences in one row, and where each starts (and the last ends).

        Args:
            sentences: the words of each; an iterator will do.
            eos: whether EOS comes after each.
            unk: whether a word that is not known is UNK, or is left out.
        """
        find = self._ids.get
        sizes: list[int] = [0]
        end = (EOS,) if eos else ()

        def ids() -> Iterable[int]:
            for sentence in sentences:
                inner = [find(word, UNK) for word in sentence]
                if not unk:
                    inner = [word for word in inner if word != UNK]
                sizes.append(len(inner) + len(end))
                yield from chain(inner, end)

        flat = np.fromiter(ids(), dtype=np.int32)
        return flat, np.cumsum(np.array(sizes, dtype=np.int64))

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens of a sentence: up to EOS, without BOS and PAD."""
        tokens: list[str] = []
        for token in ids:
            checks.must(0 <= token < len(self.words), "ids", f"ids in [0, {len(self.words)})", token)
            if token == EOS:
                break
            if token not in (PAD, BOS):
                tokens.append(self.words[token])
        return tokens

    def join(self, tokens: Sequence[str]) -> list[str]:
        """Return the words of a sentence as it is scored and shown: pieces of a subword tokeniser are put together."""
        return join(tokens, self._mark)

    def sentence(self, ids: Iterable[int]) -> list[str]:
        """Return the words of a sentence of ids: decoded and joined."""
        return self.join(self.decode(ids))

    def frequencies(self) -> Tensor:  # (V,) int64
        """Return the counts, as `Similarity` takes them."""
        return torch.tensor(self.counts)

    @cached_property
    def _mark(self) -> str:
        return mark_of(self.tokeniser)

    @property
    def of_pieces(self) -> bool:
        """Whether tokens are pieces of words."""
        return self._mark != ""

    @cached_property
    def checksum(self) -> str:
        """A hash of the words and their order: two vocabularies of one checksum give the same ids."""
        return hashlib.sha256(json.dumps(self.words).encode()).hexdigest()[:16]

    def signature(self) -> str:
        """Name this vocabulary exactly, in one line."""
        return f"words:{len(self)}|min:{self.min_count}|tok:{self.tokeniser or 'unknown'}|sha:{self.checksum}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole or not at all."""
        value = {
            "kind": _KIND,
            "checksum": self.checksum,
            "tokeniser": self.tokeniser,
            "min_count": self.min_count,
            "words": self.words,
            "counts": self.counts,
        }
        with atomic_write_text(path) as file:
            json.dump(value, file, ensure_ascii=False, indent=0)
            file.write("\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read what `save` wrote."""

        def parse(value: Any) -> Vocabulary:
            words = tuple(str(word) for word in value["words"])
            counts = tuple(int(n) for n in value["counts"])
            vocabulary = cls(words, counts, int(value["min_count"]), str(value["tokeniser"]))
            if vocabulary.checksum != value["checksum"]:
                raise ValueError("its words are not those that were written")
            return vocabulary

        return read_record(path, parse, "a file written by `Vocabulary.save`", name="path", kind=_KIND)
