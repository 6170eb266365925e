"""N-grams of padded id tensors, compared where they stand.

Sequences are int64, right-padded, and a negative id means "no token". Nothing is hashed or packed: two n-grams are the
same where all their tokens are, so the counts are exact for any vocabulary, and every shape is known beforehand. The
price is one T x S matrix of booleans for each pair of sequences.

`matches` counts in C on a CPU, where the native library is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.native import ngrams as native_ngrams

FUSED = 4
"""The longest n-grams that the kernels count (`seqsmooth.ops.kernels.ngrams`)."""
_CACHE = 2**18
"""Bytes of T x S matrices at a time, on the CPU."""


def in_portions(
    score: Callable[[Tensor, Tensor], Tensor],  # of (B', L, T'), (B', R, S'): (B', L, ...)
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
) -> Tensor:  # (B, L, ...)
    """Score a batch on the CPU by rows of like length, as many at a time as stay in its cache, without their padding.

    Elsewhere all at once: there the shapes must not depend on the values, and there is no such cache.
    """
    if not (checks.visible(candidates) and checks.visible(references) and candidates.numel()):
        return score(candidates, references)
    longest = torch.maximum(lengths(candidates).amax(-1), lengths(references).amax(-1))
    order = longest.argsort()
    each = candidates.shape[1] * references.shape[1] * int(longest.square().sum()) // len(longest)
    rows = max(1, _CACHE // max(1, each))
    parts = [order[first : first + rows] for first in range(0, len(order), rows)]
    scores = torch.cat([score(_trim(candidates[part]), _trim(references[part])) for part in parts])
    return scores[order.argsort()]


def _trim(
    ids: Tensor,  # (..., T)
) -> Tensor:  # (..., T')
    return ids[..., : int((ids >= 0).flatten(0, -2).any(0).sum())]


def lengths(
    ids: Tensor,  # (..., T)
) -> Tensor:  # (...)
    """Count the tokens of each sequence."""
    return (ids >= 0).sum(-1)


def matches(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
    order: int,
) -> Tensor:  # (B, L, order)
    """Count the n-grams of each length that match, each as often as the reference richest in it has it."""
    if native_ngrams.fit(candidates, references, order):
        return native_ngrams.matches(candidates, references, order)

    def count(some: Tensor, others: Tensor) -> Tensor:
        shared = counts(some[:, :, None], others[:, None], order)
        ranks = ordinals(some, order)
        clipped = [(rank > 0) & (rank <= most.amax(2)) for rank, most in zip(ranks, shared, strict=True)]
        return torch.stack([part.sum(-1) for part in clipped], -1)

    return in_portions(count, candidates, references)


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
