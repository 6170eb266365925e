"""Positions that change on their own: the law of `Hamming` at each of them, in plain torch.

`seqsmooth.ops.kernels.sites` is the same for kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops.precision import finest
from seqsmooth.ops.sampling import Generator, categorical, uniforms
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, Table
from seqsmooth.smoothing.pools import Pool, draw_other
from seqsmooth.smoothing.records import Draws, Measure, Truth


@dataclass(frozen=True, eq=False)
class Sites:
    """What may happen at each position of a batch."""

    truth: Truth
    pool: Pool
    substitutes: DenseTable | None
    """V rows, the law of what replaces each token; None where that is uniform over the pool."""
    flip: Tensor  # (B, T) probability of a change, pi
    others: Tensor  # (B, T) number of other tokens in the pool, m; 1 where there is none
    inside: Tensor  # (B, T) bool, whether the token itself is in the pool
    place: Tensor  # (B, T) its place there

    def draw(self, count: int, generator: Generator | None) -> Draws:
        """`count` independent samples of each sequence, with their probability."""
        truth = self.truth
        tokens, mask, flip = (part.unsqueeze(1) for part in (truth.tokens, truth.mask, self.flip))  # (B, 1, T) each
        points = uniforms((tokens.shape[0], count, tokens.shape[2]), tokens, generator)
        changed = points < flip
        if self.substitutes is None:
            # Below the chance of a change, the same number over that chance is uniform again: it picks the new token.
            again = torch.where(changed, points / flip, 0)
            new = draw_other(self.pool, again, (self.others[:, None], self.inside[:, None], self.place[:, None]))
            log_share = -self.others.to(flip.dtype).log().unsqueeze(1)
        else:
            rows = self.substitutes.values[truth.tokens.flatten()]
            drawn = categorical(rows, count, generator)  # (B T, L)
            new = drawn.view(*truth.tokens.shape, count).transpose(1, 2)
            log_share = rows.gather(-1, drawn).view(*truth.tokens.shape, count).transpose(1, 2).log()
        log_prob = torch.where(changed, flip.log() + log_share, torch.log1p(-flip)).sum(-1)
        return Draws(torch.where(changed, new, tokens), mask.expand(points.shape), log_prob)

    def marginals(self, table: Table) -> tuple[Tensor, Rows]:
        """rho_t = own_t delta(y*_t) + rows: the law of one position, as (B, T) and rows of shape (B, T, 1).

        The table is uniform over each pool, or has the law of the substitutes; both may be multiplied by a token law.
        """
        if self.substitutes is not None:
            labels = self.truth.positions.labels
            return 1 - self.flip, Rows(table, labels.unsqueeze(-1), self.flip.unsqueeze(-1))
        # The table covers the whole pool, so a token that is in it gives its share of the background back.
        background = torch.where(self.inside, self.flip + self.flip / self.others, self.flip)
        groups = torch.arange(self.pool.groups, device=background.device).unsqueeze(-1)
        index = torch.where(self.truth.mask, groups, -1)
        return 1 - background, Rows(table, index.unsqueeze(-1), background.unsqueeze(-1))

    def expectation(self, table: Table, alpha: float) -> Measure:
        """The closed form: (1 - alpha) delta(y*) + alpha rho at each position, on the ground truth's prefix."""
        truth = self.truth
        own, rows = self.marginals(table)
        weights = (1 - alpha) + alpha * own
        background = Rows(rows.table, rows.index.unsqueeze(1), alpha * rows.weights.unsqueeze(1))
        target = SoftTarget(truth.positions.labels[:, None, :, None], weights[:, None, :, None], (background,))
        ones = weights.new_ones(target.shape[:2])
        ess = ones.new_full((), math.inf)
        return Measure(truth.tokens.unsqueeze(1), truth.mask.unsqueeze(1), ones, target, ess)

    def integrated(self, table: Table, sampled: Measure) -> Measure:
        """A measure on the samples' prefixes with each predicted token replaced by its law rho_t."""
        own, rows = self.marginals(table)
        count = sampled.weights.shape[1]
        first = torch.arange(count, device=own.device) == 0
        of_truth, of_samples = sampled.weights * first, sampled.weights * ~first
        weights = of_truth.unsqueeze(-1) + of_samples.unsqueeze(-1) * own.unsqueeze(1)
        ids = self.truth.positions.labels.unsqueeze(1).expand(-1, count, -1).unsqueeze(-1)
        background = Rows(
            rows.table,
            rows.index.unsqueeze(1).expand(-1, count, -1, -1),
            of_samples[:, :, None, None] * rows.weights.unsqueeze(1),
        )
        target = SoftTarget(ids, weights.unsqueeze(-1), (background,))
        return Measure(sampled.tokens, sampled.mask, sampled.weights, target, sampled.ess)


def find_sites(
    truth: Truth, pool: Pool, substitutes: DenseTable | None, *, tau: float | None, rate: float | None
) -> Sites:
    """The sites of a batch, by temperature or by rate."""
    others, inside, place = pool.others(truth.tokens)
    possible = truth.movable & (others > 0)
    if substitutes is not None:
        possible = possible & (substitutes.masses > 0)[truth.tokens]
    others = others.clamp_min(1)
    if rate is not None:
        flip = possible.to(finest(others.device)) * rate
    else:
        assert tau is not None
        # The chances of a change against none: one of m others, each with weight exp(-1 / tau).
        odds = others.to(finest(others.device)) * math.exp(-1 / tau)
        flip = torch.where(possible, odds / (1 + odds), 0)
    return Sites(truth, pool, substitutes, flip, others, inside, place)
