"""A bidirectional encoder that never asks the host for a length."""

from __future__ import annotations

from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks

Kind = Literal["lstm", "gru"]
KINDS: tuple[Kind, ...] = ("lstm", "gru")
CONCURRENT = True
"""Whether the two directions run side by side on a GPU."""


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
        index = reversal(mask).unsqueeze(-1)
        turned = sequences.gather(0, index.expand_as(sequences))
        # Each direction is a chain of small kernels that leaves most of a GPU idle, so they run side by side; autograd
        # runs the way back on the same streams. Either waits for the other at both ends, so memory passes safely.
        here, aside = _streams(sequences.device)
        if here is not None and aside is not None:
            aside.wait_stream(here)
        with torch.cuda.stream(aside):
            homeward, _ = self.homeward(turned)
        onward, _ = self.onward(sequences)
        if here is not None and aside is not None:
            here.wait_stream(aside)
        homeward = homeward.gather(0, index.expand_as(homeward))
        return torch.cat([onward, homeward], -1), homeward[0]


def reversal(
    mask: Tensor,  # (S, B) bool, True before the padding
) -> Tensor:  # (S, B) int64
    """Where each place of the reversed sequences is in the sequences themselves, and the other way round."""
    places = torch.arange(mask.shape[0], device=mask.device).unsqueeze(-1)
    return torch.where(mask, mask.sum(0) - 1 - places, places)


def _streams(device: torch.device) -> tuple[torch.cuda.Stream | None, torch.cuda.Stream | None]:
    """The current stream and another one to work beside it; none where there is no CUDA."""
    if device.type != "cuda" or not CONCURRENT:
        return None, None
    return torch.cuda.current_stream(device), _aside(device)


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
