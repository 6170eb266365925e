"""Training: a step, and the same step as one CUDA graph."""

from seqsmooth.data import Batch
from seqsmooth.training.graphs import GraphedStep
from seqsmooth.training.step import Report, TrainingStep, adam

__all__ = ["Batch", "GraphedStep", "Report", "TrainingStep", "adam"]
