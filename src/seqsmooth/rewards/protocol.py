"""`Reward`: the protocol of all rewards, and the rules that those here keep."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks


class Reward(Protocol):
    """Scores candidate sequences against the references of their row; more is better.

    Any callable of this shape is a reward. The ids are int64 and right-padded, and a negative id means "no token":
    padding, and whatever else should not be scored (the end of the sequence, say) is for the caller to replace by a
    negative id. A reference without a single token is absent and not counted, so rows may have different numbers of
    references. A reward mutates nothing, and on an accelerator it never looks at the values of its input on the host,
    so that a training step with it can be captured in a CUDA graph.

    Examples:
        >>> def length(candidates: Tensor, references: Tensor) -> Tensor:  # (B, L, T), (B, R, S) -> (B, L)
        ...     return (candidates >= 0).sum(-1).float()
        >>> reward: Reward = length
        >>> reward(torch.tensor([[[4, 5, -1], [4, 5, 6]]]), torch.tensor([[[4, 5, 6]]]))
        tensor([[2., 3.]])
    """

    def __call__(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
        /,
    ) -> Tensor:  # (B, L) floating point
        """Score each candidate of a row against all references of that row."""
        ...


def check_ids(
    candidates: Tensor,  # (B, L, T)
    references: Tensor,  # (B, R, S)
) -> None:
    """Check the input of a reward; its values only where looking at them is free."""
    checks.shape("candidates", candidates, None, None, None, letters="(B, L, T)")
    checks.shape("references", references, candidates.shape[0], None, None, letters="(B, R, S)")
    checks.must(references.shape[1] > 0, "references", "at least one a row", "none")
    rule = f"on the device of `candidates`, {candidates.device}"
    checks.must(references.device == candidates.device, "references", rule, f"on {references.device}")
    for name, ids in (("candidates", candidates), ("references", references)):
        checks.must(ids.dtype == torch.int64, name, "a tensor of torch.int64", ids.dtype)
        if checks.visible(ids):
            holes = (ids[..., :-1] < 0) & (ids[..., 1:] >= 0)
            checks.must(not bool(holes.any()), name, "right-padded", "a tensor with a token after a negative id")


def check_dtype(dtype: torch.dtype) -> torch.dtype:
    """Check the type that a reward calculates in: counts and logarithms need at least single precision."""
    checks.must(dtype in (torch.float32, torch.float64), "dtype", "torch.float32 or torch.float64", dtype)
    return dtype


class DistanceReward(nn.Module):
    """Minus the distance to the nearest reference, whichever distance a subclass defines.

    In a row without references the candidate is compared with the empty sequence.

    Args:
        dtype: the type of the scores, torch.float32 or torch.float64.
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
        distances = self.distances(candidates[:, :, None], references[:, None])  # (B, L, R)
        present = (references >= 0).any(-1)  # (B, R)
        # In a row without references every one is the empty sequence, so none is skipped there.
        skipped = ~present & present.any(-1, keepdim=True)
        return -distances.masked_fill(skipped[:, None], torch.iinfo(distances.dtype).max).amin(-1).to(self.dtype)

    def distances(
        self,
        candidates: Tensor,  # (B, L, 1, T) int64
        references: Tensor,  # (B, 1, R, S) int64
    ) -> Tensor:  # (B, L, R) whole numbers
        """Return the distance between each candidate and each reference."""
        raise NotImplementedError
