"""Vectors of tokens as a similarity law wants them: of norm 1, centred where asked, kinds apart; and their counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.dispatch import widen

Missing = Sequence[int] | Tensor | Literal["zeros"]
MOST_KINDS = 64
APART = 30.0
"""Logarithm of how much less a token of another kind gets than one as similar of its own."""


def unit_rows(
    embeddings: Tensor,  # (V, D)
    missing: Missing,
) -> tuple[Tensor, Tensor]:  # (V, D), (V,)
    """Embeddings of norm 1, and which tokens have one."""
    wide = widen(embeddings)
    size = wide.shape[0]
    checks.must(
        size >= 1 and wide.shape[1] >= 1, "embeddings", "of one token and one dimension or more", tuple(wide.shape)
    )
    norms = torch.linalg.vector_norm(wide, dim=-1)
    if isinstance(missing, str):
        checks.one_of("missing", missing, ("zeros",))
        known = norms != 0
    elif isinstance(missing, Tensor):
        checks.shape("missing", missing, size, letters="(V,)")
        checks.must(missing.dtype == torch.bool, "missing", "a mask (torch.bool) when it is a tensor", missing.dtype)
        known = ~missing.to(wide.device)
    else:
        rule = "a sequence of ids, a mask, or 'zeros'"
        checks.must(isinstance(missing, Sequence), "missing", rule, repr(missing))
        known = torch.ones(size, dtype=torch.bool, device=wide.device)
        for token in missing:
            checks.at_least("missing", token, 0)
            checks.must(token < size, "missing", f"ids below V = {size}", token)
            known[token] = False
    finite = (wide.isfinite().all(-1) & norms.isfinite()) | ~known
    checks.must(bool(finite.all()), "embeddings", "finite", f"NaN or infinite for token {_first(~finite)}")
    zero = (norms == 0) & known
    checks.must(
        not bool(zero.any()),
        "embeddings",
        "of a norm greater than 0 (list tokens without a vector in `missing`, or say missing='zeros')",
        f"all zeros for token {_first(zero)}",
    )
    return wide.masked_fill(~known.unsqueeze(-1), 0) / torch.where(known, norms, 1).unsqueeze(-1), known


def _first(flags: Tensor) -> int:
    return int(flags.int().argmax())


def centre(
    embeddings: Tensor,  # (V, D)
    missing: Missing,
) -> tuple[Tensor, Tensor]:  # (V, D), (V,)
    """Embeddings less their mean over tokens that have one, and a mask of those that have none.

    Learned embeddings share a large common part, which makes every cosine large and tells nothing apart (Mu and
    Viswanath 2018).
    """
    _, known = unit_rows(embeddings, missing)
    wide = widen(embeddings)
    mean = wide.masked_fill(~known.unsqueeze(-1), 0).sum(0) / known.sum().clamp_min(1)
    moved = wide - mean
    # A token that is the mean itself has no direction left.
    return moved, ~known | (moved == 0).all(-1)


def principal(
    embeddings: Tensor,  # (V, D)
    known: Tensor,  # (V,) bool
    rank: int,
) -> Tensor:  # (V, rank)
    """The embeddings along the `rank` directions in which those of known tokens are largest.

    Of all projections these keep inner products best, in the mean over pairs; with `rank` = D they keep them all.
    """
    wide = widen(embeddings).masked_fill(~known.unsqueeze(-1), 0)
    with torch.autocast(wide.device.type, enabled=False):  # which would round the products to bf16
        directions: Tensor = torch.linalg.eigh(wide.T @ wide).eigenvectors  # the largest come last
        return wide @ directions[:, -rank:]


def apart(
    units: Tensor,  # (V, D) of norm 1
    known: Tensor,  # (V,) bool
    kinds: Tensor,  # (V,) int64; a negative one is a token without company
    tau: float,
) -> tuple[Tensor, Tensor, float]:  # (V, D + G) of norm 1, (V,), and what cosines must be multiplied by
    """Vectors whose law exp(cos / tau) stays within a kind of tokens, and which tokens still have one.

    A coordinate for each kind, of weight c^2 = 30 tau, turns cosines into (cos + c^2 [same kind]) / (1 + c^2). Times
    1 + c^2 they are the old ones, and higher by 30 tau within a kind; a softmax does not see what all of them share.
    """
    checks.integers("kinds", kinds)
    checks.shape("kinds", kinds, units.shape[0], letters="(V,)")
    count = int(kinds.max()) + 1
    checks.must(count <= MOST_KINDS, "kinds", f"below {MOST_KINDS}", count - 1)
    square = APART * tau
    own = F.one_hot(kinds.to(units.device).clamp_min(0).long(), max(count, 1)).to(units)
    known = known & (kinds.to(known.device) >= 0)
    longer = torch.cat([units, square**0.5 * own], -1) / (1 + square) ** 0.5
    return longer.masked_fill(~known.unsqueeze(-1), 0), known, 1 + square


def check_counts(
    counts: Tensor | None,  # (V,)
    beta: float,
    units: Tensor,  # (V, D)
) -> Tensor | None:  # (V,)
    """Counts of tokens in the type of their vectors, which a weight `beta` of frequencies needs."""
    if counts is None:
        checks.must(beta == 0, "counts", "given when `beta` is greater than 0", None)
        return None
    checks.shape("counts", counts, units.shape[0], letters="(V,)")
    checks.must(not counts.is_complex(), "counts", "of real numbers", counts.dtype)
    checks.must(bool((counts >= 0).all()), "counts", "0 or more everywhere", "negative or NaN somewhere")
    counts = counts.to(units)
    checks.must(bool(counts.isfinite().all()), "counts", "finite everywhere", "infinite somewhere")
    return counts
