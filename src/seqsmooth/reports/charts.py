"""Line charts and charts of intervals, as SVG without a library.

A chart is a file of its own or a part of a page; both are light or dark as the reader's screen, for the colours are
variables of CSS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 250  # two fit side by side in the column of a page
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 10, 42
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
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(mark)}</text>')
        named = [(float(n), word) for n, word in enumerate(self.ticks)]
        named = named or [(mark, short(mark)) for mark in ticks(x0, x1) if x0 <= mark <= x1]
        for mark, word in named:
            x, _ = place(mark, y0)
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{escape(word)}</text>')
        if self.diagonal:
            parts.append(_path("ideal", [place(max(x0, y0), max(x0, y0)), place(min(x1, y1), min(x1, y1))], ""))
        for line in self.series:
            parts.append(_line(line, [place(*point) for point in line.points], place))
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(self.across)}</text>')
        turned = f'transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle"'
        parts.append(f"<text {turned}>{escape(self.up)}</text>")
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


def forest(title: str, across: str, intervals: Sequence[Interval], *, left: int = 138, alone: bool = False) -> str:
    """Draw intervals one below the other around a line at 0; `left` is the room for their names."""
    width, height = WIDTH - 138 + left, TOP + STEP * len(intervals) + BOTTOM
    parts = _panel(intervals, left, width - 20, height)
    middle = (left + width - 20) / 2
    parts.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{escape(across)}</text>')
    return _svg(parts, width, height, title, (), alone=alone)


def forests(title: str, across: str, names: Sequence[str], panels: Mapping[str, Sequence[Interval | None]]) -> str:
    """Draw forests side by side under their headings, each with an axis of its own; None leaves a row empty."""
    left, wide, gap, top = room_for(names), 132, 28, 20
    width, height = left + len(panels) * (wide + gap), TOP + STEP * len(names) + BOTTOM
    parts = []
    for n, name in enumerate(names):
        y = TOP + STEP * (n + 0.5)
        parts.append(f'<text class="name" x="{left - 18}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line class="grid" x1="{left - 12}" x2="{width - gap}" y1="{y}" y2="{y}" opacity=".5"/>')
    for n, (heading, intervals) in enumerate(panels.items()):
        start = left + n * (wide + gap)
        parts.append(f'<text class="name" x="{start + wide / 2}" y="-2" text-anchor="middle">{escape(heading)}</text>')
        parts += _panel(intervals, start, start + wide, height, narrow=True)
    middle = (left + width - gap) / 2
    parts.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{escape(across)}</text>')
    return _svg(parts, width, height, title, (), alone=True, top=top)


def _panel(
    intervals: Sequence[Interval | None], left: float, right: float, height: int, *, narrow: bool = False
) -> list[str]:
    """Draw a forest between two places, names to its left; a narrow one has no names and ends with its intervals."""
    there = [interval for interval in intervals if interval is not None]
    least, most = min([0.0, *(each.low for each in there)]), max([0.0, *(each.high for each in there)])
    marks = ticks(least, most, 5)
    low, high = marks[0], marks[-1]
    if narrow and most > least:
        low, high = least - 0.06 * (most - least), most + 0.06 * (most - least)
        marks = [mark for mark in marks if low <= mark <= high]

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    parts = []
    for mark in marks:
        x = place(mark)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        text = "0" if mark == 0 else f"{'+' if mark > 0 else '−'}{short(abs(mark))}"
        parts.append(f'<text x="{x:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{text}</text>')
    zero = place(0.0)
    parts.append(f'<line class="ideal" x1="{zero:.1f}" x2="{zero:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
    for n, interval in enumerate(intervals):
        if interval is None:
            continue
        y = TOP + STEP * (n + 0.5)
        colour = f"var(--c{interval.number % COLOURS})"
        ends = f'x1="{place(interval.low):.1f}" x2="{place(interval.high):.1f}" y1="{y}" y2="{y}"'
        name = f'<text class="name" x="{left - 12}" y="{y + 4}" text-anchor="end">{escape(interval.name)}</text>'
        parts.append(
            f'<g data-row="{interval.number}"><title>{escape(interval.text)}</title>{"" if narrow else name}'
            f'<line {ends} stroke="{colour}" stroke-width="3" stroke-linecap="round" opacity=".45"/>'
            f'<circle cx="{place(interval.value):.1f}" cy="{y}" r="5.5" fill="{colour}"/></g>'
        )
    return parts


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


def _line(line: Series, places: Sequence[tuple[float, float]], place: object) -> str:
    grey = line.number is None
    colour = "var(--soft)" if grey else f"var(--c{(line.number or 0) % COLOURS})"
    dash = "4 4" if grey else DASHES[(line.number or 0) // COLOURS % len(DASHES)]
    marked = "" if grey else f' data-row="{line.number}"'
    parts = [f"<g{marked}><title>{escape(line.name)}</title>"]
    if line.low and callable(place):
        xs = [x for x, _ in line.points]
        upper = [place(x, y) for x, y in zip(xs, line.high, strict=True)]
        lower = [place(x, y) for x, y in zip(xs, line.low, strict=True)]
        parts.append(_path("band", [*upper, *reversed(lower)], f'fill="{colour}"', closed=True))
    drawn = f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    parts.append(_path("series", places, drawn))
    if len(places) <= 12:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in places]
    return "".join([*parts, "</g>"])


def _path(kind: str, places: Sequence[tuple[float, float]], more: str, *, closed: bool = False) -> str:
    drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path class="{kind}" d="M{drawn}{"Z" if closed else ""}" {more}/>'


def _svg(
    parts: Sequence[str], width: int, height: int, title: str, legend: Sequence[Series], *, alone: bool, top: int = 0
) -> str:
    if not alone:
        head = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        return head + "".join(parts) + "</svg>"
    # A file has a title and a legend of its own.
    rows, across = [], 8.0
    down = height + 8
    for line in legend:
        wide = 32 + 6.6 * len(line.name)
        if across + wide > width:
            across, down = 8.0, down + 18
        colour = "var(--soft)" if line.number is None else f"var(--c{line.number % COLOURS})"
        drawn = f'stroke="{colour}" stroke-width="3"'
        rows.append(f'<line x1="{across}" x2="{across + 14}" y1="{down}" y2="{down}" {drawn}/>')
        rows.append(f'<text class="name" x="{across + 19}" y="{down + 4}">{escape(line.name)}</text>')
        across += wide
    bottom = down + 16 if legend else height
    head = (
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 {-24 - top} {width} {bottom + 24 + top}" '
        f'width="{width}" role="img"><style>{STYLE}</style>'
        f'<text class="name" x="8" y="{-6 - top}" font-weight="600">{escape(title)}</text>'
    )
    return head + "".join([*parts, *rows]) + "</svg>\n"
