"""Learning curves: how long losses were trained on a share of the data, what they reach and what they gain over MLE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from seqsmooth.reports.charts import Chart, Series
from seqsmooth.reports.results import BASELINE, Group
from seqsmooth.reports.results_tables import MAIN, percent
from seqsmooth.reports.table import NAMES

Shares = Mapping[float, Group]
"""Runs on some of the training data and on all of it, by the share."""
Reached = tuple[float, float, float]
"""A number, and how far down and up it reaches."""


def lengths(shares: Shares) -> str:
    """For how long the runs of each share were trained."""
    told = []
    for share, group in shares.items():
        facts = [one.facts for line in group.lines for one in line.records]
        epochs, steps = (sorted({int(held[name]) for held in facts}) for name in ("epochs", "steps"))
        told.append(f"{percent(share)} for {_range(epochs)} epochs, {_range(steps)} steps")
    return f"{'; '.join(told)}."


def curves(shares: Shares) -> list[Chart]:
    """What losses gain over MLE by the share of the data, with 95 % intervals, and what they reach, over seeds."""
    labels = list(dict.fromkeys(line.label for group in shares.values() for line in group.lines))
    metric = MAIN[next(iter(shares.values())).task]

    def gain(group: Group, label: str) -> Reached | None:
        made = None if label == BASELINE else group.difference(metric, label, BASELINE)
        return None if made is None else (made.value, *(made.trainings or made.items))

    def score(group: Group, label: str) -> Reached | None:
        line = group.line(label)
        values = [] if line is None else line.values(metric)
        return (mean(values), min(values), max(values)) if values else None

    gained = [line for n, label in enumerate(labels) if (line := _series(shares, label, n, gain)).points]
    scored = [_series(shares, label, n, score) for n, label in enumerate(labels)]
    level = Series(BASELINE, [(float(n), 0.0) for n in range(len(shares))])
    words, across, name = [percent(share) for share in shares], "share of the training data", NAMES[metric]
    charts = [Chart("scores", f"{name} by the share of the data", across, name, scored, words)]
    if gained:
        title = f"{name}: difference from {BASELINE}"
        charts.insert(0, Chart("gains", title, across, "difference", [level, *gained], words))
    return charts


def _series(shares: Shares, label: str, number: int, tell: Callable[[Group, str], Reached | None]) -> Series:
    told = [(float(place), tell(group, label)) for place, group in enumerate(shares.values())]
    found = [(place, reached) for place, reached in told if reached is not None]
    points = [(place, reached[0]) for place, reached in found]
    return Series(label, points, [low for _, (_, low, _) in found], [high for _, (_, _, high) in found], number)


def _range(values: list[int]) -> str:
    """One number, or the least and the greatest of several.

    >>> _range([9]), _range([8220, 8230, 8240])
    ('9', '8,220 to 8,240')
    """
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
