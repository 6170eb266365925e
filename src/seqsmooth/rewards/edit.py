"""The edit distance as a reward."""

from __future__ import annotations

from torch import Tensor

from seqsmooth.ops.edit_distance import edit_distance
from seqsmooth.rewards.protocol import DistanceReward


class Edit(DistanceReward):
    """Minus the Levenshtein distance to the nearest reference.

    In a row without references the candidate is compared with the empty sequence.

    Args:
        dtype: the type of the scores, torch.float32 or torch.float64.

    Examples:
        >>> import torch
        >>> from seqsmooth.rewards import Edit
        >>> candidates = torch.tensor([[[4, 8, 7], [5, 6, -1]]])
        >>> Edit()(candidates, torch.tensor([[[4, 5, 6], [5, 9, 6]]]))  # to the nearest of two references
        tensor([[-2., -1.]])
    """

    def distances(
        self,
        candidates: Tensor,  # (B, L, 1, T) int64
        references: Tensor,  # (B, 1, R, S) int64
    ) -> Tensor:  # (B, L, R)
        """Count the insertions, deletions and substitutions between each pair."""
        return edit_distance(candidates, references)

    def signature(self) -> str:
        """Name the reward exactly."""
        return "edit"
