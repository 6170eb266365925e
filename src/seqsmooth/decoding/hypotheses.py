"""Hypotheses: the result of decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from seqsmooth.ops import checks


@dataclass(frozen=True)
class Hypothesis:
    """One sequence for one item.

    Examples:
        >>> told = Hypothesis((4, 9), log_prob=-3.0, score=-1.0, finished=True)  # two words and EOS: -3 / 3
        >>> told.tokens, told.score
        ((4, 9), -1.0)
    """

    tokens: tuple[int, ...]
    """Without BOS and EOS."""
    log_prob: float
    """The model's, of the tokens and of EOS where it was written."""
    score: float
    """The log-probability over the penalty of its length."""
    finished: bool
    """Whether it ended by itself; otherwise it was cut at the greatest length."""


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """n hypotheses for each of B items, on the device; of beam search the best first.

    Examples:
        >>> import torch
        >>> tokens, numbers = torch.tensor([[[4, 9, 0]]]), torch.tensor([[-3.0]])
        >>> found = Hypotheses(tokens, torch.tensor([[2]]), numbers, numbers / 3, torch.tensor([[True]]))
        >>> found.lists()
        [[Hypothesis(tokens=(4, 9), log_prob=-3.0, score=-1.0, finished=True)]]
    """

    tokens: Tensor  # (B, n, T) int64, PAD after the end
    lengths: Tensor  # (B, n) int64, words without EOS
    log_probs: Tensor  # (B, n)
    scores: Tensor  # (B, n); minus infinity, the rest without meaning, where the rules left fewer than n
    finished: Tensor  # (B, n) bool

    def lists(self) -> list[list[Hypothesis]]:
        """The hypotheses of each item on the host, up to n of them."""
        # On the host the look is free, and a NaN would otherwise pass for a hypothesis that was not found.
        broken = sum(map(math.isnan, self.log_probs.flatten().tolist()))
        checks.must(broken == 0, "log_probs", "numbers (is the model sound?)", f"NaN for {broken} hypotheses")
        fields = (self.tokens, self.lengths, self.log_probs, self.scores, self.finished)
        return [
            [
                Hypothesis(tuple(tokens[:length]), log_prob, score, finished)
                for tokens, length, log_prob, score, finished in zip(*item, strict=True)
                if score > -math.inf
            ]
            for item in zip(*(field.tolist() for field in fields), strict=True)
        ]
