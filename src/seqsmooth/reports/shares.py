"""Learning curves: how long losses were trained on a share of the data, what they reach and what they gain over MLE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from seqsmooth.metrics.trainings import Difference
from seqsmooth.reports import differences
from seqsmooth.reports import results_tables as tables
from seqsmooth.reports.charts import Chart, Interval, Series, forest, room_for
from seqsmooth.reports.results import BASELINE, Group
from seqsmooth.reports.table import NAMES

Shares = Mapping[float, Group]
"""Runs on some of the training data and on all of it, by the share."""
NOTE = f"""\
Where does smoothing pay? The same losses on a share of the training items, which are the same for all losses at a seed,
and on all of them. First the differences from {BASELINE} at the same share, with the interval over items and trainings
where there are seeds enough, else the one over items; then the scores, with their seeds. The band around a line of the
last chart reaches from the least to the greatest score of the seeds."""


def lengths(shares: Shares) -> str:
    """For how long the runs of each share were trained."""
    told = []
    for share, group in shares.items():
        facts = [one.facts for line in group.lines for one in line.records]
        epochs, steps = (sorted({int(held[name]) for held in facts}) for name in ("epochs", "steps"))
        told.append(f"{_percent(share)} for {_range(epochs)} epochs, {_range(steps)} steps")
    return f"{'; '.join(told)}."


def gain_table(shares: Shares) -> str:
    """What each loss gains over MLE at each share, with the wider interval that there is."""

    def gained(group: Group, label: str) -> str:
        value, items, trainings = differences.told(_difference(group, label))
        return f"{value} {trainings or items}".strip()

    return _table(shares, [label for label in _labels(shares) if label != BASELINE], gained)


def score_table(shares: Shares) -> str:
    """What each loss reaches at each share."""
    metric = _metric(shares)
    return _table(shares, _labels(shares), lambda group, label: tables.reached(group.line(label), metric))


def _table(shares: Shares, labels: list[str], tell: Callable[[Group, str], str]) -> str:
    rows = [
        [label, *(tables.NOT_RUN if group.line(label) is None else tell(group, label) for group in shares.values())]
        for label in labels
    ]
    return tables.table(["loss", *map(_percent, shares)], rows) if rows else ""


def draw_curves(shares: Shares) -> dict[str, tuple[str, str]]:
    """The charts, title and SVG by name: what losses gain over MLE, each share below the other, and what they reach."""
    metric = NAMES[_metric(shares)]
    intervals = gains(shares)
    title = f"{metric} by the share of the data: difference from {BASELINE}"
    drawn = {}
    if intervals:
        left = room_for(each.name for each in intervals)
        drawn["gains"] = title, forest(title, "difference, 95 % interval", intervals, left=left, alone=True)
    title, words = f"{metric} by the share of the data", [_percent(share).split()[0] for share in shares]
    chart = Chart("scores", title, "training data, %", metric, scores(shares), words)
    return {**drawn, "scores": (title, chart.svg(alone=True))}


def gains(shares: Shares) -> list[Interval]:
    """The difference of each loss from MLE at each share, a loss after the other."""
    found = []
    for label in _labels(shares):
        for share, group in shares.items():
            made = _difference(group, label)
            found += [] if made is None else [differences.drawn(f"{label}, {_percent(share)}", made)]
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
    """Of the losses, MLE first."""
    found = dict.fromkeys(line.label for group in shares.values() for line in group.lines)
    return sorted(found, key=lambda label: label != BASELINE)


def _metric(shares: Shares) -> str:
    return tables.MAIN[next(iter(shares.values())).task]


def _difference(group: Group, label: str) -> Difference | None:
    return None if label == BASELINE else group.difference(tables.MAIN[group.task], label, BASELINE)


def _percent(share: float) -> str:
    """A share, as people write it.

    >>> _percent(0.1), _percent(0.125), _percent(1.0)
    ('10 %', '12.5 %', '100 %')
    """
    return f"{100 * share:.3g} %"


def _range(values: list[int]) -> str:
    """One number, or the least and the greatest of several.

    >>> _range([9]), _range([8220, 8230, 8240])
    ('9', '8,220 to 8,240')
    """
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
