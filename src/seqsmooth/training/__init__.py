"""Training: a step, the same step as one CUDA graph, runs and their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqsmooth.lazy import lazy_names

if TYPE_CHECKING:
    from seqsmooth.data import Batch
    from seqsmooth.training.graphs import GraphedStep
    from seqsmooth.training.runs import Run, load_model
    from seqsmooth.training.step import Report, TrainingStep, adam

__all__ = ["Batch", "GraphedStep", "Report", "Run", "TrainingStep", "adam", "load_model"]

_HOMES = {
    "seqsmooth.data": ("Batch",),
    "seqsmooth.training.graphs": ("GraphedStep",),
    "seqsmooth.training.runs": (
        "Run",
        "load_model",
    ),
    "seqsmooth.training.step": (
        "Report",
        "TrainingStep",
        "adam",
    ),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
