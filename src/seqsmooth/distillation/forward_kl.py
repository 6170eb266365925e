"""Top-k forward KL: how far a student is from a teacher of whom only the best tokens are known."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from seqsmooth.distillation.topk import TopK
from seqsmooth.ops import checks
from seqsmooth.ops.cross_entropy import Reduction, RowLosses, check_divisor, cross_entropy, reduced_job
from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.head import linear_cross_entropy
from seqsmooth.ops.soft_target import TAILS, SoftTarget, Tail

LEAST = -1e30
"""In place of minus infinity, so that a sum over no tokens has a gradient."""


def forward_kl(
    logits: Tensor,  # (..., V); or hidden states (..., D), with `weight`
    store: TopK,  # of shape (...)
    *,
    weight: Tensor | None = None,  # (V, D)
    tail: Tail | Literal["bucket"] = "zero",
    mask: Tensor | None = None,  # (...) bool
    reduction: Reduction = "mean",
    num_items: Tensor | float | None = None,  # ()
) -> Tensor:  # (), or (...) where not reduced
    """sum_v t(v) (ln t(v) - ln p(v)): the cross entropy against `SoftTarget.from_topk`, less the teacher's entropy.

    Its gradient is that of the cross entropy, and of `Teacher` in an objective. Positions of which the store has
    nothing, or that are not in `mask`, count for nothing.

    Args:
        logits: the student's scores. For a temperature T, give `logits / T` and `store.tempered(T)`, and multiply the
            result by T^2.
        store: the teacher.
        weight: the output matrix: logits are then never all in memory.
        tail: "zero", "uniform" or "renormalise", as in `SoftTarget.from_topk`; or "bucket": all tokens that are not
            listed are one outcome, for both. That is never more than the KL of whole distributions, and 0 only where
            the two agree on all that is known. It needs another pass over the logits, in plain torch.
        mask: positions that count.
        reduction: "mean" over the positions kept, "sum", or "none".
        num_items: what "mean" divides by instead, as in `cross_entropy`.

    Examples:
        >>> logits = torch.tensor([[2.0, 1.0, 0.0]])
        >>> teacher = TopK(torch.tensor([[0, 1]]), logits.log_softmax(-1)[:, :2])
        >>> abs(round(forward_kl(logits, teacher, tail="bucket").item(), 4))
        0.0
    """
    checks.one_of("tail", tail, (*TAILS, "bucket"))
    check_divisor(reduction, num_items)
    checks.floats("logits", logits)
    checks.must(logits.dim() >= 1, "logits", "of shape (..., V)", "a scalar")
    checks.must(isinstance(store, TopK), "store", "a TopK, as TopK(ids, logprobs)", checks.describe(store))
    if weight is not None:
        checks.shape("weight", weight, None, logits.shape[-1], letters="(V, D)")
    checks.must(
        weight is None or tail != "bucket", "tail", "one of 'zero', 'uniform', 'renormalise' with `weight`", repr(tail)
    )
    vocab_size = logits.shape[-1] if weight is None else weight.shape[0]
    spread: Tail = "zero" if tail == "bucket" else tail
    target = SoftTarget.from_topk(*store, tail=spread, vocab_size=vocab_size)
    target = target if mask is None else target.where(mask)
    if weight is None:
        losses = cross_entropy(logits, target, reduction="none")
    else:
        losses = linear_cross_entropy(logits, weight, target, reduction="none")
    entropy, kept = store.entropy(tail=spread, vocab_size=vocab_size), target.kept()
    if tail == "bucket" and store.ids.shape[-1] > 0:  # or else no position has any token, and none counts
        losses = losses + _bucket(logits, store, kept)
    losses = (losses - entropy.to(losses.dtype)).masked_fill(~kept, 0)
    return reduced_job(target, reduction, num_items).reduce(RowLosses(losses, losses)).smoothed


def _bucket(logits: Tensor, store: TopK, kept: Tensor) -> Tensor:
    """R (ln r - ln(1 - sum_k p_k)): the part of all tokens that are not listed; r is the teacher's rest."""
    used = store.logprobs > -torch.inf
    wide = widen(logits).masked_fill(~kept.unsqueeze(-1), 0)  # whatever the others hold must not reach the gradient
    # Padding points at a listed token, which is closed anyway.
    best = store.ids.gather(-1, store.logprobs.argmax(-1, keepdim=True))
    rest = wide.scatter(-1, torch.where(used, store.ids, best).clamp_min(0), LEAST).logsumexp(-1)
    # Where every token is listed there is no rest, only rounding.
    share = (1 - store.mass()).clamp_min(0) * (used.sum(-1) < logits.shape[-1])
    return share * (share.clamp_min(1e-38).log() - rest + wide.logsumexp(-1))
