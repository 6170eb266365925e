"""`bench step`: whole training steps, eager and as one CUDA graph. The steps themselves are of `bench.step`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seqsmooth.bench.harness import Call, Contest, Contestant, Part, again
from seqsmooth.bench.records import Table

BASE = "mle"


def parts(precision: str, size: object | None = None) -> list[Part]:
    """One table for each model."""
    step = steps()

    def part(model: str) -> Part:
        return model, lambda contest: table(model, precision, contest, size)

    return [part(model) for model in step.MODELS]


def steps() -> Any:
    """The module that makes the steps, which needs the models."""
    try:
        return importlib.import_module("seqsmooth.bench.step")
    except ImportError as error:
        raise ValueError(f"`bench` must be another than step where there are no models ({error}).") from error


def table(model: str, precision: str, contest: Contest, size: object | None = None) -> Table:
    """Compare the objectives on one model: each trains its own copy, which starts from the same weights."""
    everyone = list(contestants(model, precision, contest.clock.device, size))
    rows = contest.rows(contest.chosen(again(everyone, BASE)), [None])
    title = f"step: {model}, {precision}, a whole training step"
    return Table(title, {"name": model, "precision": precision}, rows)


def contestants(
    model: str, precision: str, device: torch.device, size: object | None = None
) -> Iterator[Contestant[None]]:
    """A step for each objective."""
    step = steps()

    def bound(objective: str, _: None) -> Call:
        made = step.build(model, objective, device=device, precision=precision, size=size)

        def eager() -> tuple[Tensor, ...]:
            made.eager()
            return ()

        return Call(eager, capture=made.capture)

    for objective in step.OBJECTIVES:
        yield Contestant(objective, True, partial(bound, objective), against=BASE)
