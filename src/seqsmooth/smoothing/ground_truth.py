"""`GroundTruth`: the one right answer."""

from __future__ import annotations

import math

import torch

from seqsmooth.ops.precision import finest
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.smoothing.records import Measure, Truth
from seqsmooth.smoothing.sequence_law import SequenceLaw


class GroundTruth(SequenceLaw):
    """delta(y*): the sequence-level Dirac of maximum likelihood, Eq. 6."""

    name = "truth"
    only_truth = True

    def __init__(self) -> None:
        super().__init__(alpha=0.0)

    def measure(self, truth: Truth, *, lazy: bool, generator: torch.Generator | None) -> Measure:
        """One atom; lazy or not is the same."""
        tokens = truth.tokens.unsqueeze(1)
        target = SoftTarget.from_labels(tokens, dtype=finest(tokens.device))
        ones = target.weights.new_ones(tokens.shape[:2])
        return Measure(tokens, truth.mask.unsqueeze(1), ones, target, ones.new_full((), math.inf))

    def options(self) -> dict[str, object]:
        """Nothing to choose."""
        return {}
