"""The heart: cross entropy of logits against a soft target, c lse(z) - <q, z> = - <q, ln p>, in plain torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.precision import finest
from seqsmooth.ops.soft_target import IGNORED, SoftTarget
from seqsmooth.ops.tables import masked_dot

Reduction = Literal["mean", "sum", "none"]
REDUCTIONS: tuple[Reduction, ...] = ("mean", "sum", "none")


class RowLosses(NamedTuple):
    """What one pass over the logits gives for each of N rows."""

    smoothed: Tensor
    """(N,) - <q, ln p> - w H(p); exactly 0 where the target is empty."""
    nll: Tensor
    """(N,) -ln p(label), without gradient; 0 where the label is empty."""


def cross_entropy(
    logits: Tensor,  # (..., V)
    target: SoftTarget | Tensor,  # of shape (...)
    *,
    ignore_index: int = IGNORED,
    reduction: Reduction = "mean",
    num_items: Tensor | float | None = None,
) -> Tensor:
    """Cross entropy - sum_v q(v) ln p(v) against any soft target.

    With labels, or a target of one slot of weight 1, this is `torch.nn.functional.cross_entropy`. It differs where that
    one gives NaN: a mean over nothing is 0, logits of ignored positions may hold anything, and a target that gives no
    mass to a token does not mind that token's logit being minus infinity. Half-precision logits are summed in fp32.

    Args:
        logits: scores, of any float type.
        target: a `SoftTarget`, or plain labels.
        ignore_index: the id of an empty slot (or label).
        reduction: "mean" over the positions kept, "sum", or "none" (shape ...).
        num_items: what "mean" divides by instead: the number of targets of the whole step, when this call sees only one
            of its micro-batches.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0, 0.0]])
        >>> target = SoftTarget(torch.tensor([[0, 1]]), torch.tensor([[0.9, 0.1]]))
        >>> round(cross_entropy(logits, target).item(), 4)
        0.4395
    """
    checks.whole("ignore_index", ignore_index)
    target = as_target(target)
    check_positions("logits", logits, target, "V")
    target.check(logits.shape[-1], ignore_index, name="logits")
    flat = target.flatten()
    losses = row_losses(logits.reshape(-1, logits.shape[-1]), flat, ignore_index=ignore_index)
    return reduce(losses.smoothed.reshape(target.shape), flat.kept(ignore_index), reduction, num_items)


def row_losses(
    logits: Tensor,  # (N, V)
    target: SoftTarget,  # of shape (N,)
    *,
    labels: Tensor | None = None,  # (N,) for the unsmoothed NLL
    entropy_weights: Tensor | None = None,  # (N,) weight of H(p), subtracted
    ignore_index: int = IGNORED,
) -> RowLosses:
    """Cross entropy, entropy and NLL of each row; arguments are taken as checked."""
    kept = target.kept(ignore_index)
    settled = target.settle(ignore_index)
    # Overwriting ignored rows, rather than multiplying them by 0, keeps their NaN and inf out of the gradient too.
    masked = logits.masked_fill(~kept.unsqueeze(-1), 0)
    log_probs = masked.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    chosen = log_probs.gather(-1, settled.ids)
    smoothed = -masked_dot(settled.weights.to(log_probs.dtype), chosen)
    for row in settled.rows:
        smoothed = smoothed - row.table.dot(log_probs, row.index, row.weights)
    if entropy_weights is not None:
        entropy = -masked_dot(log_probs.exp(), log_probs)
        smoothed = smoothed - entropy_weights.to(log_probs.dtype) * entropy
    return RowLosses(smoothed.masked_fill(~kept, 0), _nll(log_probs.detach(), labels, ignore_index))


def as_target(target: SoftTarget | Tensor) -> SoftTarget:
    """Labels as a soft target; a soft target as it is."""
    if isinstance(target, SoftTarget):
        return target
    checks.must(isinstance(target, Tensor), "target", "a SoftTarget or a tensor of labels", checks.described(target))
    checks.integers("target", target)
    return SoftTarget.from_labels(target, dtype=finest(target.device))


def check_positions(name: str, values: Tensor, target: SoftTarget, last: str) -> None:
    """Check scores or states (..., `last`) against the positions of a target."""
    checks.floats(name, values)
    lead = "".join(f"{size}, " for size in target.shape)
    fits = values.dim() >= 1 and values.shape[:-1] == target.shape
    checks.must(fits, name, f"of shape ({lead}{last}), as the target", tuple(values.shape))
    checks.device(name, values, target.ids.device)


def check_divisor(reduction: Reduction, num_items: Tensor | float | None) -> None:
    """Check how losses are reduced."""
    checks.one_of("reduction", reduction, REDUCTIONS)
    if num_items is None:
        return
    checks.must(reduction == "mean", "num_items", f"left out with reduction={reduction!r}", num_items)
    if isinstance(num_items, Tensor):
        checks.must(not num_items.is_complex(), "num_items", "a real number", num_items.dtype)
        checks.must(num_items.numel() == 1, "num_items", "a single number", f"of shape {tuple(num_items.shape)}")
        if checks.visible(num_items):
            checks.must(bool(num_items > 0), "num_items", "greater than 0", num_items.item())
    else:
        checks.positive("num_items", num_items)


def reduce(
    losses: Tensor,  # (...)
    kept: Tensor,  # (N,) bool
    reduction: Reduction,
    num_items: Tensor | float | None,
) -> Tensor:
    """Sum, mean over what is kept (or over `num_items`), or nothing."""
    check_divisor(reduction, num_items)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / divisor(kept.sum(), num_items)


def divisor(count: Tensor, num_items: Tensor | float | None) -> Tensor | float:
    """What a mean divides by: the number of positions, 1 where there are none, or what the caller says."""
    if num_items is None:
        return count.clamp_min(1)
    return num_items.reshape(()) if isinstance(num_items, Tensor) else num_items


def _nll(log_probs: Tensor, labels: Tensor | None, ignore_index: int) -> Tensor:
    if labels is None:
        return log_probs.new_zeros(log_probs.shape[0])
    empty = labels == ignore_index
    return -log_probs.gather(-1, labels.masked_fill(empty, 0).unsqueeze(-1)).squeeze(-1).masked_fill(empty, 0)
