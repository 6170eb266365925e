"""In how many documents each n-gram occurs."""

from __future__ import annotations

import os
import struct
import zipfile
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.files.atomic import atomic_write
from seqsmooth.files.paths import check_source
from seqsmooth.ops import checks, hash_table

_Ints = NDArray[np.int64]
KIND = "seqsmooth document frequencies 1"
_DAMAGE = (AttributeError, EOFError, KeyError, RuntimeError, TypeError, ValueError, struct.error, zipfile.BadZipFile)
LAST = torch.iinfo(torch.int64).max


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class DocumentFrequencies:
    """The document frequencies of n-grams, as CIDEr weights them (Vedantam et al. 2015, Eq. 1).

    A document is the set of references of one image (or source sentence), and an n-gram counts once for each document
    that contains it. The n-grams form a trie, one sorted array of keys for each order: the key of a word is its id, and
    the key of an n-gram is the place of its first n-1 words in the array before, times the size of the first array,
    plus the place of its last word there. So keys are exact and small for any vocabulary, and one binary search for
    each order finds an n-gram.

    Attributes:
        documents: the number of documents.
        keys: for each order the sorted keys, and after them one that is greater than all.
        counts: for each order the number of documents that contain the n-gram, and 0 for that last key.

    Examples:
        >>> frequencies = DocumentFrequencies.build([[[4, 5], [4, 6]], [[4, 7]]], order=2)  # two images
        >>> words, bigrams = frequencies.lookup(torch.tensor([4, 5, 9]))
        >>> words.tolist(), bigrams.tolist()  # in how many documents each n-gram is
        ([2, 1, 0], [1, 0])
    """

    documents: int
    keys: tuple[Tensor, ...]  # each (N_n + 1,) int64
    counts: tuple[Tensor, ...]  # each (N_n + 1,) int32

    @property
    def order(self) -> int:
        """The length of the longest n-grams counted."""
        return len(self.keys)

    @classmethod
    def build(cls, documents: Iterable[Sequence[Sequence[int]]], order: int = 4) -> DocumentFrequencies:
        """Count the n-grams of all lengths up to `order`.

        Args:
            documents: documents of captions of token ids; a negative id means "no token". An iterator will do: each
                document is looked at once.
            order: the length of the longest n-grams.
        """
        checks.at_least("order", order, 1)
        ids, caption, document, total = _flatten(documents)
        checks.must(total > 0, "documents", "at least one", "none")
        keys: list[Tensor] = []
        counts: list[Tensor] = []
        words = ranks = ids
        for n in range(1, order + 1):
            starts = starts_of(caption, n)
            key = ids if n == 1 else ranks[starts] * keys[0].numel() + words[starts + n - 1]
            distinct, count, place = count_keys(key, document[starts])
            # The place of the n-gram that starts at each position; where none does, nobody asks.
            ranks = np.zeros_like(ids)
            ranks[starts] = place
            words = ranks if n == 1 else words
            keys.append(torch.from_numpy(np.append(distinct, LAST)))
            counts.append(torch.from_numpy(np.append(count, 0).astype(np.int32)))
        return cls(total, tuple(keys), tuple(counts))

    def lookup(
        self,
        ids: Tensor,  # (..., T) int64
    ) -> list[Tensor]:  # for n = 1..order: (..., T-n+1)
        """Find the number of documents that contain the n-gram at each position, 0 where there is none."""
        return lookup(ids, self.keys, self.counts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole or not at all: what was at `path` before stays until the new file is complete."""
        arrays: dict[str, Any] = {"kind": KIND, "documents": self.documents, "order": self.order}
        arrays |= {f"keys_{n}": key.numpy() for n, key in enumerate(self.keys, 1)}
        arrays |= {f"counts_{n}": count.numpy() for n, count in enumerate(self.counts, 1)}
        with atomic_write(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DocumentFrequencies:
        """Read what `save` wrote; nothing in the file is executed."""
        path = check_source("path", path)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                if str(stored["kind"]) != KIND:
                    raise ValueError(f"it is of the kind {str(stored['kind'])!r}")
                documents, order = int(stored["documents"]), int(stored["order"])
                keys = tuple(_column(stored, f"keys_{n}", np.int64) for n in range(1, order + 1))
                counts = tuple(_column(stored, f"counts_{n}", np.int32) for n in range(1, order + 1))
                if not (keys and documents > 0 and agree(documents, keys, counts)):
                    raise ValueError("its parts do not agree")
        except _DAMAGE as error:
            rule = "a file written by `DocumentFrequencies.save`"
            raise ValueError(f"`path` must be {rule}; {path} is damaged or something else.") from error
        return cls(documents, keys, counts)

    def __repr__(self) -> str:
        ngrams = ", ".join(str(key.numel() - 1) for key in self.keys)
        return f"DocumentFrequencies(documents={self.documents}, order={self.order}, ngrams=[{ngrams}])"


def agree(
    documents: int,
    keys: Sequence[Tensor],  # each (N_n + 1,) int64
    counts: Sequence[Tensor],  # each (N_n + 1,) int32
) -> bool:
    """Whether these are a trie: keys in order, with first words that are there, and no count beyond all documents."""
    before = None
    for key, count in zip(keys, counts, strict=True):
        if key.shape != count.shape or key[-1] != LAST or count[-1] != 0 or int(key[0]) < 0:
            return False
        listed = key[:-1]  # the greatest of which may be `LAST`, too
        if not bool((listed[1:] > listed[:-1]).all()) or int(count.min()) < 0 or int(count.max()) > documents:
            return False
        if before is not None and len(listed) and int(listed[-1]) // len(keys[0]) >= before:
            return False
        before = len(listed)
    return True


def lookup(
    ids: Tensor,  # (..., T) int64
    keys: Sequence[Tensor],  # each (N_n + 1,) int64
    counts: Sequence[Tensor],  # each (N_n + 1,)
) -> list[Tensor]:  # for n = 1..len(keys): (..., T-n+1)
    """Find the counts of all n-grams of `ids` in a trie, 0 where there is none, one order after the other."""
    words = rank = _find(ids, keys[0])
    of_each_order = [counts[0][rank]]
    for n in range(2, len(keys) + 1):
        # Not found is -1: a key from it is negative, or ends in the place after all words; no n-gram has such a key.
        rank = _find(rank[..., :-1] * keys[0].numel() + words[..., n - 1 :], keys[n - 1])
        of_each_order.append(counts[n - 1][rank])
    return of_each_order


def build_hash_table(
    documents: int,
    keys: Sequence[Tensor],  # each (N_n + 1,) int64
    counts: Sequence[Tensor],  # each (N_n + 1,)
) -> Tensor:  # (M, 4) int64
    """Make the hash table that the kernel of CIDEr reads, of a trie that `fits_hash_table`.

    The n-grams of all orders are nodes of one trie, numbered from 1, and 0 is its root. A node is found by the number
    of its parent and the id of its last word, 32 bits each, and holds its own number and its squared weight. The weight
    is written as the bits of a float, which a change of the precision of the module around does not reach.
    """
    words = keys[0][:-1].cpu()
    size = len(words) + 1  # by which the keys of the trie are multiplied
    places, nodes, squares = [words], 1, [weigh(counts[0][:-1].cpu(), documents, torch.float64)]
    for key, count in zip(keys[1:], counts[1:], strict=True):
        parents = nodes + key[:-1].cpu() // size
        nodes += len(places[-1])
        places.append(parents << 32 | words[key[:-1].cpu() % size])
        squares.append(weigh(count[:-1].cpu(), documents, torch.float64))
    bits = torch.cat(squares).float().view(torch.int32).long()  # of numbers that are not negative
    return hash_table.build(torch.cat(places), torch.arange(1, len(bits) + 1) << 32 | bits)


def fits_hash_table(
    keys: Sequence[Tensor],  # each (N_n + 1,) int64
) -> bool:
    """Return whether 31 bits number the n-grams of a trie, and 32 bits its words; reads the keys on the host."""
    greatest = int(keys[0][-2]) if len(keys[0]) > 1 else 0
    return sum(map(len, keys)) < 2**31 and greatest < 2**32


def weigh(
    counts: Tensor,  # (...)
    documents: int,
    dtype: torch.dtype,
) -> Tensor:  # (...)
    """Return the squared weight ln(D / df)^2 of n-grams that so many documents contain."""
    containing = counts.clamp(min=1)
    # log1p: exactly 0 for an n-gram of all documents, and exact near it.
    return torch.log1p((documents - containing).to(dtype) / containing) ** 2


def _find(
    wanted: Tensor,  # (...)
    keys: Tensor,  # (N + 1,)
) -> Tensor:  # (...)
    # The greatest key at the end makes every place valid, and counts 0: so -1, which points there, is "not found".
    place = torch.searchsorted(keys, wanted.contiguous())
    return torch.where(keys[place] == wanted, place, -1)


def _flatten(documents: Iterable[Sequence[Sequence[int]]]) -> tuple[_Ints, _Ints, _Ints, int]:
    # All tokens in one row, with the caption and the document that each belongs to, and the number of documents.
    ids, sizes, captions = array("q"), array("q"), array("q")
    try:
        for document in documents:
            captions.append(len(document))
            for caption in document:
                sizes.append(len(caption))
                ids.extend(caption)
    except (TypeError, OverflowError) as error:
        rule = "an iterable of documents, each a sequence of captions, each a sequence of token ids"
        raise ValueError(f"`documents` must be {rule}; it is something else ({error}).") from error
    flat = np.array(ids, dtype=np.int64)
    caption_of = np.repeat(np.arange(len(sizes)), sizes)
    document_of = np.repeat(np.arange(len(captions)), captions)[caption_of]
    token = flat >= 0
    return flat[token], caption_of[token], document_of[token], len(captions)


def starts_of(caption: _Ints, n: int) -> _Ints:
    """Find the tokens that an n-gram starts at, where `caption` says which caption each token belongs to."""
    return np.flatnonzero(caption[: max(0, caption.size - n + 1)] == caption[n - 1 :])


def count_keys(key: _Ints, document: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Return the distinct keys, the number of documents that hold each, and the place of every key among them."""
    bits = int(document.max(initial=0)).bit_length()
    if int(key.max(initial=0)).bit_length() + bits < 64:
        order = np.argsort(key << bits | document)  # one sort of numbers, for which processors have instructions
    else:
        order = np.lexsort((document, key))
    key, document = key[order], document[order]
    new_key = np.diff(key, prepend=-1) != 0
    new_document = np.diff(document, prepend=-1) != 0
    group = np.cumsum(new_key) - 1
    place = np.empty_like(order)
    place[order] = group
    return key[new_key], np.bincount(group[new_key | new_document]), place


def _column(stored: Mapping[str, Any], name: str, dtype: type[np.integer[Any]]) -> Tensor:
    values = stored[name]
    if values.dtype != dtype or values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} is not a row of {dtype.__name__}")
    return torch.from_numpy(values)
