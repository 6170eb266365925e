"""Sums over steps, kept on the device until somebody asks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqsmooth.data import Batch
from seqsmooth.ops.edit_distance import edit_distance
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Objective
from seqsmooth.smoothing.records import Truth
from seqsmooth.training.step import Report


@dataclass(frozen=True)
class Reading:
    """Means over the steps since the last reading."""

    loss: float  # a token
    nll: float  # a token, unsmoothed
    ess: float | None  # None where nothing is sampled
    tokens_per_second: float
    tokens: int


class Meter:
    """Adds up what steps report; a step costs a few launches, and nothing is waited for before `read`.

    Args:
        device: where the reports are.
        world: the number of processes; the sums are those of all.
    """

    def __init__(self, device: torch.device, world: int = 1) -> None:
        self.world = world
        self.sums = torch.zeros(5, dtype=torch.float64, device=device)  # loss, nll, tokens, ess, steps
        self.restart()

    def restart(self) -> None:
        """Let the clock begin now."""
        self.began = time.perf_counter()

    def add(self, report: Report, whole: Tensor | None) -> None:
        """Add a step; its loss is a mean over `whole` tokens, or over its own."""
        loss = report.loss
        over = loss.tokens if whole is None else whole
        parts = (loss.total * over, loss.nll * over, loss.tokens, loss.ess, torch.ones_like(loss.total))
        self.sums += torch.stack([part.double() for part in parts])

    def state(self) -> list[float]:
        """The sums of all processes. Waits for the device."""
        sums = self.sums.clone()
        if self.world > 1:
            torch.distributed.all_reduce(sums)
        held: list[float] = sums.tolist()
        return held

    def load(self, state: list[float]) -> None:
        """Go on from such sums; in one process only."""
        self.sums.copy_(torch.tensor(state, dtype=torch.float64))

    def read(self) -> Reading:
        """The means, and start again. Waits for the device."""
        loss, nll, tokens, ess, steps = self.state()
        now = time.perf_counter()
        seconds, self.began = now - self.began, now
        self.sums.zero_()
        sampled = steps > 0 and math.isfinite(ess)
        counted = max(tokens, 1.0)
        return Reading(loss / counted, nll / counted, ess / steps if sampled else None, tokens / seconds, int(tokens))


@torch.no_grad()
def corruption(objective: Objective, batch: Batch) -> float:
    """The share of the positions of a batch that the sequence law changes, before `alpha` takes its part.

    It is the law's own probability where that has a closed form. Where lengths change it is measured on one sample of
    each sequence, as edits a position, with a generator of its own: training goes on as if nobody had looked.
    """
    law: Any = getattr(objective.sequence, "proposal", objective.sequence)
    pad = objective.specials.pad
    ignored = (objective.ignore_index,) if pad is None else (objective.ignore_index, pad)
    given = (batch.targets, None, batch.references, objective.specials, objective.vocab_size)
    truth = Truth(*given, ignored=ignored)
    positions = truth.mask.sum().clamp_min(1)
    if hasattr(law, "flip_probability"):
        return float(law.flip_probability(truth).sum() / positions)
    if not hasattr(law, "draw"):
        return 0.0
    source = torch.Generator(batch.targets.device).manual_seed(0)
    draws = law.draw(truth, 1, source)
    sampled = torch.where(draws.mask, draws.tokens, IGNORED)
    targets = torch.where(truth.mask, truth.tokens, IGNORED).unsqueeze(1)
    return float(edit_distance(sampled, targets).sum() / positions)
