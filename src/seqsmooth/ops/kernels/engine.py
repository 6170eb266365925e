"""What `seqsmooth.ops.fused` asks of the kernels: to pass over rows of logits, and over the logits of a head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops.cross_entropy import Job
from seqsmooth.ops.kernels import finishing
from seqsmooth.ops.kernels.launching import launch
from seqsmooth.ops.kernels.sizes import blocks
from seqsmooth.ops.kernels.soft_cross_entropy import FOLDED, Prepared, empty_losses, prepare, run, run_again
from seqsmooth.ops.kernels.sorted_target import fitting, sort_parts
from seqsmooth.ops.tables import padded

__all__ = ["Logits", "begin", "empty_losses", "fitting", "head", "prepare", "rescale", "run", "run_again", "total"]

CHUNK_BYTES = 2**30
"""Logits of the head in memory at once, by default."""
ALIGNED = 8
"""Numbers that fast kernels of matrix products read at once."""


@dataclass(frozen=True, eq=False)
class Logits:
    """One buffer for the logits of all chunks, without the bias; that of the first chunk has been asked for.

    Where V is no multiple of `ALIGNED`, cuBLAS takes kernels several times as slow. So products go over the padding,
    too: the kernels leave its logits out and write finite slopes there, and those meet zeros.
    """

    buffer: Tensor  # (rows of a chunk, V and some padding)
    matrix: Tensor  # (V, D), with rows of zeros for the padding where products go over it
    chunks: int

    @classmethod
    def first(
        cls,
        hidden: Tensor,  # (..., D)
        weight: Tensor,  # (V, D)
        chunk: int | None,
    ) -> Logits:
        """The buffer, with the product for the first chunk on its way."""
        hidden, weight = hidden.detach(), weight.detach()  # which takes less of the host's time than `no_grad`
        hidden = hidden.reshape(-1, hidden.shape[-1])
        count, vocab_size = hidden.shape[0], weight.shape[0]
        width = padded(vocab_size)
        most = chunk or max(1, CHUNK_BYTES // (width * hidden.element_size()))
        chunks = max(1, blocks(count, most))
        rows = blocks(count, chunks)
        states = hidden if chunks == 1 else hidden[:rows]
        if width == vocab_size:  # the product makes the buffer: a call less before the GPU has something to do
            return cls(torch.mm(states, weight.T), weight, chunks)
        aligned = vocab_size % ALIGNED == 0
        matrix = weight if aligned else torch.nn.functional.pad(weight, (0, 0, 0, width - vocab_size))
        first = cls(hidden.new_empty(rows, width), matrix, chunks)
        first.compute(states)
        return first

    @property
    def rows(self) -> int:
        """Of a chunk; the last may have fewer."""
        return self.buffer.shape[0]

    def compute(
        self,
        states: Tensor,  # (n, D)
    ) -> None:
        """Overwrite the buffer with the logits of some hidden states."""
        torch.mm(states, self.matrix.T, out=self.view(states.shape[0], self.matrix.shape[0]))

    def view(self, rows: int, columns: int) -> Tensor:  # (rows, columns)
        """A corner of the buffer."""
        if self.buffer.shape == (rows, columns):
            return self.buffer
        return self.buffer.as_strided((rows, columns), (self.buffer.shape[1], 1))


def head(
    hidden: Tensor,  # (..., D), of N rows
    weight: Tensor,  # (V, D)
    bias: Tensor | None,  # (V,)
    job: Job,
    chunk: int | None,
    first: Logits | None,
    wanted: tuple[bool, ...],
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor | None, ...]]:
    """The losses, and the gradients that are wanted, chunk by chunk through one buffer of logits."""
    buffer = first or Logits.first(hidden, weight, chunk)
    shape = hidden.shape
    hidden = hidden.reshape(-1, shape[-1])
    count, vocab_size, most = hidden.shape[0], weight.shape[0], buffer.rows
    # Partial sums in half precision are as good as one for two chunks, and no more.
    wide = buffer.chunks > 2 and hidden.dtype != torch.float32
    for_hidden = torch.empty_like(hidden) if wanted[0] else None
    for_weight: Tensor | None = None
    for_bias: Tensor | None = None
    losses = empty_losses(hidden)
    wide_enough, learns = buffer.matrix.shape[0] == vocab_size, any(wanted)
    for number in range(buffer.chunks):
        part = None if buffer.chunks == 1 else slice(number * most, min((number + 1) * most, count))
        states = hidden if part is None else hidden[part]
        if number > 0:
            buffer.compute(states)
        logits = buffer.view(states.shape[0], vocab_size)
        whole = logits if wide_enough else buffer.view(states.shape[0], buffer.matrix.shape[0])
        job.wait()  # only now, so that targets may still be in the making while the first logits are
        into = logits if learns else None
        if part is None:
            marks = run(_prepared(job, logits), logits, into, losses, bias)
        else:
            job = job.flat()  # once: after that it is
            results = losses[0][part], losses[1][part]
            marks = run(_prepared(job[part], logits), logits, into, results, bias)
        if for_hidden is not None:
            torch.mm(whole, buffer.matrix, out=for_hidden if part is None else for_hidden[part])
        if wanted[1]:
            states = _emptied(states, marks)
            if for_weight is None:
                for_weight = torch.mm(whole.T, states)
                for_weight = for_weight.float() if wide else for_weight
            elif wide:
                for_weight += torch.mm(whole.T, states)
            else:
                for_weight.addmm_(whole.T, states)
        if wanted[2]:
            sums = logits.sum(0, dtype=torch.float32)
            for_bias = sums if for_bias is None else for_bias.add_(sums)
    if for_weight is not None and not wide_enough:
        for_weight = for_weight[:vocab_size]
    gradients = (
        None if for_hidden is None else for_hidden.view(shape),
        None if for_weight is None else for_weight.to(weight.dtype),
        None if for_bias is None or bias is None else for_bias.to(bias.dtype),
    )
    return total(losses, job), gradients


def begin(hidden: Tensor, weight: Tensor, chunk: int | None) -> Logits:
    """Ask for the first logits: the GPU computes them while the host is busy with targets."""
    return Logits.first(hidden, weight, chunk)


def _prepared(job: Job, logits: Tensor) -> Prepared:
    parts = sort_parts(job.target)
    assert parts is not None
    return prepare(job, parts, logits)


def _emptied(states: Tensor, state: Tensor) -> Tensor:
    """Hidden states with those of ignored rows overwritten, for 0 times NaN is not 0."""
    states = states.contiguous()
    clean = torch.empty_like(states)
    if states.numel():
        rows, width = states.shape
        launch(finishing.emptied, (rows,), (states, clean, state, width), {"BLOCK": 2048}, num_warps=4)
    return clean


def total(losses: tuple[Tensor, Tensor], job: Job) -> tuple[Tensor, Tensor]:
    """Losses of rows, reduced."""
    smoothed, nll = losses
    of_smoothed, of_nll = smoothed.new_empty(()), smoothed.new_empty(())
    given = (smoothed, nll, smoothed.shape[0], job.items, job.factor, of_smoothed, of_nll)
    launch(finishing.summed, (1,), given, {"COUNTED": job.items is not None, "BLOCK": 4096}, num_warps=8)
    return of_smoothed, of_nll


def rescale(gradients: tuple[Tensor | None, ...], upstream: Tensor, job: Job) -> None:
    """Multiply gradients by what came from above, in place and in one launch."""
    present = [gradient for gradient in gradients if gradient is not None]
    sizes = [gradient.numel() for gradient in present]
    if not any(sizes):
        return
    first, second, third = (*present, None, None)[:3]
    given = (first, second, third, *(*sizes, 0, 0)[:3], upstream, job.items, job.factor)
    constants = {
        "COUNTED": job.items is not None,
        "FOLD": present[0].dtype in FOLDED,
        "NUMBER": len(present),
        "BLOCK": 4096,
    }
    launch(finishing.rescaled, (min(528, blocks(max(sizes), 4096)),), given, constants, num_warps=8)
