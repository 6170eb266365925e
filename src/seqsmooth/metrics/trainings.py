"""Confidence intervals of a difference between two ways to train, when items and trainings are both random.

A score depends on which items were tested and on which seeds were trained. With scores y[s, i] of seed s on item i,

    y[s, i] = mean + a[s] + b[i] + e[s, i],

a bootstrap over items alone sees b and e, the spread over seeds a and e. Both together count e twice: the variance of a
mean over n seeds and N items is

    var(a)/n + var(b)/N + var(e)/(n N)  =  (spread over seeds)/n  +  (bootstrap over items)  -  (what both saw).

All three come from one matrix, the corpus scores of each seed on each resampled corpus: it holds for scores that
are no means, such as BLEU. Few seeds know their spread badly, so the interval takes Student's t with the degrees of
freedom of Welch (1947) and Satterthwaite (1946). A plain hierarchical bootstrap (draw seeds, then items) does neither:
in simulations with three seeds its 95 % intervals hold the truth in 82 to 99 % of the cases, these in 95 to 97 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqsmooth import checks
from seqsmooth.metrics.bootstrap import Floats, as_great, percentiles

LEAST = 3
"""Seeds on each side from which on an interval counts trainings."""


@dataclass(frozen=True)
class Trained:
    """The scores of one way to train.

    Attributes:
        scores: the score of each seed, on the items as they are.
        resampled: the score of each seed on each resampled corpus; the items drawn are the same for all.
    """

    scores: Floats  # (n,)
    resampled: Floats  # (n, M)

    def __post_init__(self) -> None:
        checks.must(self.scores.ndim == 1 and len(self.scores) > 0, "scores", "one a seed", self.scores.shape)
        same = self.resampled.ndim == 2 and len(self.resampled) == len(self.scores)
        checks.must(same, "resampled", f"{len(self.scores)} rows", f"of shape {self.resampled.shape}")

    @classmethod
    def first_of(cls, several: Sequence[Trained]) -> Trained:
        """Several ways to train as one, each by its first seed: how they differ counts as spread over seeds."""
        return cls(np.stack([one.scores[0] for one in several]), np.stack([one.resampled[0] for one in several]))


@dataclass(frozen=True)
class Difference:
    """The difference of two ways to train.

    Attributes:
        value: the mean over the seeds of the first minus that of the second.
        items: the 95 % interval for other items and these trainings: the paired bootstrap.
        trainings: the 95 % interval for other items and other trainings; None where a side has fewer than three.
        p_value: how often chance in the items alone gives a difference as great: the paired bootstrap test.
    """

    value: float
    items: tuple[float, float]
    trainings: tuple[float, float] | None
    p_value: float = 1.0


def compare_trainings(ours: Trained, theirs: Trained, confidence: float = 0.95) -> Difference:
    """Compare two ways to train whose seeds were scored on the same items and the same resampled corpora."""
    same = ours.resampled.shape[1] == theirs.resampled.shape[1]
    checks.must(same, "resampled", "of as many resampled corpora on both sides", "not")
    value = float(ours.scores.mean() - theirs.scores.mean())
    drawn = ours.resampled.mean(0) - theirs.resampled.mean(0)
    items, p_value = percentiles(drawn, confidence), as_great(value, drawn)
    sides = (ours, theirs)
    if min(len(side.scores) for side in sides) < LEAST:
        return Difference(value, items, None, p_value)
    spreads = [float(side.scores.var(ddof=1)) / len(side.scores) for side in sides]
    twice = sum(_seen_twice(side) for side in sides)
    # What both saw is an estimate, too, and may come out greater than either.
    variance = max(sum(spreads) + float(drawn.var(ddof=1)) - twice, *spreads, float(drawn.var(ddof=1)))
    if variance == 0:
        return Difference(value, items, (value, value), p_value)
    known = sum(spread**2 / (len(side.scores) - 1) for spread, side in zip(spreads, sides, strict=True))
    freedom = variance**2 / known if known > 0 else 1e9
    reach = t_quantile((1 + confidence) / 2, freedom) * variance**0.5
    return Difference(value, items, (value - reach, value + reach), p_value)


def _seen_twice(side: Trained) -> float:
    """The variance, in the mean over seeds, of what a seed does on single items and no other seed does."""
    around = side.resampled - side.resampled.mean(1, keepdims=True)
    return float(around.var(0, ddof=1).mean()) / len(side.scores)


def t_quantile(probability: float, freedom: float) -> float:
    """Student's t: with t = sqrt(freedom) tan(x), x has a density proportional to cos(x)^(freedom - 1).

    >>> round(t_quantile(0.975, 4), 2)
    2.78
    """
    rule = "between 0.5, included, and 1, excluded"
    checks.must(0.5 <= probability < 1, "probability", rule, probability)
    checks.must(freedom >= 1, "freedom", "1 or more", freedom)
    # Of a law that is nearly normal nothing is left beyond ten standard deviations: the steps go where the mass is.
    angle = np.linspace(0, np.pi / 2 if freedom < 100 else 10 * freedom**-0.5, 20001)
    density = np.cos(angle) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    found = np.interp(2 * probability - 1, mass / mass[-1], angle)
    return float(np.sqrt(freedom) * np.tan(found))
