"""One way to write numbers and differences for every table, chart and page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev

from seqsmooth.metrics.trainings import LEAST, Difference

NAMES = {
    "bleu-1": "BLEU-1",
    "bleu-2": "BLEU-2",
    "bleu-3": "BLEU-3",
    "bleu-4": "BLEU-4",
    "rouge-l": "ROUGE-L",
    "meteor": "METEOR",
    "cider": "CIDEr",
    "spice": "SPICE",
    "sacrebleu": "BLEU",
    "sacrebleu-13a": "BLEU (13a)",
}
"""Metrics as tables print them."""
UNSURE, BY_ITEMS, BY_TRAININGS = 0, 1, 2
"""Which interval excludes 0: none; the one over items, where there is no other; the one over items and trainings."""
MARKS = {UNSURE: "", BY_ITEMS: "*", BY_TRAININGS: "**"}
"""The emphasis of a difference in Markdown."""
NO_BREAK = "\u00a0"


def sureness(difference: Difference) -> int:
    """Which interval excludes 0; in charts of differences also the number of the colour: grey, orange, blue."""
    low, high = widest(difference)
    if low <= 0 <= high:
        return UNSURE
    return BY_ITEMS if difference.trainings is None else BY_TRAININGS


def widest(difference: Difference) -> tuple[float, float]:
    """The interval over items and trainings where there is one, else the one over items."""
    return difference.trainings or difference.items


def difference_cells(difference: Difference | None) -> list[str]:
    """A difference and its two intervals: bold where other trainings would agree, italic where items alone say so."""
    if difference is None:
        return ["", "", ""]
    mark = MARKS[sureness(difference)]
    return [
        f"{mark}{format_gain(difference.value)}{mark}",
        format_interval(difference.items),
        format_interval(difference.trainings),
    ]


def format_interval(ends: tuple[float, float] | None) -> str:
    """An interval in brackets; nothing for None."""
    return "" if ends is None else f"[{format_gain(ends[0])}, {format_gain(ends[1])}]"


def format_gain(value: float) -> str:
    """A number with its sign, which 0 has, too: an interval from -0.00 on holds 0.

    >>> format_gain(1.234), format_gain(-0.001)
    ('+1.23', '-0.00')
    """
    return f"{value:+.2f}"


def number(value: float | None) -> str:
    """A score; nothing for None."""
    return "" if value is None else f"{value:.2f}"


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """The mean, and the standard deviation where there are several values; nothing of none."""
    if not values:
        return ""
    center = f"{mean(values):{form}}"
    return center if len(values) == 1 else f"{center} ± {stdev(values):{form.lstrip('+')}}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """A table in Markdown. A cell of numbers breaks over lines only where it has a line break."""
    rule = "---:" if numbers else "---"
    lines = [f"| {' | '.join(map(escape_cell, head))} |", "|---|" + f"{rule}|" * (len(head) - 1)]
    for row in rows:
        cells = [escape_cell(cell).replace(" ", NO_BREAK) if numbers else escape_cell(cell) for cell in row]
        lines.append(f"| {' | '.join(cells)} |".replace("\n", "<br>"))
    return "\n".join(lines)


def escape_cell(text: str) -> str:
    """Text that cannot break a table of Markdown, whatever it holds."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def interval_note(baseline: str) -> str:
    """Explain the two intervals of a difference."""
    return (
        f"Intervals are of 95 %: over items (paired bootstrap, these trainings as they are), and, where a row and "
        f"{baseline} have {LEAST} seeds or more, over items and trainings (what other seeds would give, too)."
    )
