"""Cross entropy from hidden states and the output matrix, a chunk of logits at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seqsmooth.ops import checks, dispatch
from seqsmooth.ops.cross_entropy import (
    Job,
    Reduction,
    RowLosses,
    as_target,
    check_positions,
    losses,
    reduced_job,
)
from seqsmooth.ops.products import linear
from seqsmooth.ops.soft_target import IGNORED, SoftTarget

if TYPE_CHECKING:
    from seqsmooth.ops.fused import Engine

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
    num_items: Tensor | float | None = None,  # ()
    chunk: int | None = None,
) -> Tensor:  # (), or (...) where not reduced
    """`cross_entropy(hidden @ weight.T + bias, target)` with at most `chunk` rows of logits in memory.

    Gradients are exact, and computed in the forward pass, chunk by chunk. With `reduction="none"`, for learned targets
    and inside `torch.func` and `torch.compile`, each chunk is computed again in the backward pass.

    Args:
        hidden: last hidden states.
        weight: the output matrix.
        target: a `SoftTarget`, or plain labels.
        bias: the output bias.
        ignore_index: the id of an empty slot (or label).
        reduction: as in `cross_entropy`.
        num_items: as in `cross_entropy`.
        chunk: rows a chunk; by default as many as make 32 MiB of fp32 logits on a CPU (but 256 at least), 1 GiB with
            kernels, and 2**26 logits where they are computed again.

    Examples:
        >>> from seqsmooth import SoftTarget, cross_entropy
        >>> hidden, weight = torch.randn(6, 16), torch.randn(50, 16)
        >>> target = SoftTarget(torch.randint(50, (6, 2)), torch.tensor([0.9, 0.1]).expand(6, 2))
        >>> loss = linear_cross_entropy(hidden, weight, target, chunk=2)  # never more than 2 x 50 logits
        >>> torch.allclose(loss, cross_entropy(hidden @ weight.T, target), rtol=1e-4)
        True
    """
    checks.whole("ignore_index", ignore_index)
    target = as_target(target)
    check_positions("hidden", hidden, target, "D")
    check_head(hidden, weight, bias, chunk)
    target.check(weight.shape[0], ignore_index, name="weight")
    job = reduced_job(target, reduction, num_items, ignore_index=ignore_index)
    result = Head(hidden, weight, bias, chunk).losses(job).smoothed
    return result if job.reduced else result.reshape(target.shape)


class Head:
    """Hidden states and the output layer, from which logits are computed a chunk at a time; used once.

    Args:
        hidden: last hidden states of N positions.
        weight: the output matrix.
        bias: the output bias.
        chunk: rows of logits that may be in memory at once.
        begin: whether to ask for the first logits right now, where kernels run: the GPU computes them while the host
            is busy with targets.
    """

    def __init__(
        self,
        hidden: Tensor,  # (..., D)
        weight: Tensor,  # (V, D)
        bias: Tensor | None,  # (V,)
        chunk: int | None,
        *,
        begin: bool = False,
    ) -> None:
        doubles = hidden.dtype == weight.dtype == torch.float64  # which autocast leaves as they are
        if torch.is_autocast_enabled(hidden.device.type) and not doubles:
            lower = torch.get_autocast_dtype(hidden.device.type)
            hidden, weight = hidden.to(lower), weight.to(lower)
            bias = None if bias is None else bias.to(lower)
        if hidden.dim() != 2 and not hidden.is_contiguous():
            hidden = hidden.reshape(-1, hidden.shape[-1])  # one copy, of which the graph knows
        self.hidden, self.weight, self.bias, self.chunk = hidden, weight, bias, chunk
        self._engine: Engine | None = dispatch.engine(hidden, weight, bias)
        self._first: Any = None
        if begin and self._engine is not None:
            self._first = self._engine.begin(hidden, weight, chunk)

    def losses(self, job: Job) -> RowLosses:
        """`losses` of the logits."""
        first, self._first = self._first, None  # its memory is free again as soon as may be
        engine = self._engine
        if job.reduced and engine is not None and engine.fitting(job.target) is not None:
            given = (self.hidden, self.weight, self.bias, job, self.chunk, first)
            return RowLosses(*dispatch.fused().head_losses(engine, *given))
        del first
        job.wait()
        return job.reduce(_again_in_backward(self.hidden, self.weight, self.bias, job.per_row(), self.chunk))


def _again_in_backward(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    job: Job,
    chunk: int | None,
) -> RowLosses:
    """Losses of rows, each chunk computed once more in the backward pass: for that the losses need not be a sum."""
    hidden = hidden.reshape(-1, hidden.shape[-1])
    rows = chunk or max(1, CHUNK_ELEMENTS // weight.shape[0])
    # Or else an ignored row of NaN would meet its zero gradient in that of the weight.
    hidden = hidden.masked_fill(~job.target.kept(job.ignore_index).view(-1, 1), 0)
    if hidden.shape[0] <= rows:  # with no loop, which a compiler would unroll for this number of rows alone
        return losses(linear(hidden, weight, bias), job)
    job = job.flat()
    given = (hidden, weight) if bias is None else (hidden, weight, bias)
    inside_transform = not torch.compiler.is_compiling() and any(checks.is_transformed(value) for value in given)

    def compute_part(part: slice) -> RowLosses:
        def compute(states: Tensor, matrix: Tensor, offset: Tensor | None) -> RowLosses:
            return losses(linear(states, matrix, offset), job[part])

        # The hooks that compute again in the backward pass are not for torch.func, which keeps its chunks instead.
        if not torch.is_grad_enabled() or inside_transform:
            return compute(hidden[part], weight, bias)
        again: RowLosses = checkpoint(
            compute, hidden[part], weight, bias, use_reentrant=False, preserve_rng_state=False
        )
        return again

    parts = [compute_part(slice(start, start + rows)) for start in range(0, hidden.shape[0], rows)]
    return RowLosses(torch.cat([part.smoothed for part in parts]), torch.cat([part.nll for part in parts]))


def check_head(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    chunk: int | None,
) -> None:
    """Check the parts of a head against each other."""
    checks.floats("hidden", hidden)
    checks.must(hidden.dim() > 0 and hidden.shape[-1] >= 1, "hidden", "of shape (..., D)", tuple(hidden.shape))
    checks.shape("weight", weight, None, hidden.shape[-1], letters="(V, D)")
    checks.must(weight.shape[0] >= 1, "weight", "over 1 token or more", "over 0")
    _check_alike("weight", weight, hidden)
    if bias is not None:
        checks.shape("bias", bias, weight.shape[0], letters="(V,)")
        _check_alike("bias", bias, hidden)
    if chunk is not None:
        checks.at_least("chunk", chunk, 1)


def _check_alike(name: str, value: Tensor, hidden: Tensor) -> None:
    checks.floats(name, value)
    checks.device(name, value, hidden.device)
    if value.dtype != hidden.dtype and not torch.is_autocast_enabled(hidden.device.type):
        raise checks.wrong(name, f"of the type of `hidden`, {hidden.dtype}", value.dtype)
