"""`SequenceLaw`: the base of all laws on target sequences."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.sampling import Generator
from seqsmooth.smoothing.law import Law
from seqsmooth.smoothing.records import Truth


class SequenceLaw(Law):
    """A law r(y|y*) on target sequences, mixed with the ground truth: (1 - alpha) delta(y*) + alpha r(y|y*).

    In the paper's words (Eq. 15), alpha * l_Seq + (1 - alpha) * l_MLE.
    """

    only_truth: ClassVar[bool] = False
    """Whether the ground truth is the only sequence: then `measure` is delta(y*), and its prefix is all there is."""

    @abstractmethod
    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Candidates:
        """The measure for a batch, over the ground truth's prefix (`lazy`) or over each sequence's own."""

    def change_rate(self, truth: Truth) -> Tensor:  # ()
        """The share of the positions that the law changes, before `alpha` takes its part; 0 if it cannot tell."""
        return torch.zeros((), device=truth.targets.device)
