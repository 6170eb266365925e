"""`GroundTruth`: the one right answer."""

from __future__ import annotations

import math

from seqsmooth.ops.precision import finest
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.smoothing.records import Measure, Truth, measured
from seqsmooth.smoothing.sequence_law import SequenceLaw


class GroundTruth(SequenceLaw):
    """delta(y*): the sequence-level Dirac of maximum likelihood, Eq. 6.

    Examples:
        >>> import torch
        >>> import seqsmooth as ss
        >>> candidates = ss.Objective(GroundTruth()).propose(torch.tensor([[4, 7, 2]]))
        >>> candidates.sequences.tolist(), candidates.weights.tolist()  # one sequence, all the weight
        ([[[4, 7, 2]]], [[1.0]])
    """

    name = "truth"
    only_truth = True

    def __init__(self) -> None:
        super().__init__(alpha=0.0)

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Measure:
        """One atom; lazy or not is the same."""
        if truth.source.fused:
            from seqsmooth.ops.kernels import targets

            return measured(truth, targets.truth(truth.source, truth.share))
        target = SoftTarget.from_labels(truth.positions.labels.unsqueeze(1), dtype=finest(truth.tokens.device))
        ones = target.weights.new_ones(target.shape[:2])
        ess = ones.new_full((), math.inf)
        return Measure(truth.tokens.unsqueeze(1), truth.mask.unsqueeze(1), ones, target, ess)

    def options(self) -> dict[str, object]:
        """Nothing to choose."""
        return {}
