"""A bidirectional encoder that never asks the host for a length."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks

Kind = Literal["lstm", "gru"]
KINDS: tuple[Kind, ...] = ("lstm", "gru")


class BidirectionalEncoder(nn.Module):
    """Two recurrent networks, one of them over the reversed sequences.

    A packed sequence would need lengths on the host. Instead each sequence is reversed in its place, so that its
    padding stays at the end where neither direction has met it yet; each direction is one call of cuDNN on a GPU.

    Args:
        size: E, of what is read.
        units: H of each direction.
        kind: "lstm" or "gru".
    """

    def __init__(self, size: int, units: int, kind: Kind = "lstm") -> None:
        super().__init__()
        checks.one_of("kind", kind, KINDS)
        make = nn.LSTM if kind == "lstm" else nn.GRU
        self.onward = make(size, units)
        self.homeward = make(size, units)

    def forward(
        self,
        sequences: Tensor,  # (S, B, E)
        mask: Tensor,  # (S, B) bool, True before the padding
    ) -> tuple[Tensor, Tensor]:  # (S, B, 2H), (B, H)
        """The states at each place, and the last state of the reversed sequences, which has seen everything."""
        index = reversal(mask)
        onward, _ = self.onward(sequences)
        backward, _ = self.homeward(sequences.gather(0, index.unsqueeze(-1).expand_as(sequences)))
        backward = backward.gather(0, index.unsqueeze(-1).expand_as(backward))
        return torch.cat([onward, backward], -1), backward[0]


def reversal(
    mask: Tensor,  # (S, B) bool, True before the padding
) -> Tensor:  # (S, B) int64
    """Where each place of the reversed sequences is in the sequences themselves, and the other way round."""
    places = torch.arange(mask.shape[0], device=mask.device).unsqueeze(-1)
    return torch.where(mask, mask.sum(0) - 1 - places, places)
