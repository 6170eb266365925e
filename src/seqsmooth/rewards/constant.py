"""The same reward for every candidate: the control of an experiment with rewards."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.rewards.protocol import check_dtype, check_ids


class Constant(nn.Module):
    """One value whatever the candidate, so that a rewarded sampler is left with its proposal alone.

    Args:
        value: the score of every candidate.
        dtype: the type of the scores, torch.float32 or torch.float64.

    Examples:
        >>> from seqsmooth.rewards import Constant
        >>> Constant(1.5)(torch.tensor([[[4, 5], [6, 7]]]), torch.tensor([[[4, 5]]]))
        tensor([[1.5000, 1.5000]])
    """

    def __init__(self, value: float = 0.0, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        checks.must(isinstance(value, (int, float)) and math.isfinite(value), "value", "a finite number", repr(value))
        self.value = float(value)
        self.dtype = check_dtype(dtype)

    def forward(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
    ) -> Tensor:  # (B, L)
        """Score each candidate the same."""
        check_ids(candidates, references)
        return candidates.new_full(candidates.shape[:2], self.value, dtype=self.dtype)

    def extra_repr(self) -> str:
        """List the arguments."""
        return f"value={self.value:.12g}"

    def signature(self) -> str:
        """Name the reward exactly."""
        return f"constant:{self.value:.12g}"
