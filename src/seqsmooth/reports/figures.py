"""The charts of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from statistics import mean
from typing import Any, Protocol

from seqsmooth.reports.behaviour import Behaviour
from seqsmooth.reports.charts import Chart, Series, short
from seqsmooth.reports.table import NAMES

Point = tuple[float, float]


class Row(Protocol):
    """What a chart needs of a row: its label, and the logs of its runs."""

    @property
    def label(self) -> str:
        """Names the row."""

    @property
    def logs(self) -> Sequence[Sequence[Mapping[str, Any]]]:
        """A log for each run."""


def draw_charts(rows: Sequence[Row], seen: Mapping[str, Sequence[Behaviour]], task: str) -> list[Chart]:
    """All charts that the runs have numbers for; `seen` holds the behaviour of each run by the label of its row."""
    what = "Caption" if task == "captions" else "Sentence"
    metric = "cider" if task == "captions" else "sacrebleu"
    charts = [
        Chart(
            "score",
            f"{NAMES[metric]} on validation, by epoch",
            "epoch",
            NAMES[metric],
            _logged(rows, "val", metric),
            note="Decoded after each epoch; the weights of the best epoch are kept.",
        ),
        Chart(
            "validation-nll",
            "NLL on validation, by epoch",
            "epoch",
            "nats a token",
            _logged(rows, "val", "nll"),
            note="Of the references, unsmoothed whatever the loss.",
        ),
        Chart(
            "training-nll",
            "NLL in training, by step",
            "step",
            "nats a token",
            _logged(rows, "train", "nll", by="step"),
            note="Unsmoothed, with dropout. A smoothed loss does not go after it alone.",
        ),
        Chart(
            "lengths",
            f"{what} lengths",
            "words",
            "share",
            _lengths(rows, seen),
            zero=True,
            note="Of what was written for the test items; dashed: the references.",
        ),
        *_recall(rows, seen),
        Chart(
            "calibration",
            "Calibration",
            "confidence",
            "accuracy",
            [_observed(n, row, seen[row.label], _reliability) for n, row in enumerate(rows)],
            diagonal=True,
            unit=(0.0, 1.0),
            note="Next word of the references: below the diagonal a model is too sure, above it not sure enough.",
        ),
        Chart(
            "corrupted",
            "NLL after a corrupted prefix",
            "share of the prefix's words replaced",
            "nats a token more",
            [_observed(n, row, seen[row.label], _cost) for n, row in enumerate(rows)],
            zero=True,
            note="What random words in the prefix cost: NLL of the references' tokens, less that after true prefixes.",
        ),
    ]
    return [chart for chart in charts if any(line.points for line in chart.series if line.number is not None)]


def _logged(rows: Sequence[Row], split: str, name: str, by: str = "epoch") -> list[Series]:
    lines = []
    for number, row in enumerate(rows):
        runs = [_column(log, split, name, by) for log in row.logs]
        shared = sorted(set.intersection(*(set(held) for held in runs)))
        lines.append(_meaned(row.label, number, [[(place, held[place]) for place in shared] for held in runs]))
    return lines


def _column(log: Sequence[Mapping[str, Any]], split: str, name: str, by: str) -> dict[float, float]:
    """The mean of a column over the rows of each epoch or step."""
    found: dict[float, list[float]] = {}
    for row in log:
        if row["split"] == split and isinstance(row.get(name), (int, float)):
            found.setdefault(float(row[by]), []).append(float(row[name]))
    return {place: mean(values) for place, values in found.items()}


def _lengths(rows: Sequence[Row], seen: Mapping[str, Sequence[Behaviour]]) -> list[Series]:
    theirs = seen[rows[0].label][0].reference_lengths
    end = max(_most(theirs), *(_most(one.lengths) for row in rows for one in seen[row.label]))
    lines = [_observed(n, row, seen[row.label], lambda one: _shares(one.lengths, end)) for n, row in enumerate(rows)]
    return [Series("references", _shares(theirs, end)), *lines]


def _most(counts: Sequence[int]) -> int:
    """The length up to which 99.5 % are: few very long ones would leave no room for the others."""
    return next(n for n, below in enumerate(accumulate(counts)) if below >= 0.995 * sum(counts))


def _shares(counts: Sequence[int], end: int) -> list[Point]:
    total = sum(counts)
    return [(float(n), (counts[n] if n < len(counts) else 0) / total) for n in range(end + 1)]


def _recall(rows: Sequence[Row], seen: Mapping[str, Sequence[Behaviour]]) -> list[Chart]:
    bins = [held.low for held in seen[rows[0].label][0].recall]
    if len(bins) < 2:
        return []
    words = [short(low) for low in bins]

    def points(one: Behaviour) -> list[Point]:
        return [(float(bins.index(held.low)), held.found / held.of) for held in one.recall]

    lines = [_observed(number, row, seen[row.label], points) for number, row in enumerate(rows)]
    note = "Of the words in the references of an item, the share that its hypothesis has, too."
    axes = ("times in training, at least", "recall")
    return [Chart("recall", "Word recall, rare to frequent", *axes, lines, ticks=words, zero=True, note=note)]


def _reliability(one: Behaviour) -> list[Point]:
    # A bin of a few tokens is noise.
    least = 0.001 * sum(held.tokens for held in one.calibration)
    bins = [held for held in one.calibration if held.tokens > least]
    return [(held.confidence / held.tokens, held.right / held.tokens) for held in bins]


def _cost(one: Behaviour) -> list[Point]:
    return [(held.share, held.nll - one.nll) for held in one.corrupted]


def _observed(number: int, row: Row, seen: Sequence[Behaviour], points: Callable[[Behaviour], list[Point]]) -> Series:
    return _meaned(row.label, number, [points(one) for one in seen])


def _meaned(name: str, number: int, runs: Sequence[Sequence[Point]]) -> Series:
    """The mean over runs, and the least and the most where there are several."""
    size = min(len(run) for run in runs)
    ups = [[run[n][1] for run in runs] for n in range(size)]
    points = [(mean(run[n][0] for run in runs), mean(ups[n])) for n in range(size)]
    if len(runs) == 1:
        return Series(name, points, number=number)
    return Series(name, points, [min(up) for up in ups], [max(up) for up in ups], number)
