"""The scores of a corpus, with intervals and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqsmooth.metrics import bootstrap
from seqsmooth.metrics.evaluation_set import EvaluationSet, Id
from seqsmooth.version import __version__

Floats = NDArray[np.float64]


class Absent(ValueError):
    """A metric cannot be calculated here; the sentence says what it needs.

    Examples:
        >>> from seqsmooth.metrics import spice
        >>> try:
        ...     scores = spice({1: "a dog"}, {1: ["a dog"]}, corenlp="no/such/folder")
        ... except Absent as reason:
        ...     print("left out of the table")
        left out of the table
    """


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Mapping[Id, float]):
    """The scores of one system by one metric: a mapping from ids to the scores of single items, and more.

    Attributes:
        metric: its name, as tables print it.
        value: the score of the corpus, in the unit of the tool that defined the metric.
        each: the score of each item.
        signature: names the metric exactly, its references included: only numbers of one signature compare.
        statistics: what the corpus score is calculated from, one row an item: counts, or the score itself.
        total: from sums of rows of `statistics` (M, K), and the number of rows in each sum, to corpus scores (M,).
        scale: what papers multiply `value` by: 100, or 1 where it is in points already.

    Examples:
        >>> from seqsmooth.metrics import rouge_l
        >>> references = {1: ["a man on a horse"], 2: ["two dogs"]}
        >>> ours = rouge_l({1: "a man on a horse", 2: "two cats"}, references)
        >>> ours.metric, ours.value, ours[1], ours[2]  # the mean of the items
        ('ROUGE-L', 0.75, 1.0, 0.5)
        >>> theirs = rouge_l({1: "a dog", 2: "two cats"}, references)
        >>> ours.against(theirs).difference > 0
        True
    """

    metric: str
    value: float
    each: Mapping[Id, float]
    signature: str
    statistics: Floats  # (N, K)
    total: Callable[[Floats, int], Floats]
    scale: float = 100.0

    def __getitem__(self, key: Id) -> float:
        return self.each[key]

    def __iter__(self) -> Iterator[Id]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __repr__(self) -> str:
        return f"Scores({self.metric} {self.value:.4f} of {len(self)} items, {self.signature})"

    def interval(self, confidence: float = 0.95, *, resamples: int = 1000, seed: int = 0) -> tuple[float, float]:
        """A bootstrap confidence interval of the corpus score: percentiles over resampled items (Efron 1979)."""
        return bootstrap.interval(self.statistics, self.total, confidence, resamples=resamples, seed=seed)

    def against(
        self, other: Scores, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> bootstrap.Comparison:
        """Compare two systems on the same items: this one minus the `other`."""
        if self.signature != other.signature:
            raise ValueError(
                f"Two scores compare where their signatures are the same, but these are {self.signature} and "
                f"{other.signature}."
            )
        if list(self) != list(other):
            raise ValueError("Two scores compare where their items are the same, in the same order.")
        both = (self.statistics, other.statistics)
        return bootstrap.compare(*both, self.total, confidence, resamples=resamples, seed=seed)


def mean(sums: Floats, number: int) -> Floats:
    """The corpus score that is the mean of the items' scores: `total` of most metrics."""
    return sums[:, 0] / number


def mean_scores(
    metric: str,
    name: str,
    corpus: EvaluationSet,
    each: Sequence[float] | Floats,  # (N,)
    tokenised: str,
    version: str = f"seqsmooth-{__version__}",
) -> Scores:
    """Make the scores of a metric whose corpus score is the mean of the items'; `name` is for the signature."""
    values = np.asarray(each, dtype=np.float64)
    items = dict(zip(corpus.ids, values.tolist(), strict=True))
    return Scores(metric, float(values.mean()), items, sign(name, corpus, tokenised, version), values[:, None], mean)


def sign(name: str, corpus: EvaluationSet, tokenised: str, version: str = f"seqsmooth-{__version__}") -> str:
    """Name a metric, in the manner of sacreBLEU."""
    known = f"nrefs:{corpus.number_of_references()}|items:{len(corpus)}|refs:{corpus.checksum}"
    return f"{name}|tok:{tokenised}|{known}|version:{version}"
