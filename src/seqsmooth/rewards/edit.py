"""The edit distance as a reward."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqsmooth.ops.edit_distance import edit_distance
from seqsmooth.rewards.protocol import check_dtype, check_ids, nearest


class Edit(nn.Module):
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

    def __init__(self, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.dtype = check_dtype(dtype)

    def forward(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
    ) -> Tensor:  # (B, L)
        """Score each candidate against the references of its row."""
        check_ids(candidates, references)
        distances = edit_distance(candidates[:, :, None], references[:, None])  # (B, L, R)
        return -nearest(distances, references).to(self.dtype)

    def signature(self) -> str:
        """Name the reward exactly."""
        return "edit"
