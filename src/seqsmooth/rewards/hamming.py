"""The Hamming distance as a reward."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from seqsmooth.rewards.protocol import DistanceReward


class Hamming(DistanceReward):
    """Minus the number of positions that differ from the nearest reference.

    Where one sequence is longer, each token of the overhang differs. In a row without references the candidate is
    compared with the empty sequence.

    Args:
        dtype: the type of the scores, torch.float32 or torch.float64.

    Examples:
        >>> import torch
        >>> from seqsmooth.rewards import Hamming
        >>> candidates = torch.tensor([[[4, 5, 6], [5, 6, -1]]])
        >>> Hamming()(candidates, torch.tensor([[[4, 5, 7]]]))
        tensor([[-1., -3.]])
    """

    def distances(
        self,
        candidates: Tensor,  # (B, L, 1, T) int64
        references: Tensor,  # (B, 1, R, S) int64
    ) -> Tensor:  # (B, L, R)
        """Count the positions that differ between each pair, the shorter sequence padded."""
        width = max(candidates.shape[-1], references.shape[-1])
        ours = functional.pad(candidates.clamp(min=-1), (0, width - candidates.shape[-1]), value=-1)
        theirs = functional.pad(references.clamp(min=-1), (0, width - references.shape[-1]), value=-1)
        return (ours != theirs).sum(-1)

    def signature(self) -> str:
        """Name the reward exactly."""
        return "hamming"
