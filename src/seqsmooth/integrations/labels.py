"""The labels of a Trainer's batch, and the number of items by which it divides a loss."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Objective


def require_labels(labels: Tensor | None) -> Tensor:  # (B, T) int64
    """The labels of a batch, which must have some."""
    if labels is None:
        raise ValueError("The batch has no `labels`; name the column so and list it in `label_names`.")
    checks.integers("labels", labels)
    checks.shape("labels", labels, None, None, letters="(B, T)")
    return labels


def check_padding(
    objective: Objective,
    labels: Tensor,  # (B, T)
) -> None:
    """Check that padding is -100: `num_items_in_batch` counts every other label, PAD of the objective included."""
    pad = objective.specials.pad
    if pad is not None:
        reason = "which num_items_in_batch counts and the objective leaves out; pad labels with -100"
        checks.require(not bool((labels == pad).any()), f"The labels hold PAD, {pad}, {reason}.")


def next_labels(
    labels: Tensor,  # (B, T)
) -> Tensor:  # (B, T)
    """The label after each position, -100 after the last. Shifting labels spares the copy that cut logits would be."""
    return F.pad(labels[:, 1:], (0, 1), value=IGNORED)


def item_count(number: Tensor | float | None, like: Tensor) -> Tensor | float | None:
    """`num_items_in_batch` as one number on the device of `like`, 1 in a step without items, whose loss is then 0.

    With several GPUs in one process the Trainer repeats the number, one for each.
    """
    if not isinstance(number, Tensor):
        return None if number is None else max(number, 1)
    return (number.flatten()[0] if number.dim() else number).clamp_min(1).to(like.device)
