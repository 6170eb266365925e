"""What travels between the parts: the truth, a measure on sequences, candidates, a loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.smoothing.specials import Specials, is_any


@dataclass(frozen=True, eq=False)
class Truth:
    """The ground truth of a batch, as the sequence laws see it."""

    tokens: Tensor  # (B, T) int64; a harmless id where there is no position
    mask: Tensor  # (B, T) bool, the positions
    references: Tensor | None  # (B, R, S) int64, padded with PAD or any negative id
    specials: Specials
    vocab_size: int | None

    @property
    def movable(self) -> Tensor:  # (B, T) bool
        """Positions that a sequence law may change."""
        return self.mask & ~is_any(self.tokens, self.specials.ids("frozen"))


@dataclass(frozen=True, eq=False)
class Draws:
    """Sequences drawn from a proposal q(y|y*)."""

    tokens: Tensor  # (B, L, T)
    mask: Tensor  # (B, L, T) bool
    log_prob: Tensor | None  # (B, L) ln q, or None where it has no closed form
    log_base: Tensor | None = None  # (B, L) ln of a weight each draw carries beforehand; None for plain samples


@dataclass(frozen=True, eq=False)
class Measure:
    """A measure on target sequences, sum_k w_k delta(y^k), laid over the prefixes that are to be decoded.

    Prefix 0 is always the ground truth. Lazy measures have no other (K' = 1).
    """

    tokens: Tensor  # (B, K', T) prefixes to decode
    mask: Tensor  # (B, K', T) bool
    weights: Tensor  # (B, K') weight of each prefix
    target: SoftTarget  # of shape (B, K', T): the tokens to predict, before any token law
    ess: Tensor  # () effective sample size; infinite where nothing is sampled


@dataclass(frozen=True, eq=False)
class Candidates:
    """What to decode, and what the decoder should then predict.

    `sequences` are whole target sequences, y_1 .. y_T; `inputs` are what a decoder that predicts y_t from y_<t reads.
    """

    sequences: Tensor  # (B, K', T) int64; K' = 1 when lazy
    mask: Tensor  # (B, K', T) bool
    weights: Tensor  # (B, K')
    target: SoftTarget  # of shape (B, K', T)
    labels: Tensor  # (B, K', T) the ground truth on its own prefix, -100 elsewhere: for the plain NLL
    count: Tensor  # () number of ground-truth positions
    ess: Tensor  # ()
    bos: int | None
    maker: int
    """Which objective these are for."""

    @property
    def inputs(self) -> Tensor:  # (B, K', T)
        """Decoder inputs for teacher forcing, `shifted` by the BOS of the objective's specials."""
        rule = "given for `inputs` (or take `shifted(start)` with the token your decoder starts from)"
        checks.must(self.bos is not None, "specials.bos", rule, None)
        assert self.bos is not None
        return self.shifted(self.bos)

    def shifted(
        self,
        bos: int,
    ) -> Tensor:  # (B, K', T)
        """Decoder inputs for teacher forcing: BOS, y_1 .. y_{T-1}."""
        checks.at_least("bos", bos, 0)
        return torch.cat([torch.full_like(self.sequences[..., :1], bos), self.sequences[..., :-1]], -1)


@dataclass(frozen=True, eq=False)
class Loss:
    """The result of an objective."""

    total: Tensor
    """What to minimise: a scalar, or with `reduction="none"` one number a position of the decoded sequences."""
    nll: Tensor
    """The unsmoothed negative log-likelihood of the ground truth, reduced alike, without gradient."""
    tokens: Tensor
    """() number of ground-truth positions in this call."""
    ess: Tensor
    """() effective number of samples of an item, (sum w)^2 / sum w^2, on average; infinite where nothing is sampled."""


def stack_atoms(
    truth: Truth,
    draws: Draws,
    weights: Tensor,  # (B, L) of the draws
    alpha: float,
    *,
    lazy: bool,
    ess: Tensor,  # ()
) -> Measure:
    """The measure (1 - alpha) delta(y*) + alpha sum_l w_l delta(y^l), over one prefix or over each atom's own."""
    longer = draws.tokens.shape[-1] - truth.tokens.shape[-1]
    first = torch.nn.functional.pad(truth.tokens, (0, longer), value=truth.specials.filler).unsqueeze(1)
    first_mask = torch.nn.functional.pad(truth.mask, (0, longer), value=False).unsqueeze(1)
    tokens = torch.cat([first, draws.tokens], 1)
    weights = torch.cat([torch.full_like(weights[:, :1], 1 - alpha), alpha * weights], 1)
    if lazy:
        slots = tokens.transpose(1, 2).unsqueeze(1)
        target = SoftTarget(slots, weights[:, None, None, :].expand(slots.shape))
        return Measure(first, first_mask, torch.ones_like(weights[:, :1]), target, ess)
    mask = torch.cat([first_mask, draws.mask], 1)
    target = SoftTarget(tokens.unsqueeze(-1), weights[:, :, None, None].expand(*tokens.shape, 1))
    return Measure(tokens, mask, weights, target, ess)
