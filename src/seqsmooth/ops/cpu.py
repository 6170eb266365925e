"""What `seqsmooth.ops.fused` asks of a CPU: to pass over rows of logits, and over the logits of a head.

The pass itself is C where the native library was built (`seqsmooth.ops.native.rows`), and else plain torch, a few rows
at a time (`seqsmooth.ops.chunks`).
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops import chunks, dispatch
from seqsmooth.ops.cross_entropy import Job
from seqsmooth.ops.native import rows as native_rows
from seqsmooth.ops.products import add_product, linear, multiply
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.ops.tables import RowTable
from seqsmooth.ops.written import parts_in_memory

EXACT = (torch.float32, torch.float64)
"""Types in which a gradient may be multiplied once more."""
LATER = (torch.float16,)
"""Types in which the share of one row in thousands would be lost: gradients get it with what comes from above."""
CHUNK_ELEMENTS = 2**23 - 2**12
"""Logits of a head in memory at once by default: just below 32 MiB of fp32, the most that malloc hands out again."""
LEAST_ROWS = 256
"""Rows of logits that make good products with the matrix."""

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A job whose positions are in one dimension."""

    job: Job
    scale: float
    """What the gradient of a row is multiplied by: the share of a row in a reduced loss, unless that comes later."""


def fitting(target: SoftTarget) -> bool | None:
    """True; or None where a gradient of the target itself is wanted."""
    if not torch.is_grad_enabled():
        return True
    if target.weights.requires_grad:
        return None
    return None if any(row.weights.requires_grad or _may_be_learned(row.table) for row in target.rows) else True


def prepare(job: Job, parts: bool, logits: Tensor) -> Prepared:
    """Lay out a job for `run`."""
    overwritten = job.inplace and job.reduced
    return Prepared(job.flat(), _scales(job, logits.dtype)[0] if overwritten else _scale(job))


