"""The Hamming distance as a reward."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqsmooth.rewards.protocol import check_dtype, check_ids, nearest


class Hamming(nn.Module):
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
        width = max(candidates.shape[-1], references.shape[-1])
        ours = functional.pad(candidates.clamp(min=-1), (0, width - candidates.shape[-1]), value=-1)
        theirs = functional.pad(references.clamp(min=-1), (0, width - references.shape[-1]), value=-1)
        distances = (ours[:, :, None] != theirs[:, None]).sum(-1)  # (B, L, R)
        return -nearest(distances, references).to(self.dtype)

    def signature(self) -> str:
        """Name the reward exactly."""
        return "hamming"
