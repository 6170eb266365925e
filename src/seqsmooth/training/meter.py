"""Sums over steps, kept on the device until somebody asks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops.dispatch import finest
from seqsmooth.training.step import Report


@dataclass(frozen=True)
class Reading:
    """Means over the steps since the last reading."""

    loss: float  # a token
    nll: float  # a token, unsmoothed
    ess: float | None  # None where nothing is sampled
    rate: float | None  # share of positions changed, where somebody asked
    tokens_per_second: float
    steps: int


class Meter:
    """Adds up what steps report: a few launches a step, and nothing is waited for before `read`.

    Args:
        device: where the reports are.
        world: the number of processes; the sums are those of all.
    """

    def __init__(self, device: torch.device, world: int = 1) -> None:
        self.world = world
        self.sums = torch.zeros(3, dtype=finest(device), device=device)  # loss, nll, ess
        self.parts = list(self.sums.unbind())
        self.tokens = torch.zeros((), dtype=torch.int64, device=device)
        self.steps = 0
        self.restart()

    def restart(self) -> None:
        """Let the clock begin now."""
        self.began = time.perf_counter()

    def add(self, report: Report) -> None:
        """Add a step. Its loss is this process's part of a mean over the tokens of all."""
        loss = report.loss
        torch._foreach_add_(self.parts, [loss.total, loss.nll, loss.ess])
        self.tokens += loss.tokens
        self.steps += 1

    def state(self) -> list[float]:
        """The sums of all processes, and the steps. Waits for the device."""
        sums = torch.cat([self.sums.double(), self.tokens.double().view(1)])
        if self.world > 1:
            torch.distributed.all_reduce(sums)
        return [*sums.tolist(), self.steps]

    def load(self, state: list[float], *, first: bool) -> None:
        """Go on from such sums, which the first process keeps; but for tokens, which are counted by the clock."""
        *sums, _, steps = state
        self.steps = int(steps)
        if first:
            self.sums.copy_(torch.tensor(sums, dtype=self.sums.dtype))

    def read(self, rate: Tensor | None = None) -> Reading | None:
        """The means, and start again; None after no step. Waits for the device, once, also for the `rate`."""
        if self.steps == 0:
            return None
        aside = None if rate is None else rate.to("cpu", non_blocking=True)
        loss, nll, ess, tokens, steps = self.state()
        now = time.perf_counter()
        seconds, self.began = now - self.began, now
        self.sums.zero_()
        self.tokens.zero_()
        self.steps = 0
        shared = ess / steps / self.world
        return Reading(
            loss / steps,
            nll / steps,
            shared if math.isfinite(shared) else None,
            None if aside is None else float(aside),
            tokens / seconds,
            int(steps),
        )
