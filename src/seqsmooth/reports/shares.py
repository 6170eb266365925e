"""Learning curves: what losses reach on shares of the data, and what they gain over MLE there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from seqsmooth.metrics.trainings import Difference
from seqsmooth.reports.charts import Chart, Interval, Series, forest
from seqsmooth.reports.figures import difference_interval
from seqsmooth.reports.formats import NAMES, difference_cells, markdown_table
from seqsmooth.reports.results_tables import NOT_RUN, score
from seqsmooth.reports.rows import BASELINE, Table

Shares = Mapping[float, Table]
"""Runs on some of the training data and on all of it, by the share."""
NOTE = f"""\
The same losses on a share of the training items, which are the same for all losses at a seed, and on all of them. First
the differences from {BASELINE} at the same share, with the interval over items and trainings where there are seeds
enough, else the one over items; then the scores, with their seeds. The band around a line of the last chart reaches
from the least to the greatest score of the seeds."""


def lengths(shares: Shares) -> str:
    """For how long the runs of each share were trained."""
    parts = []
    for share, table in shares.items():
        facts = [record.facts for row in table.rows for record in row.records]
        epochs, steps = (sorted({int(each[name]) for each in facts}) for name in ("epochs", "steps"))
        parts.append(f"{_percent(share)} for {_range(epochs)} epochs, {_range(steps)} steps")
    return f"{'; '.join(parts)}."


def gain_table(shares: Shares) -> str:
    """The gain of each loss over MLE at each share, with the wider interval that there is."""

    def gain(table: Table, label: str) -> str:
        value, items, trainings = difference_cells(_difference(table, label))
        return f"{value} {trainings or items}".strip()

    return _table(shares, [label for label in _labels(shares) if label != BASELINE], gain)


def score_table(shares: Shares) -> str:
    """The score of each loss at each share."""
    return _table(shares, _labels(shares), lambda table, label: score(table.row(label), table.main))


def _table(shares: Shares, labels: list[str], text: Callable[[Table, str], str]) -> str:
    rows = [
        [label, *(NOT_RUN if table.row(label) is None else text(table, label) for table in shares.values())]
        for label in labels
    ]
    return markdown_table(["loss", *map(_percent, shares)], rows) if rows else ""


def draw_curves(shares: Shares) -> dict[str, tuple[str, str]]:
    """The charts, title and SVG by name: the gains over MLE, each share below the other, and the scores."""
    metric = NAMES[_metric(shares)]
    intervals = gains(shares)
    title = f"{metric} by the share of the data: difference from {BASELINE}"
    charts = {}
    if intervals:
        charts["gains"] = title, forest(title, "difference, 95 % interval", intervals, alone=True)
    title, words = f"{metric} by the share of the data", [_percent(share).split()[0] for share in shares]
    chart = Chart("scores", title, "training data, %", metric, scores(shares), words)
    return {**charts, "scores": (title, chart.svg(alone=True))}


def gains(shares: Shares) -> list[Interval]:
    """The difference of each loss from MLE at each share, a loss after the other."""
    intervals = []
    for label in _labels(shares):
        for share, table in shares.items():
            difference = _difference(table, label)
            if difference is not None:
                intervals.append(difference_interval(f"{label}, {_percent(share)}", difference))
    return intervals


def scores(shares: Shares) -> list[Series]:
    """The scores of each loss: means over seeds, between the least and the greatest."""
    lines = []
    for number, label in enumerate(_labels(shares)):
        rows = [(float(place), table.row(label)) for place, table in enumerate(shares.values())]
        known = [(place, row.values(_metric(shares))) for place, row in rows if row is not None]
        points = [(place, values) for place, values in known if values]
        least, most = ([bound(values) for _, values in points] for bound in (min, max))
        lines.append(Series(label, [(place, mean(values)) for place, values in points], least, most, number))
    return lines


def _labels(shares: Shares) -> list[str]:
    """The labels of the losses, MLE first."""
    labels = dict.fromkeys(row.label for table in shares.values() for row in table.rows)
    return sorted(labels, key=lambda label: label != BASELINE)


def _metric(shares: Shares) -> str:
    return next(iter(shares.values())).main


def _difference(table: Table, label: str) -> Difference | None:
    return None if label == BASELINE else table.difference(table.main, label)


def _percent(share: float) -> str:
    """Write a share in percent.

    >>> _percent(0.1), _percent(0.125), _percent(1.0)
    ('10 %', '12.5 %', '100 %')
    """
    return f"{100 * share:.3g} %"


def _range(values: list[int]) -> str:
    """Write one number, or the least and the greatest of several.

    >>> _range([9]), _range([8220, 8230, 8240])
    ('9', '8,220 to 8,240')
    """
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
