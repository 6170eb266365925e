"""`SequenceLaw`: the base of all laws on target sequences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from seqsmooth.ops import targets
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.edit_distance import edit_distance
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.ops.targets import Draws
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
        """The share of the positions that the law changes, before `alpha` takes its part; 0 for a law without draws."""
        draw: Callable[[Truth, int, Generator | None], Draws] | None = getattr(self, "draw", None)
        return torch.zeros((), device=truth.targets.device) if draw is None else measure_changes(draw, truth)


def measure_changes(
    draw: Callable[[Truth, int, Generator | None], Draws],
    truth: Truth,
) -> Tensor:  # ()
    """Edits a position, measured on one sample of each sequence; no generator of anybody else is touched."""
    draws = draw(truth, 1, torch.Generator(truth.targets.device).manual_seed(0))
    base = targets.truth(truth)
    distance = edit_distance(torch.where(draws.mask, draws.tokens, IGNORED), base.labels)
    return distance.sum() / base.count.clamp_min(1)
