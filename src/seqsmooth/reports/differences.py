"""A difference from another loss, told in a table and drawn in a chart: how sure it is looks the same in all."""

from __future__ import annotations

from seqsmooth.metrics.trainings import Difference
from seqsmooth.reports.charts import Interval

UNSURE, BY_ITEMS, BY_TRAININGS = 0, 1, 2
"""What excludes 0: nothing; the interval over items where there is no other; the one over items and trainings."""
MARKS = {UNSURE: "", BY_ITEMS: "*", BY_TRAININGS: "**"}


def sureness(made: Difference) -> int:
    """Which interval excludes 0; also the number of the colour in charts: grey, orange, blue."""
    low, high = wider(made)
    if low <= 0 <= high:
        return UNSURE
    return BY_ITEMS if made.trainings is None else BY_TRAININGS


def wider(made: Difference) -> tuple[float, float]:
    """The interval over items and trainings where there is one, else the one over items."""
    return made.trainings or made.items


def told(made: Difference | None) -> list[str]:
    """The difference and both intervals; bold where other trainings would agree, italic where items alone say so."""
    if made is None:
        return ["", "", ""]
    mark = MARKS[sureness(made)]
    return [f"{mark}{signed(made.value)}{mark}", bracketed(made.items), bracketed(made.trainings)]


def drawn(label: str, made: Difference) -> Interval:
    """The difference with its wider interval, in the colour of how sure it is."""
    ends = wider(made)
    return Interval(label, made.value, *ends, sureness(made), f"{label}: {signed(made.value)} {bracketed(ends)}")


def bracketed(ends: tuple[float, float] | None) -> str:
    """An interval; nothing for None."""
    return "" if ends is None else f"[{signed(ends[0])}, {signed(ends[1])}]"


def signed(value: float) -> str:
    """With its sign, that of 0 too, for an interval from -0.00 on holds 0.

    >>> signed(1.234), signed(-0.001)
    ('+1.23', '-0.00')
    """
    return f"{value:+.2f}"
