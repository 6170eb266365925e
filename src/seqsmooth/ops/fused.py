"""One pass over rows of logits in autograd: the gradient is ready when the loss is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.cross_entropy import Job, RowLosses, plain_losses
from seqsmooth.ops.soft_target import SoftTarget

Pair = tuple[Tensor, Tensor]
"""Smoothed loss and NLL: two numbers if the job is reduced, or else two of shape (N,)."""


class Engine(Protocol):
    """What passes over rows of logits: `seqsmooth.ops.kernels.engine` on a GPU, `seqsmooth.ops.cpu` on a CPU.

    The gradient of a reduced job is made for an upstream gradient of 1, and corrected if that was another.
    """

    def fitting(self, target: SoftTarget) -> Any | None:
        """The parts of a target; None where one pass cannot serve it."""

    def begin(self, hidden: Tensor, weight: Tensor, chunk: int | None) -> Any:
        """Ask for the first logits of a head before its targets are known, where that saves time."""

    def prepare(self, job: Job, parts: Any, logits: Tensor) -> Any:
        """What is the same in the forward and in the backward pass; `parts` are from `fitting`."""

    def empty_losses(self, like: Tensor) -> Pair:
        """Memory for the losses of rows."""

    def run(self, prepared: Any, logits: Tensor, gradient: Tensor | None, results: Pair) -> Any:
        """Losses of rows, and their gradient where there is a place for it."""

    def run_again(self, prepared: Any, logits: Tensor, gradient: Tensor, upstream: Tensor) -> None:
        """Correct the gradient where what came from above is not as expected."""

    def total(self, losses: Pair, job: Job) -> Pair:
        """Losses of rows, reduced."""

    def rescale(self, gradients: tuple[Tensor | None, ...], upstream: Tensor, job: Job) -> None:
        """Correct gradients of a reduced job without the logits."""

    def head(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        job: Job,
        chunk: int | None,
        first: Any,
        wanted: tuple[bool, ...],
    ) -> tuple[Pair, tuple[Tensor | None, ...]]:
        """Losses of a reduced job from hidden states, and the gradients that are wanted."""


def row_losses(
    engine: Engine,
    logits: Tensor,  # (..., V), of N rows
    job: Job,
    parts: Any,
) -> Pair:
    """Losses of rows of logits; `parts` are those of the target, from the engine's `fitting`."""
    if not torch.is_grad_enabled():
        logits = logits.detach()  # or else it would ask for a gradient, which is made at once
    if logits.stride(-1) != 1 or not (logits.is_contiguous() if logits.dim() != 2 else _apart(logits, job)):
        logits = logits.reshape(-1, logits.shape[-1]).contiguous()  # one copy, of which the graph knows
    result: Pair = _RowLosses.apply(engine, logits, job, parts)  # type: ignore[no-untyped-call]
    return result


def head_losses(
    engine: Engine,
    hidden: Tensor,  # (..., D), of N rows
    weight: Tensor,  # (V, D)
    bias: Tensor | None,  # (V,)
    job: Job,
    chunk: int | None,
    first: Any = None,
) -> Pair:
    """Losses of a reduced job from hidden states, with at most `chunk` rows of logits in memory.

    `first`, what an engine made of the first chunk already, is used up.
    """
    if not torch.is_grad_enabled():
        hidden, weight, bias = hidden.detach(), weight.detach(), None if bias is None else bias.detach()
    result: Pair = _HeadLosses.apply(engine, hidden, weight, bias, job, chunk, first)  # type: ignore[no-untyped-call]
    return result


