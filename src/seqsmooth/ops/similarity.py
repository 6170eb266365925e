"""Rows of the token-level law r(.|y) of Elbayad et al. 2018, computed from embeddings when asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks, products
from seqsmooth.ops.tables import masked_dot

ROW_ELEMENTS = 2**24
"""Entries of rows computed at once."""
CACHED_ELEMENTS = 2**22
"""The same on a CPU, which reads them again from its cache."""
LEAST_ROWS = 64
"""Rows at once, however long, for a product of fewer takes longer a row."""

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
        if not checks.visible(tokens):
            return self.law(self._reward(tokens), tokens)
        if 0 < tokens.shape[0] <= rows_at_once(self.vocab_size, self.units.device):
            ((_, rows),) = self.blocks(tokens)
            return rows
        rows = self.units.new_empty(tokens.shape[0], self.vocab_size)
        for part, block in self.blocks(tokens):
            rows[part] = block
        return rows

    def blocks(
        self,
        tokens: Tensor,  # (n,)
        at_once: int | None = None,
    ) -> Iterator[tuple[slice, Tensor]]:  # of (m, V)
        """The law of tokens, some at a time: which of them, and their rows in memory that the next ones take over."""
        at_once = at_once or rows_at_once(self.vocab_size, self.units.device)
        promotes = self.counts is not None and self.beta > 0
        memory = [self.units.new_empty(min(at_once, tokens.shape[0]), self.vocab_size) for _ in range(1 + promotes)]
        for start in range(0, tokens.shape[0], at_once):
            some = tokens[start : start + at_once]
            part = slice(start, start + some.shape[0])
            room = [each[: some.shape[0]] for each in memory]
            yield part, self.law(self._reward(some, room), some, room[0])

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
        tokens: Tensor,  # (m,)
        memory: Sequence[Tensor | None] = (None, None),  # (m, V) each
    ) -> Tensor:  # (m, V)
        """The cosines, less beta times the ratio of counts."""
        with torch.autocast(self.units.device.type, enabled=False):  # which would round the cosines to bf16
            reward = products.linear(self.units[tokens], self.units)
        if self.counts is not None and self.beta > 0:
            ratio = _frequency_ratio(self.counts[tokens].unsqueeze(-1), self.counts, memory)
            reward.sub_(ratio, alpha=self.beta)
        return reward

    def law(
        self,
        reward: Tensor,  # (m, V), which is overwritten
        tokens: Tensor,  # (m,)
        memory: Tensor | None = None,  # (m, V)
    ) -> Tensor:  # (m, V)
        """A softmax over the known tokens; the others keep all their mass."""
        reward.add_(torch.zeros_like(self.units[:, 0]).masked_fill_(~self.known, -torch.inf))
        # The best reward is taken off before dividing, so that no temperature overflows.
        limits = torch.finfo(reward.dtype)
        reward.sub_(reward.amax(-1, keepdim=True)).div_(min(max(self.tau, limits.tiny), limits.max))
        rows = torch.softmax(reward, -1, out=memory)
        alone = ~self.known[tokens]
        if not checks.visible(tokens):
            itself = tokens.unsqueeze(-1) == torch.arange(self.vocab_size, device=tokens.device)
            return torch.where(alone.unsqueeze(-1), itself.to(rows.dtype), rows)
        places = alone.nonzero().squeeze(-1)
        rows[places] = 0
        rows[places, tokens[places]] = 1
        return rows

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of rows; on a CPU each distinct row is computed once, and none that weighs nothing."""
        learned = weights.requires_grad and torch.is_grad_enabled()
        if checks.visible(index) and checks.visible(weights) and not learned:
            return self._combine_distinct(index, weights)
        total = self.units.new_zeros(index.shape[0], self.vocab_size)
        at_once = max(1, ROW_ELEMENTS // max(1, total.numel()))
        for start in range(0, index.shape[1], at_once):  # few of the J, so that no (N, J, V) is made
            tokens = index[:, start : start + at_once]
            weight = weights[:, start : start + at_once].unsqueeze(-1).to(total.dtype)
            total = total + (weight * self.rows(tokens.reshape(-1)).view(*tokens.shape, self.vocab_size)).sum(1)
        return total

    def _combine_distinct(self, index: Tensor, weights: Tensor) -> Tensor:
        used = weights != 0
        distinct, found = torch.unique(index[used], return_inverse=True)
        place = torch.full_like(index, -1).masked_scatter_(used, found)
        total = self.units.new_zeros(index.shape[0], self.vocab_size)
        for part, rows in self.blocks(distinct):
            inside = (place >= part.start) & (place < part.stop)
            shares = torch.where(inside, weights, 0).to(total.dtype)
            local = torch.where(inside, place - part.start, 0)
            if index.shape[1] == 1:
                here = inside.squeeze(1)
                total[here] = rows[local[here, 0]] * shares[here]
            else:
                total.addmm_(total.new_zeros(index.shape[0], rows.shape[0]).scatter_add_(1, local, shares), rows)
        return total

    def mass(self, index: Tensor) -> Tensor:
        """Every row sums to 1."""
        return torch.ones_like(index, dtype=self.units.dtype)

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Inner products with rows of logits."""
        return masked_dot(self.combine(index, weights).to(logits.dtype), logits)


def rows_at_once(vocab_size: int, device: torch.device) -> int:
    """Rows over the vocabulary that are made together."""
    if device.type != "cpu":
        return max(1, ROW_ELEMENTS // vocab_size)
    return max(LEAST_ROWS, CACHED_ELEMENTS // vocab_size)


def two_powers(dimension: int) -> tuple[int, int]:
    """The least sum of two powers of 2 that is not less, each at least 32; the second may be 0."""
    wide = max(32, 1 << (dimension.bit_length() - 1))
    rest = dimension - wide
    return wide, max(32, 1 << (rest - 1).bit_length()) if rest > 0 else 0


def _frequency_ratio(
    one: Tensor,  # (m, 1)
    other: Tensor,  # (V,)
    memory: Sequence[Tensor | None],  # (m, V) twice
) -> Tensor:  # (m, V)
    """min(f/g, g/f), with 1 for two tokens that were never seen."""
    here, there = _inverse(one), _inverse(other)
    ratio = torch.minimum(torch.mul(one, there, out=memory[0]), torch.mul(here, other, out=memory[1]), out=memory[0])
    return ratio.addcmul_((one == 0).to(ratio.dtype), (other == 0).to(ratio.dtype))


def _inverse(counts: Tensor) -> Tensor:
    """1 / counts, 0 for 0."""
    return torch.where(counts > 0, 1 / counts.clamp_min(torch.finfo(counts.dtype).tiny), 0)
