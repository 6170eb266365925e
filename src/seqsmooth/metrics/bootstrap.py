"""Confidence intervals of corpus scores, by resampling their items.

A corpus score is a function of sums over items: of counts for BLEU and METEOR, of the items' own scores for a mean. So
a resampled corpus is a row of numbers that say how often each item was drawn, and all resampled scores come from one
product of matrices. What is resampled is the items that are scored, nothing else: not the seed of the training, and not
the document frequencies of CIDEr, which stay those of all references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqsmooth import checks

Floats = NDArray[np.float64]
Total = Callable[[Floats, int], Floats]
PORTION = 2**22  # draws in memory at once


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two systems on the same items.

    Attributes:
        difference: the corpus score of the first minus that of the second.
        low: the lower end of the confidence interval of the difference.
        high: its upper end.
        p_value: how often chance alone gives a difference as great, in either direction.

    Examples:
        >>> from seqsmooth.metrics import rouge_l
        >>> references = {item: ["a man on a horse"] for item in range(20)}
        >>> ours = rouge_l(dict.fromkeys(references, "a man on a horse"), references)
        >>> theirs = rouge_l(dict.fromkeys(references, "two dogs"), references)
        >>> comparison = ours.against(theirs)
        >>> comparison.difference, comparison.low, comparison.high
        (1.0, 1.0, 1.0)
    """

    difference: float
    low: float
    high: float
    p_value: float


def interval(
    statistics: Floats,  # (N, K)
    total: Total,
    confidence: float = 0.95,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile interval of a corpus score; the same seed gives the same interval."""
    check(confidence, resamples, seed)
    return percentiles(resample(statistics, total, resamples=resamples, seed=seed), confidence)


def compare(
    ours: Floats,  # (N, K)
    theirs: Floats,  # (N, K), of the same items
    total: Total,
    confidence: float = 0.95,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """The paired bootstrap test (Koehn 2004) with the shift of Riezler and Maxwell (2005), as sacreBLEU has it.

    Both systems are scored on the same resampled items. The differences around their mean stand for what chance gives
    where the systems are equally good, and the p-value is the share of them that is at least as great as the one seen.
    """
    check(confidence, resamples, seed)
    whole = [float(total(rows.sum(0, keepdims=True), len(rows))[0]) for rows in (ours, theirs)]
    # The same seed draws the same items for both.
    differences = resample(ours, total, resamples=resamples, seed=seed)
    differences = differences - resample(theirs, total, resamples=resamples, seed=seed)
    difference = whole[0] - whole[1]
    return Comparison(difference, *percentiles(differences, confidence), as_great(difference, differences))


def as_great(difference: float, resampled: Floats) -> float:
    """The p-value of a difference: how often the resampled ones are as far from their mean as it is from 0."""
    # A difference of rounding, where both systems say the same, is none.
    beyond = np.abs(resampled - resampled.mean()) >= abs(difference) - 1e-12
    return (int(beyond.sum()) + 1) / (len(resampled) + 1)


def resample(
    statistics: Floats,  # (N, K)
    total: Total,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Floats:  # (resamples,)
    """Score `resamples` corpora of as many items, drawn with replacement."""
    return total(resampled_sums(statistics, resamples=resamples, seed=seed), len(statistics))


def resampled_sums(
    statistics: Floats,  # (N, K), of one system, or of many side by side
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Floats:  # (resamples, K)
    """Sum the statistics of the items that are drawn; the seed alone decides which."""
    return np.concatenate([times @ statistics for times in _draws(len(statistics), resamples, seed)])


def check(confidence: float, resamples: int, seed: int) -> None:
    """Check what an interval is asked for with."""
    rule = "between 0 and 1, both excluded"
    checks.must(0 < checks.fraction("confidence", confidence) < 1, "confidence", rule, confidence)
    checks.at_least("resamples", resamples, 1)
    checks.at_least("seed", seed, 0)


def _draws(number: int, resamples: int, seed: int) -> Iterator[Floats]:  # each (M, N)
    generator = np.random.default_rng(seed)
    portion = max(1, PORTION // number)
    for start in range(0, resamples, portion):
        rows = min(portion, resamples - start)
        drawn = generator.integers(number, size=(rows, number)) + number * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * number).reshape(rows, number).astype(np.float64)


def percentiles(values: Floats, confidence: float) -> tuple[float, float]:
    """The ends of the middle `confidence` of some values."""
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