class _RowLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, engine: Engine, logits: Tensor, job: Job, parts: Any) -> Pair:
        rows = _in_rows(logits)  # here, where no graph has to hear of it
        ctx.engine, ctx.prepared, ctx.job = engine, engine.prepare(job, parts, rows), job
        wanted = ctx.needs_input_grad[1]
        ctx.overwritten = wanted and job.inplace and job.reduced
        if ctx.overwritten:
            ctx.gradient = rows.detach()
            torch.autograd.graph.increment_version(logits)  # whoever saved the logits for a backward pass gets an error
        else:
            ctx.gradient = rows.new_empty(rows.shape) if wanted else None
        ctx.shape = logits.shape
        ctx.save_for_backward(logits if wanted and not ctx.overwritten else None)
        by_row = engine.empty_losses(rows)
        engine.run(ctx.prepared, rows, ctx.gradient, by_row)
        results = engine.total(by_row, job) if job.reduced else by_row
        ctx.mark_non_differentiable(results[1])
        ctx.set_materialize_grads(False)  # or else zeros would be allocated for that one
        return results

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        if upstream is None:  # as below a function that cuts the graph
            return (None,) * 4
        engine: Engine = ctx.engine
        job: Job = ctx.job
        gradient, ctx.gradient = ctx.gradient, None  # given away: a second pass through the graph makes its own
        if ctx.overwritten:
            once = gradient is not None and not _is_traced(upstream)
            checks.must(once, "inplace", "False for a second backward pass, since the logits are gone", True)
            engine.rescale((gradient,), upstream, job)
            return None, gradient.view(ctx.shape), None, None
        (logits,) = ctx.saved_tensors
        if _is_traced(upstream):
            (again,) = _slopes((logits,), (True,), upstream, lambda: plain_losses(logits, job))
            return None, again, None, None
        rows = _in_rows(logits)
        if gradient is None:
            gradient = rows.new_empty(rows.shape)
            engine.run(ctx.prepared, rows, gradient, engine.empty_losses(rows))
        engine.run_again(ctx.prepared, rows, gradient, upstream)
        return None, gradient.view(ctx.shape), None, None


class _HeadLosses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        engine: Engine,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        job: Job,
        chunk: int | None,
        first: Any,
    ) -> Pair:
        ctx.engine, ctx.job, ctx.chunk = engine, job, chunk
        ctx.wanted = tuple(ctx.needs_input_grad[1:4])
        ctx.save_for_backward(hidden, weight, bias)
        results, ctx.gradients = engine.head(hidden, weight, bias, job, chunk, first, ctx.wanted)
        ctx.mark_non_differentiable(results[1])
        ctx.set_materialize_grads(False)  # or else zeros would be allocated for that one
        return results

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        if upstream is None:
            return (None,) * 7
        engine: Engine = ctx.engine
        job: Job = ctx.job
        if ctx.gradients is not None and not _is_traced(upstream):
            gradients, ctx.gradients = ctx.gradients, None  # given away: a second pass through the graph makes its own
            engine.rescale(gradients, upstream, job)
            return (None, *gradients, None, None, None)
        hidden, weight, bias = ctx.saved_tensors
        if _is_traced(upstream):
            given = hidden, weight, bias
            slopes = _slopes(given, ctx.wanted, upstream, lambda: plain_losses(F.linear(hidden, weight, bias), job))
            return (None, *slopes, None, None, None)
        gradients = engine.head(hidden, weight, bias, job, ctx.chunk, None, ctx.wanted)[1]
        engine.rescale(gradients, upstream, job)
        return (None, *gradients, None, None, None)


def _in_rows(values: Tensor) -> Tensor:  # (N, V)
    """One row a position, without a copy: but hooks of saved tensors may lay them out anew."""
    rows = values if values.dim() == 2 else values.reshape(-1, values.shape[-1])
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def _apart(logits: Tensor, job: Job) -> bool:
    """Whether rows may be written where they are: those of an expanded tensor are the same memory."""
    return not job.inplace or logits.shape[0] < 2 or logits.stride(0) >= logits.shape[1]


def _is_traced(upstream: Tensor) -> bool:
    """Whether the backward pass is itself to be derived, or stands for many (`is_grads_batched`)."""
    return torch.is_grad_enabled() or not torch._C._has_storage(upstream)


def _slopes(
    given: tuple[Tensor | None, ...], wanted: tuple[bool, ...], upstream: Tensor, compute: Callable[[], RowLosses]
) -> tuple[Tensor | None, ...]:
    """The gradients that are wanted, by formulas that autograd can follow."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [value for value, asked in zip(given, wanted, strict=True) if value is not None and asked]
        slopes = iter(torch.autograd.grad(compute()[0], leaves, upstream, create_graph=again))
    return tuple(next(slopes) if asked else None for asked in wanted)
