"""`GroundTruth`: the one right answer."""

from __future__ import annotations

from seqsmooth.ops import targets
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.sampling import Generator
from seqsmooth.smoothing.records import Setting, Truth
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

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Candidates:
        """All mass on y*; lazy or not is the same."""
        return targets.truth(truth)

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """Nothing to choose."""
        return {}
