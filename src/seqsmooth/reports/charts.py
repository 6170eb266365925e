"""Line charts and charts of intervals, as SVG without a library.

A chart is a file of its own or a part of a page; both are light or dark as the reader's screen, for the colours are
variables of CSS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 250  # two fit side by side in the column of a page
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 10, 42
COLOURS = 8
STEP = 28  # from one row of a forest to the next
DASHES = ("", "6 3", "2 3")

STYLE = """
:root{--ink:#1f2933;--soft:#5d6b7a;--line:#dfe4ea;--c0:#4b5563;--c1:#d97706;--c2:#0891b2;--c3:#7c3aed;--c4:#dc2626;
--c5:#16a34a;--c6:#db2777;--c7:#2563eb}
@media (prefers-color-scheme:dark){:root{--ink:#e5e9ee;--soft:#98a4b3;--line:#2c3642;--c0:#aab4c0;--c1:#fbb040;
--c2:#38bdf8;--c3:#a78bfa;--c4:#f87171;--c5:#4ade80;--c6:#f472b6;--c7:#60a5fa}}
.chart{font:12px system-ui,sans-serif}.chart text{fill:var(--soft)}.chart .name{fill:var(--ink)}
.chart .grid{stroke:var(--line)}.chart .band{opacity:.14;stroke:none}
.chart .series{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.chart .ideal{stroke:var(--soft);stroke-dasharray:3 4;fill:none}
"""
"""Colours and lines of charts; the page of a report takes its colours from here, too."""


@dataclass(frozen=True)
class Series:
    """A line: its points, and the range around each where the points are means."""

    name: str
    points: Sequence[tuple[float, float]]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    number: int | None = None
    """The colour; None for the line that all are compared with, which is grey and dashed."""


@dataclass(frozen=True)
class Chart:
    """Lines over two axes.

    Attributes:
        name: the name of its file.
        title: the heading.
        across: the label of the horizontal axis.
        up: the label of the vertical axis.
        series: the lines.
        ticks: words that the horizontal axis has at 0, 1, 2..., where it has no numbers.
        diagonal: whether a line shows where both axes are equal.
        zero: whether the vertical axis starts at 0.
        note: what the chart shows, in a sentence.
        unit: the range of both axes; that of the points where it is None.
    """

    name: str
    title: str
    across: str
    up: str
    series: Sequence[Series]
    ticks: Sequence[str] = ()
    diagonal: bool = False
    zero: bool = False
    note: str = ""
    unit: tuple[float, float] | None = None

    def svg(self, *, alone: bool = False) -> str:
        """Draw the chart; `alone` as a file, with a title and a legend of its own."""
        xs = [x for line in self.series for x, _ in line.points]
        ys = [y for line in self.series for _, y in line.points]
        ys += [y for line in self.series for y in (*line.low, *line.high)]
        if not xs:
            return ""
        x0, x1 = (0.0, float(max(len(self.ticks) - 1, 1))) if self.ticks else self.unit or (min(xs), max(xs))
        y0, y1 = self.unit or (0.0 if self.zero else min(ys), max(ys))
        if x1 <= x0:
            x0, x1 = x0 - 0.5, x1 + 0.5
        marks = ticks(y0, y1)
        y0, y1 = min(y0, marks[0]), max(y1, marks[-1])

        def place(x: float, y: float) -> tuple[float, float]:
            across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
            return across, HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)

        parts = []
        for mark in marks:
            _, y = place(x0, mark)
            parts += [_rule(LEFT, y, WIDTH - RIGHT, y), _text(LEFT - 8, y + 4, short(mark), "end")]
        words = [(float(n), word) for n, word in enumerate(self.ticks)]
        words = words or [(mark, short(mark)) for mark in ticks(x0, x1) if x0 <= mark <= x1]
        parts += [_text(place(mark, y0)[0], HEIGHT - BOTTOM + 18, word) for mark, word in words]
        if self.diagonal:
            parts.append(_path("ideal", [place(max(x0, y0), max(x0, y0)), place(min(x1, y1), min(x1, y1))], ""))
        parts += [_line(line, place) for line in self.series]
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.across))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(f'<g transform="translate(11 {middle}) rotate(-90)">{_text(0, 0, self.up)}</g>')
        return _svg(parts, WIDTH, HEIGHT, self.title, self.series, alone=alone)


@dataclass(frozen=True)
class Interval:
    """A difference and its interval, as a point on a line.

    Attributes:
        name: beside it.
        value: the point.
        low: the left end of the line.
        high: the right end of the line.
        number: the colour.
        text: shown where one points at it.
    """

    name: str
    value: float
    low: float
    high: float
    number: int
    text: str


def forest(title: str, across: str, intervals: Sequence[Interval], *, alone: bool = False) -> str:
    """Draw intervals one below the other around a line at 0, their names to the left."""
    left = room_for(interval.name for interval in intervals)
    width, height = left + 222, TOP + STEP * len(intervals) + BOTTOM
    parts = [*_panel(intervals, left, width - 20, height, names=True)]
    parts.append(_text((left + width - 20) / 2, height - 8, across))
    return _svg(parts, width, height, title, (), alone=alone)


def forests(title: str, across: str, names: Sequence[str], panels: Mapping[str, Sequence[Interval | None]]) -> str:
    """Draw forests side by side under their headings, each with an axis of its own; None leaves a row empty."""
    left, wide, gap = room_for(names), 132, 28
    width, height = left + len(panels) * (wide + gap), TOP + STEP * len(names) + BOTTOM
    parts = []
    for n, name in enumerate(names):
        y = TOP + STEP * (n + 0.5)
        parts += [_text(left - 18, y + 4, name, "end", "name"), _rule(left - 12, y, width - gap, y)]
    for n, (heading, intervals) in enumerate(panels.items()):
        start = left + n * (wide + gap)
        parts.append(_text(start + wide / 2, -2, heading, kind="name"))
        parts += _panel(intervals, start, start + wide, height)
    parts.append(_text((left + width - gap) / 2, height - 8, across))
    return _svg(parts, width, height, title, (), alone=True, top=20)


def _panel(
    intervals: Sequence[Interval | None], left: float, right: float, height: int, *, names: bool = False
) -> Iterator[str]:
    """Draw the axis and the intervals of a forest between two places; without names the axis ends with them."""
    there = [interval for interval in intervals if interval is not None]
    least, most = min([0.0, *(each.low for each in there)]), max([0.0, *(each.high for each in there)])
    marks = ticks(least, most, 5)
    low, high = marks[0], marks[-1]
    if not names and most > least:
        low, high = least - 0.06 * (most - least), most + 0.06 * (most - least)

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    for mark in (mark for mark in marks if low <= mark <= high):
        sign = "" if mark == 0 else "+" if mark > 0 else "−"
        yield _rule(place(mark), TOP, place(mark), height - BOTTOM)
        yield _text(place(mark), height - BOTTOM + 18, f"{sign}{short(abs(mark))}")
    yield _rule(place(0.0), TOP, place(0.0), height - BOTTOM, "ideal")
    for n, interval in enumerate(intervals):
        if interval is not None:
            y, colour = TOP + STEP * (n + 0.5), _colour(interval.number)
            style = f'stroke="{colour}" stroke-width="3" stroke-linecap="round" opacity=".45"'
            name = _text(left - 12, y + 4, interval.name, "end", "name") if names else ""
            yield (
                f'<g data-row="{interval.number}"><title>{escape(interval.text)}</title>{name}'
                f"{_rule(place(interval.low), y, place(interval.high), y, 'interval', style)}"
                f'<circle cx="{place(interval.value):.1f}" cy="{y}" r="5.5" fill="{colour}"/></g>'
            )


def room_for(names: Iterable[str]) -> int:
    """The room that the names of a forest take."""
    return 22 + math.ceil(6.6 * max(len(name) for name in names))


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Choose round numbers that cover a range, 1, 2 or 5 times a power of ten apart.

    >>> ticks(0.13, 0.87)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if span < 1e-6 * max(1.0, abs(low), abs(high)):  # all the same, but for rounding
        span = max(1.0, abs(high))
    rough = span / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, max(last, first + 1) + 1)]


def short(value: float) -> str:
    """Write a number beside an axis.

    >>> short(0.5), short(300), short(3000), short(12500)
    ('0.5', '300', '3k', '12.5k')
    """
    return f"{value / 1000:g}k" if abs(value) >= 1000 and value % 100 == 0 else f"{value:g}"


def _line(line: Series, place: Callable[[float, float], tuple[float, float]]) -> str:
    """Draw a line with its band."""
    number = line.number or 0
    dash = "4 4" if line.number is None else DASHES[number // COLOURS % len(DASHES)]
    marked = "" if line.number is None else f' data-row="{number}"'
    places, colour = [place(*point) for point in line.points], _colour(line.number)
    parts = [f"<g{marked}><title>{escape(line.name)}</title>"]
    if line.low:
        ends = [[place(x, y) for (x, _), y in zip(line.points, side, strict=True)] for side in (line.high, line.low)]
        parts.append(_path("band", [*ends[0], *reversed(ends[1])], f'fill="{colour}"', closed=True))
    parts.append(_path("series", places, f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")))
    if len(places) <= 12:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in places]
    return "".join([*parts, "</g>"])


def _colour(number: int | None) -> str:
    return "var(--soft)" if number is None else f"var(--c{number % COLOURS})"


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str = "grid", more: str = "") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" {more}/>'


def _path(kind: str, places: Sequence[tuple[float, float]], more: str, *, closed: bool = False) -> str:
    points = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path class="{kind}" d="M{points}{"Z" if closed else ""}" {more}/>'


def _svg(
    parts: Sequence[str], width: int, height: int, title: str, legend: Sequence[Series], *, alone: bool, top: int = 0
) -> str:
    """Wrap a drawing; a file has a style, a title and a legend of its own."""
    label = f'class="chart" role="img" aria-label="{escape(title, quote=True)}"'
    if not alone:
        return f'<svg {label} viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'
    rows, across, down = [], 8.0, height + 8.0
    for line in legend:
        wide = 32 + 6.6 * len(line.name)
        if across + wide > width:
            across, down = 8.0, down + 18
        rows.append(_rule(across, down, across + 14, down, "key", f'stroke="{_colour(line.number)}" stroke-width="3"'))
        rows.append(_text(across + 19, down + 4, line.name, "start", "name"))
        across += wide
    bottom = down + 16 if legend else height
    box = f'viewBox="0 {-24 - top} {width} {bottom + 24 + top:.0f}" width="{width}"'
    head = f'<text class="name" x="8" y="{-6 - top}" font-weight="600">{escape(title)}</text>'
    style = f"<style>{STYLE}</style>"
    return "".join([f'<svg {label} xmlns="http://www.w3.org/2000/svg" {box}>', style, head, *parts, *rows, "</svg>\n"])
