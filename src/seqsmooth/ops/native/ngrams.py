"""N-grams of candidates and references in C: `ngrams.c`, the twin of `seqsmooth.ops.ngrams` for the CPU."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from ctypes import c_double, c_int64, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import native
from seqsmooth.ops.dispatch import uses_native
from seqsmooth.ops.native import threads

MOST_ORDER = 8
"""The longest n-grams."""
MOST = 2**30
"""N-grams of one item."""
MOST_COUNTS = 2**24
"""N-grams of one item times its references, each of which has a count of its own for CIDEr-D: 64 MiB a thread."""
LARGE = 2**22
"""Ids from here on are searched for."""


class _Order(ctypes.Structure):
    _fields_ = (("keys", c_void_p), ("counts", c_void_p), ("starts", c_void_p), ("size", c_int64))


class _Ngrams(ctypes.Structure):
    _fields_ = (
        ("items", c_int64),
        ("candidates", c_int64),
        ("steps", c_int64),
        ("references", c_int64),
        ("their_steps", c_int64),
        ("order", c_int64),
        ("ids", c_void_p),
        ("their_ids", c_void_p),
        ("documents", c_void_p),
        ("words", c_int64),
        ("greatest", c_int64),
        ("squares", c_void_p),
        ("sigma", c_double),
        ("scores", c_void_p),
        ("matches", c_void_p),
        ("threads", c_int64),
        ("parallel", c_void_p),
    )


@dataclass(frozen=True, eq=False)
class Documents:
    """In how many documents n-grams are, as C looks them up."""

    keys: tuple[Tensor, ...]
    """Each (N_n + 1,) int64, those of `DocumentFrequencies`."""
    counts: tuple[Tensor, ...]
    """Each (N_n + 1,) int32."""
    starts: tuple[Tensor | None, ...]
    """Where the n-grams with the same first n-1 words begin, (N_{n-1} + 1,) int64; of words, those from each id on."""
    squares: Tensor
    """The squared weight of an n-gram, by how many documents contain it, float64."""
    greatest: int
    """The greatest id of a word."""

    @classmethod
    def of(cls, keys: Sequence[Tensor], counts: Sequence[Tensor], squares: Tensor) -> Documents:
        """Find where n-grams with the same first words begin."""
        keys = tuple(key.to(torch.int64).contiguous() for key in keys)  # as C reads them
        ids = keys[0][:-1]
        greatest = int(ids[-1]) if len(ids) else -1
        starts: list[Tensor | None] = [None]
        if greatest < LARGE:
            starts = [torch.searchsorted(ids, torch.arange(greatest + 2, device=ids.device))]
        for before, key in itertools.pairwise(keys):
            each = torch.bincount(key[:-1] // len(keys[0]), minlength=len(before) - 1)
            starts.append(F.pad(each.cumsum(0), (1, 0)))
        return cls(
            keys, tuple(count.to(torch.int32).contiguous() for count in counts), tuple(starts), squares, greatest
        )


def fit(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
    order: int,
    *,
    apart: bool = False,
) -> bool:
    """Whether C counts these n-grams; `apart` if for each reference."""
    if order > MOST_ORDER or not uses_native(candidates, references, dtype=torch.int64):
        return False
    count = (candidates[:1].numel() + references[:1].numel()) * order
    return count * references.shape[1] < MOST_COUNTS if apart else count < MOST


def cider(
    candidates: Tensor,  # (B, L, T) int64, right-padded with negative numbers
    references: Tensor,  # (B, R, S) int64, likewise
    documents: Documents,
    sigma: float,
) -> Tensor:  # (B, L) float64
    """CIDEr-D."""
    scores = torch.empty(candidates.shape[:2], dtype=torch.float64, device="cpu")
    listed = [
        _Order(key.data_ptr(), count.data_ptr(), None if start is None else start.data_ptr(), len(key) - 1)
        for key, count, start in zip(documents.keys, documents.counts, documents.starts, strict=True)
    ]
    orders = (_Order * len(listed))(*listed)
    known = ctypes.addressof(orders), len(documents.keys[0]), documents.greatest, documents.squares.data_ptr()
    how = *known, sigma, scores.data_ptr(), None
    _run(candidates, references, len(listed), how)
    return scores


def matches(
    candidates: Tensor,  # (B, L, T) int64, right-padded with negative numbers
    references: Tensor,  # (B, R, S) int64, likewise
    order: int,
) -> Tensor:  # (B, L, order) int64
    """How many n-grams of each length match, each as often as the reference richest in it has it."""
    found = torch.empty((*candidates.shape[:2], order), dtype=torch.int64, device="cpu")
    _run(candidates, references, order, (None, 0, 0, None, 0.0, None, found.data_ptr()))
    return found


def _run(candidates: Tensor, references: Tensor, order: int, how: tuple[int | float | None, ...]) -> None:
    library = native.library()
    assert library is not None
    ours, theirs = candidates.contiguous(), references.contiguous()
    given = _Ngrams(
        *(*ours.shape, *theirs.shape[1:], order, ours.data_ptr(), theirs.data_ptr(), *how),
        *(torch.get_num_threads(), threads.parallel()),
    )
    if library.seqsmooth_ngrams(ctypes.byref(given)):
        raise MemoryError(f"There is no memory for the n-grams of items of shape {tuple(ours.shape[1:])}.")
