"""N-grams of padded id tensors, compared where they stand.

Sequences are int64, right-padded, and a negative id means "no token". Nothing is hashed or packed: two n-grams are the
same where all their tokens are, so the counts are exact for any vocabulary, and every shape is known beforehand. The
price is one T x S matrix of booleans for each pair of sequences.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from seqsmooth.ops import checks

FUSED = 4
"""The longest n-grams that the kernels count (`seqsmooth.ops.kernels.ngrams`)."""
_CACHE = 2**21
"""Bytes of T x S matrices at a time, on the CPU."""


def portions(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
) -> Iterator[tuple[Tensor, Tensor]]:  # (B', L, T'), (B', R, S')
    """Split a batch on the CPU into rows whose comparisons stay in its cache, less the columns that are all padding.

    Elsewhere it stays whole: there the shapes must not depend on the values, and there is no such cache.
    """
    if not (checks.visible(candidates) and checks.visible(references) and candidates.shape[0]):
        yield candidates, references
        return
    samples, width = candidates.shape[1:]
    number, other = references.shape[1:]
    rows = max(1, _CACHE // max(1, samples * number * width * other))
    for ours, theirs in zip(candidates.split(rows), references.split(rows), strict=True):
        yield _trim(ours), _trim(theirs)


def _trim(
    ids: Tensor,  # (..., T)
) -> Tensor:  # (..., T')
    used = (ids >= 0).flatten(0, -2).any(0)
    return ids[..., : int(used.sum())]


def lengths(
    ids: Tensor,  # (..., T)
) -> Tensor:  # (...)
    """Count the tokens of each sequence."""
    return (ids >= 0).sum(-1)


def counts(
    ids: Tensor,  # (..., T)
    others: Tensor,  # (..., S), broadcastable
    order: int,
) -> list[Tensor]:  # for n = 1..order: (..., T-n+1)
    """Count how often the n-gram that starts at each position of `ids` occurs in `others`.

    Of a sequence with itself these are its term frequencies, one for each occurrence. Where no n-gram starts because
    the sequence is over, the count is 0.
    """
    return _tally(_equal(ids, others), order)


def ordinals(
    ids: Tensor,  # (..., T)
    order: int,
) -> list[Tensor]:  # for n = 1..order: (..., T-n+1)
    """Number the occurrences of each n-gram from left to right: 1 for its first, 2 for its second, 0 for no n-gram.

    Sums over the distinct n-grams become sums over positions: the first occurrences are where this is 1, an
    occurrence survives clipping at m where it is at most m, and the numbers 2k - 1 add up to the squared frequency.
    """
    return _tally(_equal(ids, ids).tril(), order)


def _equal(
    ids: Tensor,  # (..., T)
    others: Tensor,  # (..., S)
) -> Tensor:  # (..., T, S)
    # A different "no token" on each side, for padding must not equal padding.
    left = ids.masked_fill(ids < 0, -1)
    right = others.masked_fill(others < 0, -2)
    return left[..., :, None] == right[..., None, :]


def _tally(
    equal: Tensor,  # (..., T, S)
    order: int,
) -> list[Tensor]:  # for n = 1..order: (..., T-n+1)
    # A row adds up at most S ones; while they fit a byte, adding bytes is several times faster on the CPU.
    narrow = torch.uint8 if equal.shape[-1] < 256 else torch.int64
    same, totals = equal, []
    for n in range(1, order + 1):
        if n > 1:
            same = same[..., :-1, :-1] & equal[..., n - 1 :, n - 1 :]
        totals.append(same.view(torch.uint8).sum(-1, dtype=narrow).long())
    return totals
