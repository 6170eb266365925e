"""Learning curves: how long losses were trained on a share of the data, what they reach and what they gain over MLE."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from seqsmooth.reports.charts import Chart, Interval, Series, forest
from seqsmooth.reports.results import BASELINE, Group
from seqsmooth.reports.results_tables import MAIN, percent
from seqsmooth.reports.table import NAMES

Shares = Mapping[float, Group]
"""Runs on some of the training data and on all of it, by the share."""


def lengths(shares: Shares) -> str:
    """For how long the runs of each share were trained."""
    told = []
    for share, group in shares.items():
        facts = [one.facts for line in group.lines for one in line.records]
        epochs, steps = (sorted({int(held[name]) for held in facts}) for name in ("epochs", "steps"))
        told.append(f"{percent(share)} for {_range(epochs)} epochs, {_range(steps)} steps")
    return f"{'; '.join(told)}."


def draw_curves(shares: Shares) -> dict[str, tuple[str, str]]:
    """The charts, title and SVG by name: what losses gain over MLE, each share below the other, and what they reach."""
    metric = NAMES[_metric(shares)]
    intervals = gains(shares)
    title = f"{metric} by the share of the data: difference from {BASELINE}"
    drawn = {}
    if intervals:
        drawn["gains"] = title, forest(title, "difference, 95 % interval", intervals, left=240, alone=True)
    title, words = f"{metric} by the share of the data", [percent(share).split()[0] for share in shares]
    chart = Chart("scores", title, "training data, %", metric, scores(shares), words)
    return {**drawn, "scores": (title, chart.svg(alone=True))}


def gains(shares: Shares) -> list[Interval]:
    """The difference of each loss from MLE at each share, a loss after the other."""
    found = []
    for number, label in enumerate(_labels(shares)):
        for share, group in shares.items():
            made = None if label == BASELINE else group.difference(_metric(shares), label, BASELINE)
            if made is not None:
                name, ends = f"{label}, {percent(share)}", made.trainings or made.items
                told = f"{name}: {made.value:+.2f} [{ends[0]:+.2f}, {ends[1]:+.2f}]"
                found.append(Interval(name, made.value, *ends, number, told))
    return found


def scores(shares: Shares) -> list[Series]:
    """What each loss reaches: means over seeds, between the least and the greatest."""
    lines = []
    for number, label in enumerate(_labels(shares)):
        held = [(float(place), group.line(label)) for place, group in enumerate(shares.values())]
        told = [(place, line.values(_metric(shares))) for place, line in held if line is not None]
        points = [(place, values) for place, values in told if values]
        least, most = ([tell(values) for _, values in points] for tell in (min, max))
        lines.append(Series(label, [(place, mean(values)) for place, values in points], least, most, number))
    return lines


def _labels(shares: Shares) -> list[str]:
    return list(dict.fromkeys(line.label for group in shares.values() for line in group.lines))


def _metric(shares: Shares) -> str:
    return MAIN[next(iter(shares.values())).task]


def _range(values: list[int]) -> str:
    """One number, or the least and the greatest of several.

    >>> _range([9]), _range([8220, 8230, 8240])
    ('9', '8,220 to 8,240')
    """
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
