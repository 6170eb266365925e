"""The positions of a batch: where its targets have a token, and which."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops import dispatch
from seqsmooth.ops.soft_target import IGNORED


@dataclass(frozen=True, eq=False)
class Source:
    """Targets as they came, and how to read them."""

    targets: Tensor  # (B, T) int64
    ignored: tuple[int, ...]
    """The ids that mark places without a position."""
    filler: int
    """The id to write there."""
    bos: int | None = None
    """What a decoder reads first, if that is known."""

    @property
    def fused(self) -> bool:
        """Whether kernels read these targets."""
        return 0 < self.targets.numel() < 2**31 and dispatch.fused(self.targets)


@dataclass(frozen=True, eq=False)
class Positions:
    """What targets hold."""

    tokens: Tensor  # (B, T) int64; the filler where there is no position
    mask: Tensor  # (B, T) bool
    labels: Tensor  # (B, T) int64; -100 where there is no position
    count: Tensor  # () int64, the number of positions
    inputs: Tensor | None = None  # (B, T) BOS and the tokens but the last, where a kernel has written them


@dataclass(frozen=True, eq=False)
class Reading:
    """What a kernel makes of targets in one launch: the positions, and what to predict there from the true prefix.

    That prefix is a dimension of its own, as in all that is decoded.
    """

    tokens: Tensor  # (B, 1, T) int64; the filler where there is no position
    mask: Tensor  # (B, 1, T) bool
    labels: Tensor  # (B, 1, T) int64; -100 where there is no position
    count: Tensor  # () int64, the number of positions
    inputs: Tensor | None  # (B, T), as of `Positions`
    ids: Tensor  # (B, 1, T, K) int64; -100 where there is no position
    weights: Tensor  # (B, 1, T, K)
    whole: Tensor  # (B, 1) of ones, the weight of the true prefix
    ess: Tensor  # () effective sample size
    apart: Tensor | None = None  # (B, 1, T, K) a share of each weight that `weights` lacks, for a token law to spread

    @property
    def positions(self) -> Positions:
        """What the targets hold."""
        found = self.tokens.squeeze(1), self.mask.squeeze(1), self.labels.squeeze(1)
        return Positions(*found, self.count, self.inputs)


def read(source: Source) -> Positions:
    """Tell the positions from the padding."""
    if source.fused:
        from seqsmooth.ops.kernels.targets import truth

        return truth(source).positions
    targets = source.targets
    mask = torch.ones_like(targets, dtype=torch.bool) if not source.ignored else targets != source.ignored[0]
    for token in source.ignored[1:]:
        mask = mask & (targets != token)
    return masked(targets, mask, source.filler)


def masked(
    tokens: Tensor,  # (B, T) int64
    mask: Tensor,  # (B, T) bool
    filler: int,
) -> Positions:
    """Positions where a mask says so."""
    return Positions(torch.where(mask, tokens, filler), mask, torch.where(mask, tokens, IGNORED), mask.sum())
