"""From the targets of a batch to what should be predicted: the truth itself, its expectation under a law, or samples.

`truth`, `expectation`, `samples`, `draws` and `weigh` are a launch or two of kernels where those run
(`seqsmooth.ops.kernels.targets`), and plain torch elsewhere; the others are plain torch. The laws come from
`seqsmooth.smoothing`: a kernel takes their numbers, plain torch calls their formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks, dispatch
from seqsmooth.ops.candidates import Candidates, shift
from seqsmooth.ops.dispatch import finest
from seqsmooth.ops.pools import Pool, is_any
from seqsmooth.ops.sampling import Generator, uniforms
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import RowTable

Weighting = Literal["tilted", "literal", "batch"]


@dataclass(frozen=True, eq=False)
class Source:
    """Target sequences, and how to read them."""

    targets: Tensor  # (B, T) int64
    ignored: tuple[int, ...]
    """Ids that mark places without a position: there is nothing to predict."""
    filler: int
    """The id written at such places."""
    bos: int | None
    """The token a decoder reads first, if that is known."""
    frozen: tuple[int, ...]
    """Tokens that no law changes."""
    undrawn: tuple[int, ...]
    """Tokens that no law puts in."""
    maker: int
    """Which objective asks."""

    @property
    def uses_kernels(self) -> bool:
        """Whether kernels read these targets."""
        return 0 < self.targets.numel() < 2**31 and dispatch.uses_kernels(self.targets)

    @property
    def mask(self) -> Tensor:  # (B, T) bool
        """Where there is a token to predict."""
        first, *others = self.ignored
        mask = self.targets != first
        for token in others:
            mask = mask & (self.targets != token)
        return mask

    @property
    def tokens(self) -> Tensor:  # (B, T)
        """The targets, with the filler where there is no position."""
        return torch.where(self.mask, self.targets, self.filler)

    @property
    def inputs(self) -> Tensor:  # (B, T)
        """Decoder inputs for teacher forcing: BOS, and the tokens but the last."""
        checks.must(self.bos is not None, "specials.bos", "given, for the decoder starts from it", None)
        assert self.bos is not None
        return shift(self.tokens, self.bos)


@dataclass(frozen=True, eq=False)
class Draws:
    """Sequences drawn from a proposal q(y|y*)."""

    tokens: Tensor  # (B, L, T')
    mask: Tensor  # (B, L, T') bool
    log_prob: Tensor | None  # (B, L) ln q, or None where it has no closed form
    log_base: Tensor | None = None  # (B, L) ln of a weight each draw carries beforehand; None for plain samples
    truth: Candidates | None = None
    """The ground truth; where a kernel drew, the draws are further slots of its target."""


class ChangeLaw(Protocol):
    """A law under which each position changes on its own, into the other tokens of its pool: `Hamming`."""

    tau: float | None
    rate: float | None
    in_kernels: bool
    """Whether kernels have the formulas below."""

    def flip_probability(
        self,
        others: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T)
        """The probability that a position changes that has so many other tokens to change into."""
        ...

    def background(
        self,
        pi: Tensor,  # (B, T)
        others: Tensor,  # (B, T)
        inside: Tensor,  # (B, T) bool
    ) -> Tensor:  # (B, T)
        """The share of a position's law that is the row of its pool; the rest stays on the token."""
        ...


class WeighingLaw(Protocol):
    """A law that weighs samples by their scores: `Rewarded`."""

    tau: float
    alpha: float
    weights: Weighting
    in_kernels: bool
    """Whether kernels have the formula below."""

    def importance_weights(
        self,
        scores: Tensor,  # (B, L)
        draws: Draws,
        real: Tensor,  # (B,) bool
    ) -> tuple[Tensor, Tensor]:  # (B, L), ()
        """Weights of the samples, and their effective number; `real` are the items with any position."""
        ...


