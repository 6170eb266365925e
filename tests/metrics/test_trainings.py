from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from seqsmooth.metrics.bootstrap import compare, percentiles, resampled_sums
from seqsmooth.metrics.scores import mean
from seqsmooth.metrics.trainings import Trained, compare_trainings, t_quantile

ITEMS, RESAMPLES = 100, 200


def trained(scores: np.ndarray, seed: int) -> Trained:
    """Of the scores of seeds on items, (n, N)."""
    sums = resampled_sums(scores.T, resamples=RESAMPLES, seed=seed)
    return Trained(scores.mean(1), sums.T / scores.shape[1])


def drawn(source: np.random.Generator, seeds: int, spread: float, shared: np.ndarray) -> np.ndarray:
    """A way to train whose true score is 0: seeds, items, and what a seed does on an item, all by a normal law."""
    items = shared + source.normal(0, 0.2, ITEMS)
    return source.normal(0, spread, (seeds, 1)) + items + source.normal(0, 0.4, (seeds, ITEMS))


@pytest.mark.parametrize(
    ("one", "other", "spread"), [(5, 5, 0.0), (5, 5, 0.05), (5, 5, 0.2), (3, 3, 0.05), (3, 3, 0.2), (3, 5, 0.2)]
)
def test_intervals_hold_the_truth_as_often_as_they_say(one: int, other: int, spread: float) -> None:
    source = np.random.default_rng(0)
    times, held, of_items, plain = 300, 0, 0, 0
    for seed in range(times):
        shared = source.normal(0, 0.5, ITEMS)
        ours, theirs = (trained(drawn(source, seeds, spread, shared), seed) for seeds in (one, other))
        made = compare_trainings(ours, theirs)
        assert made.trainings is not None
        held += made.trainings[0] <= 0 <= made.trainings[1]
        of_items += made.items[0] <= 0 <= made.items[1]
        again = [source.integers(seeds, size=(RESAMPLES, seeds)) for seeds in (one, other)]
        each = [
            side.resampled[which, np.arange(RESAMPLES)[:, None]].mean(1)
            for side, which in zip((ours, theirs), again, strict=True)
        ]
        low, high = percentiles(each[0] - each[1], 0.95)
        plain += low <= 0 <= high
    # The share of 300 intervals that hold the truth with a probability of .95 has a standard deviation of .013.
    assert 0.92 <= held / times <= 0.985
    if spread == 0.2:
        assert of_items / times < 0.5, "items alone say nothing of other trainings"
        assert plain / times < 0.92, "and drawing seeds again is not enough where there are few"


def test_the_interval_over_items_is_the_paired_bootstrap() -> None:
    source = np.random.default_rng(1)
    ours, theirs = source.normal(size=(2, 2, ITEMS))
    made = compare_trainings(trained(ours, 7), trained(theirs, 7))
    each = [rows.mean(0)[:, None] for rows in (ours, theirs)]
    known = compare(each[0], each[1], mean, resamples=RESAMPLES, seed=7)
    assert made.value == pytest.approx(known.difference)
    assert made.items == pytest.approx((known.low, known.high))
    assert made.trainings is None, "two seeds know nothing of their spread"


def test_without_items_it_is_welch_and_without_seeds_the_bootstrap() -> None:
    ours, theirs = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.7, 0.6, 0.9])
    still = [Trained(side, np.repeat(side[:, None], 50, 1)) for side in (ours, theirs)]
    made = compare_trainings(*still)
    error = ours.var(ddof=1) / 3 + theirs.var(ddof=1) / 4
    freedom = error**2 / ((ours.var(ddof=1) / 3) ** 2 / 2 + (theirs.var(ddof=1) / 4) ** 2 / 3)
    reach = student.ppf(0.975, freedom) * error**0.5
    value = ours.mean() - theirs.mean()
    assert made.trainings == pytest.approx((value - reach, value + reach))
    noise = np.random.default_rng(0).normal(size=2000)
    alike = Trained(np.ones(3), np.ones((3, 1)) + noise), Trained(np.zeros(3), np.zeros((3, 2000)))
    reach = student.ppf(0.975, 1e9) * noise.std(ddof=1)
    assert compare_trainings(*alike).trainings == pytest.approx((1 - reach, 1 + reach), rel=1e-6)
    nothing = Trained(np.ones(3), np.ones((3, 5)))
    assert compare_trainings(nothing, nothing).trainings == (0.0, 0.0)


@pytest.mark.parametrize("freedom", [1, 2, 4.7, 30, 99, 101, 1e6])
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.975, 0.9995])
def test_the_quantiles_are_those_of_student(probability: float, freedom: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(student.ppf(probability, freedom), rel=1e-6)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="`resampled` must be 2 rows"):
        Trained(np.zeros(2), np.zeros((3, 4)))
    with pytest.raises(ValueError, match="as many resampled corpora on both sides"):
        compare_trainings(Trained(np.zeros(2), np.zeros((2, 4))), Trained(np.zeros(2), np.zeros((2, 5))))
    with pytest.raises(ValueError, match="`freedom` must be 1 or more"):
        t_quantile(0.9, 0.5)
