"""Learning rates over steps and epochs, and numbers of an objective over epochs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.training import config as sections
from seqsmooth.training.bases import merge
from seqsmooth.training.config import Anneal
from seqsmooth.training.reader import parse_config

Section = (
    sections.ConstantRate | sections.Step | sections.InverseRoot | sections.Cosine | sections.Linear | sections.Plateau
)


@dataclass(frozen=True)
class Schedule:
    """What the learning rate is multiplied by, a function of the place in the run and of nothing else.

    Args:
        section: its shape.
        steps: of the whole run, which "cosine" and "linear" need.
    """

    section: Section
    steps: int

    def factor(self, step: int, epoch: int, stale: int = 0) -> float:
        """The factor of the step after `step` steps, in an epoch, both from 0.

        Args:
            step: how many steps were done.
            epoch: how many epochs were done.
            stale: how many times a plateau was met.
        """
        section = self.section
        rise = min(1.0, (step + 1) / section.warmup) if section.warmup else 1.0
        if isinstance(section, sections.Step):
            return rise * section.factor ** _decays(section, epoch)
        if isinstance(section, sections.InverseRoot):
            return rise * math.sqrt(max(section.warmup, 1) / max(step + 1, section.warmup, 1))
        if isinstance(section, sections.Plateau):
            return rise * section.factor**stale
        if isinstance(section, sections.ConstantRate):
            return rise
        done = min(1.0, max(0, step - section.warmup) / max(1, self.steps - section.warmup))
        shape = (1 + math.cos(math.pi * done)) / 2 if isinstance(section, sections.Cosine) else 1 - done
        return rise * (section.final + (1 - section.final) * shape)


def _decays(section: sections.Step, epoch: int) -> int:
    if not section.compound:
        return _count_decays(section, epoch)
    return sum(_count_decays(section, past) for past in range(epoch + 1))


def _count_decays(section: sections.Step, epoch: int) -> int:
    return max(0, (epoch - section.start) // section.every + 1)


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set the learning rate of each group to so many times that which it began with, in place: a graph reads it."""
    for group in optimizer.param_groups:
        value = group["initial_lr"] * factor
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def config_of_epoch(config: sections.Config, epoch: int) -> sections.Config:
    """The config of an epoch, from 0: its objective with the numbers that `objective.anneal` gives it."""
    if not config.objective.anneal:
        return config
    values: Mapping[str, Any] = sections.plain(config)
    known = list(_numbers(values["objective"]))
    moved = [each.key for each in config.objective.anneal]
    for each in config.objective.anneal:
        checks.at_least("objective.anneal.epochs", each.epochs, 1)
        checks.at_least("objective.anneal.delay", each.delay, 0)
        checks.must(each.key in known, "objective.anneal.key", _rule(known), each.key)
        checks.must(moved.count(each.key) == 1, "objective.anneal.key", "there once", f"{each.key} twice")
        change: Any = annealed_value(each, epoch)
        for key in reversed(each.key.split(".")):
            change = {key: change}
        values = merge(values, {"objective": change})
    return replace(config, objective=parse_config(values).objective)


def annealed_value(anneal: Anneal, epoch: int) -> float:
    """The number in an epoch: `start` up to `delay`, `end` from `delay` + `epochs` on."""
    done = min(1.0, max(0, epoch - anneal.delay) / anneal.epochs)
    if anneal.shape == "step":
        done = float(done == 1)
    elif anneal.shape == "cosine":
        done = (1 - math.cos(math.pi * done)) / 2
    return anneal.start + (anneal.end - anneal.start) * done


def _numbers(section: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The dotted keys of what is a number and need not be a whole one."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{above}{key}.")
        elif isinstance(value, float):
            yield above + key


def _rule(known: list[str]) -> str:
    return f"a number of this objective ({', '.join(known)})"