def truth(
    source: Source,
    *,
    share: float = 0.0,
    table: RowTable | None = None,
) -> Candidates:
    """All mass on the ground truth, but for a share that goes to the rows of a table, if there is one."""
    if source.uses_kernels:
        result: Candidates = dispatch.kernels("targets").truth(source, share, table)
        return result
    mask = source.mask
    labels = torch.where(mask, source.targets, IGNORED).unsqueeze(1)
    ids = labels.unsqueeze(-1)
    weights = torch.ones_like(ids, dtype=finest(ids.device))
    if table is None:
        target = SoftTarget(ids, weights)
    else:
        target = SoftTarget(ids, (1 - share) * weights, (Rows(table, ids, share * weights),))
    return Candidates(
        sequences=torch.where(mask, source.targets, source.filler).unsqueeze(1),
        mask=mask.unsqueeze(1),
        weights=weights.new_ones(labels.shape[:2]),
        target=target,
        labels=labels,
        count=mask.sum(),
        ess=weights.new_full((), math.inf),
        bos=source.bos,
        maker=source.maker,
    )


def expectation(
    source: Source,
    pool: Pool,
    law: ChangeLaw,
    alpha: float,
    table: RowTable | None = None,
    *,
    listed: bool = False,
) -> Candidates:
    """The closed form on the ground truth's prefix: (1 - alpha b) delta(y*_t) + alpha b row, b = `law.background`.

    Args:
        source: the targets.
        pool: where new tokens come from.
        law: how likely they are.
        alpha: share of the law.
        table: what stands for the table of the pool, multiplied by a token law beforehand.
        listed: whether the rows must be lists of tokens, as a token law that multiplies them wants them.
    """
    if _fits(source, pool, law):
        result: Candidates = dispatch.kernels("targets").expectation(source, pool, law, alpha, table, listed=listed)
        return result
    base = truth(source)
    index, background = _marginals(source, base, pool, law)
    spread = alpha * background[:, None, :, None]
    rows = Rows(pool.table if table is None else table, index[:, None, :, None], spread)
    return aim(base, SoftTarget(base.target.ids, 1 - spread, (rows,)))


def samples(
    source: Source, pool: Pool, law: ChangeLaw, count: int, generator: Generator | None, alpha: float
) -> Candidates:
    """Samples of equal weight beside the truth, on the ground truth's prefix."""
    if _fits(source, pool, law):
        result: Candidates = dispatch.kernels("targets").samples(source, pool, law, count, generator, alpha)
        return result
    drawn = draws(source, pool, law, count, generator)
    return stack(source, drawn, alpha, lazy=True)


def draws(source: Source, pool: Pool, law: ChangeLaw, count: int, generator: Generator | None) -> Draws:
    """`count` independent samples of each sequence, with their probability."""
    if _fits(source, pool, law):
        result: Draws = dispatch.kernels("targets").draws(source, pool, law, count, generator)
        return result
    base = truth(source)
    flip, *others = (part.unsqueeze(1) for part in chances(source, base, pool, law))  # (B, 1, T) each
    tokens = base.sequences
    points = uniforms((tokens.shape[0], count, tokens.shape[2]), tokens, generator)
    changed = points < flip
    # Below the chance of a change, the same number over that chance is uniform again: it picks the new token.
    again = torch.where(changed, points / flip, 0)
    new, log_share = pool.replace(tokens, again, (others[0], others[1], others[2]), generator)
    log_prob = torch.where(changed, flip.log() + log_share, torch.log1p(-flip)).sum(-1)
    return Draws(torch.where(changed, new, tokens), base.mask.expand(points.shape), log_prob, truth=base)


def integrate(
    source: Source, sampled: Candidates, pool: Pool, law: ChangeLaw, table: RowTable | None = None
) -> Candidates:
    """Candidates on the samples' own prefixes, each token to predict there replaced by its law (Rao-Blackwell)."""
    index, background = _marginals(source, sampled, pool, law)
    count = sampled.weights.shape[1]
    first = torch.arange(count, device=background.device) == 0
    of_truth, of_samples = sampled.weights * first, sampled.weights * ~first
    weights = of_truth.unsqueeze(-1) + of_samples.unsqueeze(-1) * (1 - background).unsqueeze(1)
    ids = sampled.labels[:, :1].expand(-1, count, -1).unsqueeze(-1)
    rows = Rows(
        pool.table if table is None else table,
        index[:, None, :, None].expand(-1, count, -1, -1),
        of_samples[:, :, None, None] * background[:, None, :, None],
    )
    return aim(sampled, SoftTarget(ids, weights.unsqueeze(-1), (rows,)))


