"""The charts of a table: curves of training, and how the models behave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from statistics import mean
from typing import Any

from seqsmooth.metrics.tasks import TASKS
from seqsmooth.metrics.trainings import Difference
from seqsmooth.reports.behaviour import Behaviour
from seqsmooth.reports.charts import Chart, Interval, Series, short
from seqsmooth.reports.formats import NAMES, format_gain, format_interval, sureness, widest
from seqsmooth.reports.rows import Row

Point = tuple[float, float]
NATS, REPLACED, RARE = "nats a token", "share of the prefix's words replaced", "Word recall, rare to frequent"
SCORE = "Decoded after each epoch; the weights of the best epoch are kept."
NLL = "Of the references, unsmoothed whatever the loss."
LEARNED = "Unsmoothed, with dropout. A smoothed loss does not go after it alone."
LENGTHS = "Of what was written for the test items; dashed: the references."
RECALL = "Of the words in the references of an item, the share that its hypothesis has, too."
CALIBRATION = "Next word of the references: below the diagonal a model is too sure, above it not sure enough."
COST = "What random words in the prefix cost: NLL of the references' tokens, less that after true prefixes."


def difference_interval(label: str, difference: Difference, number: int | None = None) -> Interval:
    """A difference with its widest interval; without a number in the colour of how sure it is."""
    ends = widest(difference)
    colour = sureness(difference) if number is None else number
    return Interval(
        label, difference.value, *ends, colour, f"{label}: {format_gain(difference.value)} {format_interval(ends)}"
    )


def draw_charts(rows: Sequence[Row], task: str) -> list[Chart]:
    """Draw every chart that the runs have numbers for."""
    what, metric = "Caption" if task == "captions" else "Sentence", TASKS[task].main
    seen = [(number, row) for number, row in enumerate(rows) if row.behaviours]
    score, axes = NAMES[metric], ("times in training, at least", "recall")
    bins = [part.low for part in seen[0][1].behaviours[0].recall] if seen else []

    def recall(one: Behaviour) -> list[Point]:
        return [(float(bins.index(part.low)), part.found / part.of) for part in one.recall]

    def behaviour_lines(points: Callable[[Behaviour], list[Point]]) -> list[Series]:
        return [_behaviour_line(row, number, points) for number, row in seen]

    charts = [
        Chart("score", f"{score} on validation, by epoch", "epoch", score, _log_lines(rows, "val", metric), note=SCORE),
        Chart("validation-nll", "NLL on validation, by epoch", "epoch", NATS, _log_lines(rows, "val", "nll"), note=NLL),
        Chart("training-nll", "NLL in training, by step", "step", NATS, _log_lines(rows, "train", "nll"), note=LEARNED),
        Chart("lengths", f"{what} lengths", "words", "share", _lengths(seen), zero=True, note=LENGTHS),
        Chart(
            "recall", RARE, *axes, behaviour_lines(recall), ticks=[short(low) for low in bins], zero=True, note=RECALL
        ),
        Chart(
            "calibration",
            "Calibration",
            "confidence",
            "accuracy",
            behaviour_lines(_reliability),
            diagonal=True,
            unit=(0.0, 1.0),
            note=CALIBRATION,
        ),
        Chart(
            "corrupted",
            "NLL after a corrupted prefix",
            REPLACED,
            f"{NATS} more",
            behaviour_lines(_cost),
            zero=True,
            note=COST,
        ),
    ]
    charts = [chart for chart in charts if chart.name != "recall" or len(bins) > 1]
    return [chart for chart in charts if any(line.points for line in chart.series if line.number is not None)]


def _log_lines(rows: Sequence[Row], split: str, name: str) -> list[Series]:
    """A column of the log: by step for training, by epoch for validation."""
    lines, by = [], "step" if split == "train" else "epoch"
    for number, row in enumerate(rows):
        runs = [_column(log, split, name, by) for log in (record.log for record in row.records)]
        shared = sorted(set.intersection(*(set(column) for column in runs)))
        lines.append(_mean_line(row.label, number, [[(place, column[place]) for place in shared] for column in runs]))
    return lines


def _column(log: Sequence[Mapping[str, Any]], split: str, name: str, by: str) -> dict[float, float]:
    """The mean of a column over the rows of each epoch or step."""
    column: dict[float, list[float]] = {}
    for row in log:
        if row["split"] == split and isinstance(row.get(name), (int, float)):
            column.setdefault(float(row[by]), []).append(float(row[name]))
    return {place: mean(values) for place, values in column.items()}


def _lengths(seen: Sequence[tuple[int, Row]]) -> list[Series]:
    if not seen:
        return []
    theirs = seen[0][1].behaviours[0].reference_lengths
    end = max(_most(theirs), *(_most(one.lengths) for _, row in seen for one in row.behaviours))
    lines = [_behaviour_line(row, n, lambda one: _shares(one.lengths, end)) for n, row in seen]
    return [Series("references", _shares(theirs, end)), *lines]


def _most(counts: Sequence[int]) -> int:
    """The length up to which 99.5 % are: few very long ones would leave no room for the others."""
    return next(n for n, below in enumerate(accumulate(counts)) if below >= 0.995 * sum(counts))


def _shares(counts: Sequence[int], end: int) -> list[Point]:
    total = sum(counts)
    return [(float(n), (counts[n] if n < len(counts) else 0) / total) for n in range(end + 1)]


def _reliability(one: Behaviour) -> list[Point]:
    # A bin of a few tokens is noise.
    least = 0.001 * sum(part.tokens for part in one.calibration)
    bins = [part for part in one.calibration if part.tokens > least]
    return [(part.confidence / part.tokens, part.right / part.tokens) for part in bins]


def _cost(one: Behaviour) -> list[Point]:
    return [(part.share, part.nll - one.nll) for part in one.corrupted]


def _behaviour_line(row: Row, number: int, points: Callable[[Behaviour], list[Point]]) -> Series:
    return _mean_line(row.label, number, [points(one) for one in row.behaviours])


def _mean_line(name: str, number: int, runs: Sequence[Sequence[Point]]) -> Series:
    """The mean over runs, and the range from the least to the greatest where there are several."""
    size = min(len(run) for run in runs)
    ups = [[run[n][1] for run in runs] for n in range(size)]
    points = [(mean(run[n][0] for run in runs), mean(ups[n])) for n in range(size)]
    if len(runs) == 1:
        return Series(name, points, number=number)
    return Series(name, points, [min(up) for up in ups], [max(up) for up in ups], number)
