"""Rows of the token-level law r(.|y) of Elbayad et al. 2018, computed from embeddings when asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops.tables import masked_dot

ROW_ELEMENTS = 2**24
"""Entries of rows computed at once when rows are summed."""


BLOCK = 64
"""Tokens that the kernels look at together."""


class Embedded(NamedTuple):
    """The law in the form that kernels compute rows from: r(v|y) = 2^(r(v, y) / (tau ln 2) - offset of y)."""

    units: Tensor
    """(V, D') embeddings, with columns of zeros up to a sum of two powers of 2."""
    offsets: Tensor
    """(V,) base-2 logarithms of sum_v exp(r(v, y) / tau)."""
    whole: Tensor
    """(V / BLOCK,) bool: of each block of tokens, whether all have embeddings."""


@dataclass(frozen=True, eq=False)
class SimilarityTable:
    """V rows: r(v|y) = softmax over v of (cos(v, y) - beta * min(f_v / f_y, f_y / f_v)) / tau.

    The paper's token-level law and, with `beta` > 0, its rare-token promotion r^freq. Never V x V in memory. A token
    that is not `known` keeps all its mass to itself and receives none from others.
    """

    units: Tensor  # (V, D) embeddings of norm 1
    known: Tensor  # (V,) bool
    tau: float
    beta: float = 0.0
    counts: Tensor | None = None  # (V,)
    mixed: bool = False

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.units.shape[0]

    @property
    def size(self) -> int:
        """V: as many rows as tokens."""
        return self.units.shape[0]

    def rows(
        self,
        tokens: Tensor,  # (n,)
    ) -> Tensor:  # (n, V)
        """The law of each token."""
        reward = self._reward(tokens)
        # The best reward is taken off before dividing, so that no temperature overflows.
        best = reward.masked_fill(~self.known, -torch.inf).amax(-1, keepdim=True)
        spread = torch.softmax(
            ((reward - best) / max(self.tau, torch.finfo(reward.dtype).tiny)).masked_fill(~self.known, -torch.inf), -1
        )
        itself = tokens.unsqueeze(-1) == torch.arange(self.vocab_size, device=tokens.device)
        return torch.where(self.known[tokens].unsqueeze(-1), spread, itself.to(spread.dtype))

    @cached_property
    def halves(self) -> Embedded:
        """The law for logits in half precision: in fp16 unit vectors lose no more than in TF32, at twice the speed."""
        return self._embed(torch.float16)

    @cached_property
    def singles(self) -> Embedded:
        """The law for logits in single precision."""
        return self._embed(torch.float32)

    def take(self, other: SimilarityTable) -> None:
        """Write what the kernels read of another table over this one's, whose `units` have changed in place."""
        for form in ("halves", "singles"):
            if form in self.__dict__:
                for mine, theirs in zip(getattr(self, form), getattr(other, form), strict=True):
                    mine.copy_(theirs)

    def _embed(self, dtype: torch.dtype) -> Embedded:
        width = sum(two_powers(self.units.shape[1]))
        units = F.pad(self.units, (0, width - self.units.shape[1])).to(dtype)
        # From the rounded vectors, so that rows which the kernels make of those sum to 1 all the same.
        rough = replace(self, units=units.float())
        at_once = max(1, ROW_ELEMENTS // self.vocab_size)
        tokens = torch.arange(self.vocab_size, device=units.device)
        parts = [rough._log_total(tokens[start : start + at_once]) for start in range(0, self.vocab_size, at_once)]
        blocks = F.pad(self.known, (0, -self.vocab_size % BLOCK)).view(-1, BLOCK)
        return Embedded(units, torch.cat(parts), blocks.all(-1))

    def _log_total(self, tokens: Tensor) -> Tensor:
        reward = self._reward(tokens).masked_fill(~self.known, -torch.inf)
        return (reward.double() / self.tau).logsumexp(-1).div(math.log(2)).float()

    def _reward(
        self,
        tokens: Tensor,  # (n,)
    ) -> Tensor:  # (n, V)
        with torch.autocast(self.units.device.type, enabled=False):  # which would round the cosines to bf16
            reward = self.units[tokens] @ self.units.T
        if self.counts is not None and self.beta > 0:
            reward = reward - self.beta * _frequency_ratio(self.counts[tokens].unsqueeze(-1), self.counts)
        return reward

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of rows, few of the J at a time so that no (N, J, V) is made."""
        total = self.units.new_zeros(index.shape[0], self.vocab_size)
        at_once = max(1, ROW_ELEMENTS // max(1, total.numel()))
        for start in range(0, index.shape[1], at_once):
            tokens = index[:, start : start + at_once]
            weight = weights[:, start : start + at_once].unsqueeze(-1).to(total.dtype)
            total = total + (weight * self.rows(tokens.reshape(-1)).view(*tokens.shape, self.vocab_size)).sum(1)
        return total

    def mass(self, index: Tensor) -> Tensor:
        """Every row sums to 1."""
        return torch.ones_like(index, dtype=self.units.dtype)

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Inner products with rows of logits."""
        return masked_dot(self.combine(index, weights).to(logits.dtype), logits)


def two_powers(dimension: int) -> tuple[int, int]:
    """The least sum of two powers of 2 that is not less, each at least 32; the second may be 0."""
    wide = max(32, 1 << (dimension.bit_length() - 1))
    rest = dimension - wide
    return wide, max(32, 1 << (rest - 1).bit_length()) if rest > 0 else 0


def _frequency_ratio(one: Tensor, other: Tensor) -> Tensor:
    """min(f/g, g/f), with 1 for two tokens that were never seen."""
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    return torch.where(high > 0, low / high.clamp_min(torch.finfo(high.dtype).tiny), 1)
