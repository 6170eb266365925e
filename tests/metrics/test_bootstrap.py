"""The intervals hold what they promise, and the test of two systems raises as few false alarms as it says."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from scipy import stats

import seqsmooth as ss
from seqsmooth.metrics import bootstrap, coco_bleu
from seqsmooth.metrics.evaluation_set import EvaluationSet
from seqsmooth.metrics.scores import mean

bleu_4 = partial(coco_bleu.total, order=4)


def noisy(seed: int, items: int, kept: float) -> tuple[dict[int, list[str]], dict[int, list[list[str]]]]:
    """References of random words, and a system that gets each word right with the chance `kept`."""
    draw = random.Random(seed)
    words = [f"w{place}" for place in range(30)]
    references = {key: [draw.choices(words, k=draw.randint(6, 14)) for _ in range(2)] for key in range(items)}
    hypotheses = {
        key: [word if draw.random() < kept else draw.choice(words) for word in several[0]]
        for key, several in references.items()
    }
    return hypotheses, references


def population(seed: int, kept: float, items: int = 2000) -> np.ndarray:
    """The counts of many items, to draw corpora from whose true score is known."""
    hypotheses, references = noisy(seed, items, kept)
    return coco_bleu.score_bleus(EvaluationSet.align(hypotheses, references))[3].statistics


def test_a_resampled_corpus_is_scored_as_if_it_were_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hypotheses, references = noisy(0, 12, 0.8)
    scores = ss.metrics.bleu(hypotheses, references)
    seen: list[np.ndarray] = []
    draws = bootstrap._draws

    def watched(*how: int):
        for times in draws(*how):
            seen.append(times)
            yield times

    monkeypatch.setattr(bootstrap, "_draws", watched)
    values = bootstrap.resample(scores.statistics, scores.total, resamples=20, seed=3)
    times = np.concatenate(seen)
    assert times.shape == (20, 12)
    assert (times.sum(1) == 12).all()
    assert len({tuple(row) for row in times.tolist()}) == 20
    for row, value in zip(times.astype(int), values, strict=True):
        drawn = [key for key, number in enumerate(row) for _ in range(number)]
        gold = {place: [" ".join(one) for one in references[key]] for place, key in enumerate(drawn)}
        told = {place: [" ".join(hypotheses[key])] for place, key in enumerate(drawn)}
        assert value == pytest.approx(Bleu(4).compute_score(gold, told, verbose=0)[0][3], abs=1e-9)


def test_the_interval_of_a_mean_is_scipys() -> None:
    values = np.random.default_rng(5).gamma(2.0, size=400)
    low, high = bootstrap.interval(values[:, None], mean, 0.9, resamples=20_000, seed=1)
    theirs = stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    # An end of 20,000 resamples is known to a sixtieth of the standard error; five of these are a false alarm in 1e6.
    near = 5 * np.sqrt(2) / 60 * values.std() / 20
    assert (low, high) == pytest.approx(tuple(theirs), abs=near)


def test_everything_follows_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    hypotheses, references = noisy(1, 40, 0.7)
    scores = ss.metrics.cider(hypotheses, references)
    other = ss.metrics.cider(noisy(1, 40, 0.6)[0], references)
    assert scores.interval(seed=4) == scores.interval(seed=4) != scores.interval(seed=5)
    assert scores.against(other, seed=4) == scores.against(other, seed=4) != scores.against(other, seed=5)
    monkeypatch.setattr(bootstrap, "PORTION", 100)  # a few resamples at a time
    low, high = scores.interval(seed=4)
    assert low < scores.value < high


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover_the_truth_as_often_as_they_say(confidence: float) -> None:
    """True corpus BLEU of a known population, 2,000 corpora of 100 items.

    A percentile interval of 100 items may cover a little less than it says: two points less are allowed, and one more.
    Where that is the truth, this test fails by chance in 1 of 10,000 seeds in either direction.
    """
    rows = population(2, 0.8)
    truth = bleu_4(rows.sum(0, keepdims=True), len(rows))[0]
    draw = np.random.default_rng(7)
    corpora = 2000
    covered = 0
    for number in range(corpora):
        corpus = rows[draw.integers(len(rows), size=100)]
        low, high = bootstrap.interval(corpus, bleu_4, confidence, resamples=300, seed=number)
        covered += low <= truth <= high
    assert stats.binom.ppf(1e-4, corpora, confidence - 0.02) <= covered
    assert covered <= stats.binom.isf(1e-4, corpora, confidence + 0.01)


def test_the_paired_test_raises_false_alarms_as_often_as_it_says() -> None:
    """Two systems equally good: p is at most 0.05 in 5 of 100 corpora, give or take 1.5; by chance it fails in 1e-4."""
    first, second = population(3, 0.8), population(3, 0.8)
    rows = np.stack([first, np.roll(second, 1, axis=0)])  # the same items, paired with others
    draw = np.random.default_rng(8)
    corpora = 2000
    alarms = 0
    for number in range(corpora):
        chosen = draw.integers(len(first), size=100)
        made = bootstrap.compare(*rows[:, chosen], bleu_4, resamples=300, seed=number)
        alarms += made.p_value <= 0.05
    assert stats.binom.ppf(1e-4, corpora, 0.035) <= alarms <= stats.binom.isf(1e-4, corpora, 0.065)


def test_a_better_system_is_found_out() -> None:
    hypotheses, references = noisy(4, 300, 0.8)
    worse = {key: [*words[:-2], "x", "y"] for key, words in hypotheses.items()}
    for metric in (ss.metrics.bleu, ss.metrics.cider, ss.metrics.rouge_l, ss.metrics.sacrebleu):
        good, bad = metric(hypotheses, references), metric(worse, references)
        made = good.against(bad)
        assert made.difference == pytest.approx(good.value - bad.value)
        assert 0 < made.low < made.difference < made.high
        assert made.p_value == 1 / 1001
        turned = bad.against(good)
        assert (turned.difference, turned.low, turned.high) == pytest.approx((-made.difference, -made.high, -made.low))


def test_a_system_is_no_better_than_itself() -> None:
    scores = ss.metrics.bleu(*noisy(5, 30, 0.8))
    made = scores.against(scores)
    assert (made.difference, made.low, made.high, made.p_value) == (0, 0, 0, 1)


def test_only_like_scores_compare() -> None:
    hypotheses, references = noisy(6, 5, 0.8)
    bleu, rouge = ss.metrics.bleu(hypotheses, references), ss.metrics.rouge_l(hypotheses, references)
    with pytest.raises(ValueError, match=r"signatures are the same, but these are bleu:4.* and rouge:L"):
        bleu.against(rouge)
    turned = ss.metrics.bleu(hypotheses, dict(reversed(references.items())))
    with pytest.raises(ValueError, match="items are the same, in the same order"):
        bleu.against(turned)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"confidence": 1.0}, "`confidence` must be between 0 and 1, both excluded; it is 1.0."),
        ({"resamples": 0}, "`resamples` must be 1 or more; it is 0."),
        ({"seed": -1}, "`seed` must be 0 or more; it is -1."),
    ],
)
def test_mistakes_are_one_sentence(options: dict[str, float], sentence: str) -> None:
    scores = ss.metrics.bleu(*noisy(6, 5, 0.8))
    for call in (scores.interval, partial(scores.against, scores)):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
            call(**options)
        assert str(raised.value) == sentence