def stack(
    source: Source,
    drawn: Draws,
    alpha: float,
    weights: Tensor | None = None,  # (B, L)
    ess: Tensor | None = None,  # ()
    *,
    lazy: bool,
) -> Candidates:
    """(1 - alpha) delta(y*) + alpha sum_l w_l delta(y^l), over one prefix or over each sequence's own.

    Weights are all alike by default.
    """
    base = truth(source) if drawn.truth is None else drawn.truth
    if weights is None or ess is None:
        count = drawn.tokens.shape[1]
        weights = torch.full(drawn.tokens.shape[:2], 1 / count, dtype=finest(base.mask.device), device=base.mask.device)
        ess = weights.new_full((), count)
    weights = torch.cat([torch.full_like(weights[:, :1], 1 - alpha), alpha * weights], 1)
    if lazy:
        kept = torch.where(drawn.mask, drawn.tokens, IGNORED)
        slots = torch.cat([base.labels, kept], 1).transpose(1, 2).unsqueeze(1)
        return aim(base, SoftTarget(slots, weights[:, None, None, :].expand(slots.shape)), ess)
    longer, more = drawn.tokens.shape[-1] - base.labels.shape[-1], drawn.tokens.shape[1]
    mask = torch.cat([F.pad(base.mask, (0, longer)), drawn.mask], 1)
    tokens = torch.cat([F.pad(base.sequences, (0, longer)), drawn.tokens], 1)
    slots = torch.where(mask, tokens, IGNORED).unsqueeze(-1)
    return Candidates(
        sequences=torch.where(mask, tokens, source.filler),
        mask=mask,
        weights=weights,
        target=SoftTarget(slots, weights[:, :, None, None].expand(slots.shape)),
        labels=F.pad(base.labels, (0, longer, 0, more), value=IGNORED),
        count=base.count,
        ess=ess,
        bos=source.bos,
        maker=source.maker,
    )


def weigh(source: Source, drawn: Draws, scores: Tensor, law: WeighingLaw, *, lazy: bool) -> Candidates:
    """The stack of draws that a law weighs by their scores (B, L)."""
    beside = drawn.truth
    laid_out = beside is not None and beside.target.ids.shape[-1] > 1
    if beside is not None and laid_out and lazy and law.in_kernels and scores.is_floating_point():
        kernels = dispatch.kernels("importance")
        if scores.shape[1] <= kernels.MOST_SAMPLES:
            log_prob, batchwise = drawn.log_prob if law.weights == "literal" else None, law.weights == "batch"
            mask = beside.mask.squeeze(1)
            weights, ess = kernels.importance(scores, log_prob, mask, law.tau, law.alpha, batchwise=batchwise)
            return aim(beside, SoftTarget(beside.target.ids, weights.unsqueeze(1)), ess)
    real = source.mask.any(-1)
    weights, ess = law.importance_weights(scores.to(finest(scores.device)), drawn, real)
    return stack(source, drawn, law.alpha, weights, ess, lazy=lazy)


def aim(candidates: Candidates, target: SoftTarget, ess: Tensor | None = None) -> Candidates:
    """Candidates with the same prefixes and another target."""
    if target is candidates.target:
        return candidates
    return Candidates(
        candidates.sequences,
        candidates.mask,
        candidates.weights,
        target,
        candidates.labels,
        candidates.count,
        candidates.ess if ess is None else ess,
        candidates.bos,
        candidates.read,
        candidates.maker,
    )


def chances(
    source: Source, base: Candidates, pool: Pool, law: ChangeLaw
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (B, T) each
    """The probability of a change at each position of the ground truth; m, whether its token is in the pool, where."""
    tokens = base.sequences[:, 0]
    others, inside, place = pool.others(tokens)
    possible = base.mask[:, 0] & ~is_any(tokens, source.frozen) & (others > 0)
    others = others.clamp_min(1)
    pi = torch.where(possible, law.flip_probability(others), 0)
    return pi, others, inside, place


def _marginals(source: Source, base: Candidates, pool: Pool, law: ChangeLaw) -> tuple[Tensor, Tensor]:  # (B, T) twice
    """The row of a table that each position takes a share of, and that share."""
    pi, others, inside, _ = chances(source, base, pool, law)
    return pool.index(base.labels[:, 0]), law.background(pi, others, inside)


def _fits(source: Source, pool: Pool, law: ChangeLaw) -> bool:
    """Whether kernels take these targets, this pool and this law."""
    if not (pool.alike and law.in_kernels and source.uses_kernels):
        return False
    return bool(source.targets.shape[1] <= dispatch.kernels("targets").MOST_STEPS)