def empty_losses(like: Tensor) -> Pair:  # (N,) each
    """Memory for the losses of rows, and for their unsmoothed NLL."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    smoothed = like.new_empty(like.shape[0], dtype=dtype)
    return smoothed, torch.empty_like(smoothed)


def run(
    prepared: Prepared,
    logits: Tensor,  # (N, V)
    gradient: Tensor | None,  # (N, V)
    results: Pair,  # (N,) each
    upstream: Tensor | None = None,  # (N,)
) -> Tensor:  # (N,) bool
    """Losses of rows, and their gradient where there is a place for it; which rows are kept."""
    job = prepared.job
    kept = logits.new_empty(logits.shape[0], dtype=torch.bool)
    if logits.numel() == 0:
        return kept
    compute = native_rows.run if dispatch.path("cpu") == "native" else chunks.run

    def some(values: Tensor | None, part: slice) -> Tensor | None:
        return None if values is None else values[part]

    rounds = torch.is_autocast_enabled("cpu")  # products to bf16
    with torch.autocast("cpu", enabled=False) if rounds else nullcontext():
        for part, target in parts_in_memory(job.target, logits.shape[1]):
            each = some(job.labels, part), some(job.entropy_weights, part), job.ignore_index, prepared.scale
            place = some(gradient, part), some(upstream, part), (results[0][part], results[1][part]), kept[part]
            compute(target, *each, logits[part], *place)
    return kept


def run_again(prepared: Prepared, logits: Tensor, gradient: Tensor, upstream: Tensor) -> None:
    """Correct the gradient where what came from above is not 1."""
    if bool((upstream == 1).all()):
        return
    if gradient.dtype in EXACT and bool(upstream.isfinite().all()):
        gradient.mul_(upstream if upstream.dim() == 0 else upstream.unsqueeze(-1))
    else:
        run(prepared, logits, gradient, empty_losses(logits), upstream.expand(logits.shape[0]))


def total(losses: Pair, job: Job) -> Pair:
    """Losses of rows, reduced."""
    scale = _scale(job)
    smoothed, nll = ((part.sum(dtype=torch.float64) * scale).to(part.dtype) for part in losses)
    return smoothed, nll


def rescale(gradients: tuple[Tensor | None, ...], upstream: Tensor, job: Job) -> None:
    """Multiply gradients by what came from above, in place."""
    factor = float(upstream)
    for gradient in gradients:
        if gradient is None:
            continue
        scale = factor * _scales(job, gradient.dtype)[1]
        if not math.isfinite(scale):
            gradient.mul_(torch.where(gradient == 0, 1, scale))  # ignored positions have none whatever comes from above
        elif scale != 1:
            gradient.mul_(scale)


def head(
    hidden: Tensor,  # (..., D), of N rows
    weight: Tensor,  # (V, D)
    bias: Tensor | None,  # (V,)
    job: Job,
    chunk: int | None,
    first: None,
    wanted: tuple[bool, ...],
) -> tuple[Pair, tuple[Tensor | None, ...]]:
    """The losses, and the gradients that are wanted, a chunk of logits at a time; ignored positions have none."""
    job.wait()
    shape, vocab_size = hidden.shape, weight.shape[0]
    scale, later = _scales(job, weight.dtype)
    hidden, job = hidden.reshape(-1, shape[-1]), job.flat()
    kept = job.target.kept(job.ignore_index).nonzero().squeeze(-1)
    states = hidden
    if len(kept) < len(hidden):
        states, job = hidden[kept], job[kept]
    count = len(kept)
    most = chunk or max(LEAST_ROWS, CHUNK_ELEMENTS // vocab_size)
    pieces = max(1, math.ceil(count / most))
    rows = math.ceil(count / pieces)
    result = torch.float32 if weight.dtype in LATER else weight.dtype  # which autograd rounds in the end
    wide = torch.promote_types(weight.dtype, torch.float32) if pieces > 2 else result
    for_states = torch.empty_like(states, dtype=result) if wanted[0] else None
    for_weight: Tensor | None = None
    for_bias = weight.new_zeros(vocab_size, dtype=wide) if wanted[2] else None
    losses = empty_losses(states)
    for number in range(pieces):
        part = slice(number * rows, min((number + 1) * rows, count))
        logits = linear(states[part], weight, bias)
        prepared = Prepared(job[part] if pieces > 1 else job, scale)
        run(prepared, logits, logits if any(wanted) else None, (losses[0][part], losses[1][part]))
        if for_states is not None:
            for_states[part] = multiply(logits, weight)
        if wanted[1]:
            for_weight = add_product(for_weight, logits.t(), states[part], wide)
        if for_bias is not None:
            for_bias += logits.sum(0, dtype=wide)
        del logits  # before the next are made
    for_hidden = for_states
    if for_states is not None and count < len(hidden):
        for_hidden = torch.zeros_like(hidden, dtype=result).index_copy_(0, kept, for_states)
    gradients = (
        None if for_hidden is None else for_hidden.view(shape),
        None if for_weight is None else for_weight.to(result).contiguous(),
        None if for_bias is None else for_bias.to(result),
    )
    if later != 1:
        for gradient in gradients:
            if gradient is not None:
                gradient.mul_(later)
    return total(losses, job), gradients


def begin(hidden: Tensor, weight: Tensor, chunk: int | None) -> None:
    """Nothing: a CPU computes no logits while it is busy with targets."""


def _scale(job: Job) -> float:
    if not job.reduced:
        return 1.0
    items = 1.0 if job.items is None else float(job.items)
    return job.factor / (items or 1.0)


def _scales(job: Job, dtype: torch.dtype) -> tuple[float, float]:
    """What a gradient of such a type is multiplied by as it is made, and what by later."""
    scale = _scale(job)
    if dtype not in LATER:
        return scale, 1.0
    part, exponent = math.frexp(scale)
    return part, 2.0**exponent  # which costs no digit


def _may_be_learned(table: RowTable) -> bool:
    """Whether a gradient of a table may be wanted; a table that is not of this package may hide its parameters."""
    ours = type(table).__module__.startswith("seqsmooth.")
    return not ours or any(isinstance(value, Tensor) and value.requires_grad for value in vars(table).values())
