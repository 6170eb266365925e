"""Cross entropy from hidden states and the output matrix, a chunk of logits at a time."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from seqsmooth.ops import checks
from seqsmooth.ops.cross_entropy import Reduction, RowLosses, as_target, check_positions, reduce, row_losses
from seqsmooth.ops.soft_target import IGNORED, SoftTarget

CHUNK_ELEMENTS = 2**26
"""Logits in memory at once by default: 256 MiB of fp32."""


def linear_cross_entropy(
    hidden: Tensor,  # (..., D)
    weight: Tensor,  # (V, D)
    target: SoftTarget | Tensor,  # of shape (...)
    *,
    bias: Tensor | None = None,  # (V,)
    ignore_index: int = IGNORED,
    reduction: Reduction = "mean",
    num_items: Tensor | float | None = None,
    chunk: int | None = None,
) -> Tensor:
    """`cross_entropy(hidden @ weight.T + bias, target)` with at most `chunk` rows of logits in memory.

    Gradients are exact: each chunk is computed again in the backward pass.

    Args:
        hidden: last hidden states.
        weight: the output matrix.
        target: a `SoftTarget`, or plain labels.
        bias: the output bias.
        ignore_index: the id of an empty slot (or label).
        reduction: as in `cross_entropy`.
        num_items: as in `cross_entropy`.
        chunk: rows a chunk; by default as many as make 2**26 logits.
    """
    checks.whole("ignore_index", ignore_index)
    target = as_target(target)
    check_head(hidden, weight, bias, target, chunk, ignore_index)
    flat = target.flatten()
    losses = linear_row_losses(
        hidden.reshape(-1, hidden.shape[-1]), weight, flat, bias=bias, ignore_index=ignore_index, chunk=chunk
    )
    return reduce(losses.smoothed.reshape(target.shape), flat.kept(ignore_index), reduction, num_items)


def linear_row_losses(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D)
    target: SoftTarget,  # of shape (N,)
    *,
    bias: Tensor | None = None,  # (V,)
    labels: Tensor | None = None,  # (N,)
    entropy_weights: Tensor | None = None,  # (N,)
    ignore_index: int = IGNORED,
    chunk: int | None = None,
) -> RowLosses:
    """`row_losses` of the head's logits; arguments are taken as checked."""
    rows = chunk or max(1, CHUNK_ELEMENTS // weight.shape[0])
    # Or else an ignored row of NaN would meet its zero gradient in that of the weight.
    hidden = hidden.masked_fill(~target.kept(ignore_index).unsqueeze(-1), 0)

    given = (hidden, weight) if bias is None else (hidden, weight, bias)
    inside_transform = not torch.compiler.is_compiling() and any(checks.transformed(value) for value in given)

    def losses(part: slice) -> RowLosses:
        def compute(states: Tensor, matrix: Tensor, offset: Tensor | None) -> RowLosses:
            return row_losses(
                F.linear(states, matrix, offset),
                target[part],
                labels=None if labels is None else labels[part],
                entropy_weights=None if entropy_weights is None else entropy_weights[part],
                ignore_index=ignore_index,
            )

        # The hooks that compute again in the backward pass are not for torch.func, which keeps its chunks instead.
        if hidden.shape[0] <= rows or not torch.is_grad_enabled() or inside_transform:
            return compute(hidden[part], weight, bias)
        again: RowLosses = checkpoint(
            compute, hidden[part], weight, bias, use_reentrant=False, preserve_rng_state=False
        )
        return again

    parts = [losses(slice(start, start + rows)) for start in range(0, max(hidden.shape[0], 1), rows)]
    return RowLosses(torch.cat([part.smoothed for part in parts]), torch.cat([part.nll for part in parts]))


def check_head(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: SoftTarget,
    chunk: int | None,
    ignore_index: int = IGNORED,
) -> None:
    """Check the parts of a head against each other and against a target."""
    check_positions("hidden", hidden, target, "D")
    checks.must(hidden.shape[-1] >= 1, "hidden", "of one dimension or more", tuple(hidden.shape))
    checks.shape("weight", weight, None, hidden.shape[-1], letters="(V, D)")
    _check_alike("weight", weight, hidden)
    if bias is not None:
        checks.shape("bias", bias, weight.shape[0], letters="(V,)")
        _check_alike("bias", bias, hidden)
    if chunk is not None:
        checks.at_least("chunk", chunk, 1)
    target.check(weight.shape[0], ignore_index, name="weight")


def _check_alike(name: str, value: Tensor, hidden: Tensor) -> None:
    checks.floats(name, value)
    checks.device(name, value, hidden.device)
    if not torch.is_autocast_enabled(hidden.device.type):
        checks.must(value.dtype == hidden.dtype, name, f"of the type of `hidden`, {hidden.dtype}", value.dtype)
