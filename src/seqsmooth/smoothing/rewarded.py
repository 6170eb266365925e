"""`Rewarded`: sequence-level smoothing by any reward, through importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from seqsmooth.ops import checks, targets
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.compaction import compact
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.targets import Draws, Weighting
from seqsmooth.smoothing.law import Tables
from seqsmooth.smoothing.records import Setting, Truth
from seqsmooth.smoothing.sequence_law import SequenceLaw, measure_changes

WEIGHTINGS: tuple[Weighting, ...] = ("tilted", "literal", "batch")


class Proposal(Protocol):
    """A law q(y|y*) that can be sampled: `Hamming`, `Edit`, or one of your own."""

    alpha: float
    known_probability: bool
    """Whether draws come with their probability, as weights="literal" needs."""

    def draw(self, truth: Truth, count: int, generator: Generator | None) -> Draws:
        """`count` samples of each sequence."""
        ...

    def prepare(self, setting: Setting) -> Tables | None:
        """Compute what can be computed once for an objective."""
        ...

    def signature(self) -> str:
        """Words that tell this law from any other."""
        ...


class Rewarded(SequenceLaw):
    """Samples of a proposal q, weighted by a reward R: Eq. 8 for BLEU, CIDEr or anything else, by Eq. 11 and 12.

    What is estimated depends on `weights`; the effective sample size tells how well.

    - "tilted": w = softmax over the samples of R / tau. The target law is proportional to q(y|y*) exp(R / tau).
    - "literal": w = softmax of R / tau - ln q, the paper's Eq. 11. The target law is proportional to exp(R / tau) over
      every sequence that q reaches. Nearly all of those are junk, so at the authors' temperatures one sample takes
      nearly all the weight.
    - "batch": w = exp(R / tau) over its mean in the batch, which is what the authors' code does with one sample. It
      weighs sentences against each other, so micro-batches are not a batch.

    Args:
        reward: any callable from candidates (B, L, T) and references (B, R, S), ids without PAD, BOS and EOS and
            right-padded with negative numbers, to scores (B, L). See `seqsmooth.rewards`.
        proposal: where the samples come from.
        tau: temperature of the reward.
        samples: L; at least 2 unless `weights` is "batch", for a single normalised weight is always 1 and the reward
            would do nothing.
        alpha: share of this law; the rest stays on the ground truth.
        weights: see above.
        against: "references", what the reward compares with, or "target": the ground truth alone.

    Examples:
        >>> import seqsmooth as ss
        >>> def sevens(candidates, references):  # (B, L, T), (B, R, S) -> (B, L)
        ...     return (candidates == 7).sum(-1).float()
        >>> law = Rewarded(sevens, ss.Hamming(rate=0.5), tau=0.1, samples=20, against="target")
        >>> objective = ss.Objective(law, lazy=False, specials=ss.Specials(bos=0), vocab_size=9)
        >>> candidates = objective.propose(torch.tensor([[4, 5, 6]]), generator=torch.Generator().manual_seed(0))
        >>> best = candidates.weights.argmax()  # 20 samples; what has most sevens weighs most
        >>> bool((candidates.sequences[0, best] == 7).sum() == (candidates.sequences == 7).sum(-1).max())
        True
        >>> bool(1 <= candidates.ess < 20)
        True
    """

    name = "rewarded"

    def __init__(
        self,
        reward: Callable[[Tensor, Tensor], Tensor],
        proposal: Proposal,
        tau: float,
        samples: int,
        alpha: float = 1.0,
        *,
        weights: Weighting = "tilted",
        against: Literal["references", "target"] = "references",
    ) -> None:
        super().__init__(alpha)
        able = callable(reward) and not isinstance(reward, type)
        checks.must(able, "reward", "callable, as Bleu()", checks.describe(reward))
        drawable = hasattr(proposal, "draw") and not isinstance(proposal, type)
        rule = "a law with `draw`, such as Hamming(tau=0.3)"
        checks.must(drawable, "proposal", rule, checks.describe(proposal))
        checks.must(proposal.alpha == 1, "proposal.alpha", "left at 1 (the share goes to Rewarded)", proposal.alpha)
        for unused in ("samples", "integrate"):
            given = getattr(proposal, unused, None)
            rule = "left out (Rewarded says how many are drawn, and predicts what was drawn)"
            checks.must(given in (None, True), f"proposal.{unused}", rule, given)
        checks.one_of("weights", weights, WEIGHTINGS)
        checks.one_of("against", against, ("references", "target"))
        self.tau = checks.positive("tau", tau)
        self.samples = checks.at_least("samples", samples, 1)
        if weights != "batch":
            checks.must(
                samples >= 2,
                "samples",
                f"2 or more with weights={weights!r} (a single normalised weight is 1 whatever the reward)",
                samples,
            )
        if weights == "literal":
            rule = "a law that tells the probability of its draws, such as Hamming, with weights='literal'"
            checks.must(proposal.known_probability, "proposal", rule, checks.describe(proposal))
        self.in_kernels = type(self).importance_weights is Rewarded.importance_weights
        self.reward = reward
        self.proposal = proposal
        self.weights: Weighting = weights
        self.against: Literal["references", "target"] = against

    @property
    def vocab_size(self) -> int | None:
        """V, if the proposal knows it."""
        known: int | None = getattr(self.proposal, "vocab_size", None)
        return known

    def prepare(self, setting: Setting) -> Tables | None:
        """Prepare the proposal, which draws and does nothing else."""
        return self.proposal.prepare(replace(setting, token=None))

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Candidates:
        """Draw, score, weigh."""
        draws = self.proposal.draw(truth, self.samples, generator)
        return targets.weigh(truth, draws, self._score(truth, draws), self, lazy=lazy)

    def importance_weights(
        self,
        scores: Tensor,  # (B, L)
        draws: Draws,
        real: Tensor,  # (B,) bool, items with any position
    ) -> tuple[Tensor, Tensor]:  # (B, L), ()
        """Weights omega_l of the samples: Eq. 11, softmax of R_l / tau - ln q_l, where `weights` is "literal".

        "tilted" leaves ln q_l out, and "batch" divides exp(R_l / tau) by its mean over the batch. The effective number
        of samples of an item is (sum w)^2 / sum w^2, on average.
        """
        # The best score is taken off before dividing, so that no temperature overflows; softmax does not mind.
        best = scores.amax(-1, keepdim=True)
        if self.weights == "batch" and scores.numel():
            best = best.masked_fill(~real.unsqueeze(-1), torch.finfo(best.dtype).min).amax()
        logits = (scores - best) / max(self.tau, torch.finfo(scores.dtype).tiny)  # whose inverse is a number too
        if draws.log_base is not None:
            logits = logits + draws.log_base
        if self.weights == "batch":
            logits = logits.masked_fill(~real.unsqueeze(-1), -torch.inf)
            shares = logits.flatten().softmax(0).nan_to_num(0.0)
            ess = 1 / shares.square().sum() / real.sum()
            return (shares * real.sum()).view(logits.shape), ess
        if self.weights == "literal":
            assert draws.log_prob is not None
            logits = logits - draws.log_prob
        weights = logits.softmax(-1)
        ess = 1 / weights.square().sum(-1)
        return weights, (ess * real).sum() / real.sum().clamp_min(1)

    def change_rate(self, truth: Truth) -> Tensor:  # ()
        """The rate of the proposal, before the weights."""
        rate: Callable[[Truth], Tensor] | None = getattr(self.proposal, "change_rate", None)
        return measure_changes(self.proposal.draw, truth) if rate is None else rate(truth)

    def remark(self, setting: Setting) -> str:
        """That of the proposal."""
        remark: Callable[[Setting], str] | None = getattr(self.proposal, "remark", None)
        return "" if remark is None else remark(setting)

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """Reward, proposal, temperature, samples, weights, mixing."""
        return {
            "reward": self.reward,
            "proposal": self.proposal,
            "tau": self.tau,
            "samples": self.samples,
            "weights": self.weights,
            "against": self.against,
            "alpha": self.alpha,
        }

    @torch.no_grad()
    def _score(self, truth: Truth, draws: Draws) -> Tensor:  # (B, L)
        boundaries = truth.setting.specials.boundaries()
        candidates = compact(draws.tokens, draws.mask, boundaries)
        if self.against == "target":
            base = targets.truth(truth) if draws.truth is None else draws.truth
            references = compact(base.sequences, base.mask, boundaries)
        else:
            given = truth.references
            checks.must(
                given is not None,
                "references",
                "given for a reward (or say against='target' to score against the ground truth alone)",
                None,
            )
            assert given is not None
            references = compact(given, None, boundaries)
        scores = self.reward(candidates, references)
        checks.shape("reward's result", scores, *candidates.shape[:2], letters="(B, L)")
        checks.must(not scores.is_complex(), "reward's result", "of real numbers", scores.dtype)
        if checks.visible(scores):
            finite = bool(scores.isfinite().all())
            checks.must(finite, "reward's result", "finite everywhere", "NaN or infinite somewhere")
        return scores
