"""Training: a step, the same step as one CUDA graph, runs and their folders."""

from seqsmooth.data import Batch
from seqsmooth.training.graphs import GraphedStep
from seqsmooth.training.runs import Run, load_model
from seqsmooth.training.step import Report, TrainingStep, adam

__all__ = ["Batch", "GraphedStep", "Report", "Run", "TrainingStep", "adam", "load_model"]
