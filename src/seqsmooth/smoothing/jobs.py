"""Decoded candidates as a job for `seqsmooth.ops.cross_entropy`, and its results as a `Loss`."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.cross_entropy import Job, Reduction, RowLosses, reduced_job
from seqsmooth.smoothing.records import Candidates, Loss


def candidates_job(
    candidates: Candidates,
    reduction: Reduction,
    num_items: Tensor | float | None,  # ()
    *,
    entropy: float,
    inplace: bool = False,
) -> Job:
    """What is asked of the logits of all prefixes; it is made on the stream that the candidates are made on."""
    checks.flag("inplace", inplace)
    if candidates.stream is not None:
        if entropy != 0:  # whose weights may take over memory that the current stream still reads
            candidates.stream.wait_stream(torch.cuda.current_stream(candidates.stream.device))
        with torch.cuda.stream(candidates.stream):
            alone = replace(candidates, stream=None)
            job = candidates_job(alone, reduction, num_items, entropy=entropy, inplace=inplace)
        return replace(job, stream=candidates.stream)
    return reduced_job(
        candidates.target,
        reduction,
        num_items,
        count=candidates.count,
        labels=candidates.labels,
        entropy_weights=None if entropy == 0 else _entropy_weights(candidates, entropy),
        inplace=inplace,
    )


def job_loss(losses: RowLosses, candidates: Candidates, job: Job) -> Loss:
    """The results of a job; those of each position are summed over the prefixes of its item."""
    total, nll = losses
    if not job.reduced:
        total, nll = (part.view_as(candidates.sequences).sum(1) for part in losses)
    return Loss(total, nll, candidates.count, candidates.ess)


def _entropy_weights(candidates: Candidates, entropy: float) -> Tensor:
    """Gamma for each row of logits, as its prefix weighs."""
    return (entropy * candidates.weights).unsqueeze(-1).expand_as(candidates.sequences).flatten()
