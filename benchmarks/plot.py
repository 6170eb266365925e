"""A report as a picture: one panel a table, one line a contestant."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

from benchmarks.records import TimingReport, TimingRow, TimingTable
from benchmarks.report import number, per_item
from seqsmooth import packages
from seqsmooth.ops import checks

FORMATS = (".png", ".svg")
OURS, THEIRS, INK = "#0b6e99", "#7d868d", "#22272b"
ROW_HEIGHT = 0.21
PANEL_WIDTH = 8.2


def check(path: Path | None) -> None:
    """Check that a picture can be drawn, before anything is measured for it."""
    if path is None:
        return
    checks.one_of("plot", path.suffix, FORMATS)
    checks.must(path.parent.is_dir(), "plot", "in a folder that is there", str(path))
    rule = "left out where matplotlib is not installed (pip install 'seqsmooth[bench]')"
    checks.must(packages.is_installed("matplotlib"), "plot", rule, str(path))


def save(report: TimingReport, path: Path) -> None:
    """Draw a report."""
    check(path)
    # Not pyplot: it keeps state and asks for a screen.
    figures: Any = importlib.import_module("matplotlib.figure")
    tables = report.tables
    across = 1 if len(tables) == 1 else 2
    down = math.ceil(len(tables) / across)
    heights = [max(len(table.rows) for table in tables[row * across : (row + 1) * across]) for row in range(down)]
    size = (across * PANEL_WIDTH, sum(ROW_HEIGHT * height + 0.9 for height in heights) + 0.8)
    figure = figures.Figure(figsize=size, layout="constrained")
    ratios = [ROW_HEIGHT * height + 0.9 for height in heights]
    grid = figure.subplots(down, across, squeeze=False, height_ratios=ratios)
    for place, axes in enumerate(grid.flat):
        if place < len(tables):
            _panel(axes, tables[place])
        else:
            axes.set_axis_off()
    machine = report.machine
    figure.suptitle(
        f"benchmarks {report.benchmark}: {machine['device']}, torch {machine['torch']}, "
        f"{machine['date'][:10]}, commit {machine['commit'] or 'unknown'}",
        fontsize=11,
        color=INK,
    )
    figure.savefig(path, dpi=110)


def _panel(axes: Any, table: TimingTable) -> None:
    rows = [row for row in table.rows if row.ours] + [row for row in table.rows if not row.ours]
    places = list(range(len(rows), 0, -1))
    for place, row in zip(places, rows, strict=True):
        _marks(axes, place, row, table)
    axes.set_yticks(places, [row.name for row in rows], fontsize=7.5)
    axes.set_ylim(0.3, len(rows) + 0.7)
    axes.set_xscale("log")
    axes.set_title(table.title, fontsize=9, loc="left", color=INK)
    unit = "ms" if table.items is None else "us" if table.items == 1 else "us for each"
    on_cpu = any(row.cpu is not None for row in rows)
    disc, ring = ("CPU time", "on the wall") if on_cpu else ("graph replay", "eager submission")
    axes.set_xlabel(f"{unit}; disc: {disc}, ring: {ring}; numbers: the disc, or the ring", fontsize=7.5)
    ticker: Any = importlib.import_module("matplotlib.ticker")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0) if _decades(axes) < 2.5 else (1.0,)))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis="x", labelsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both", which="major", color="#e7eaec", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    peer = table.row(table.peer)
    best = None if peer is None else peer.best()
    if peer is not None and best is not None:
        axes.axvline(_value(best.median, peer, table), color=THEIRS, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    theirs = sum(not row.ours for row in rows)
    if 0 < theirs < len(rows):
        axes.axhline(theirs + 0.5, color=THEIRS, linewidth=0.8)


def _marks(axes: Any, place: int, row: TimingRow, table: TimingTable) -> None:
    """A disc, a ring, the quartiles as lines through them, and at the right edge the number."""
    best = row.best()
    at_edge = {"xycoords": ("axes fraction", "data"), "fontsize": 7, "va": "center"}
    if best is None:
        axes.annotate("did not run", (1.01, place), color="#8a4b08", **at_edge)
        return
    colour = OURS if row.ours else THEIRS
    for spread, face in ((row.eager or row.wall, "white"), (row.graph or row.cpu, colour)):
        if spread is None:
            continue
        low, middle, high = (_value(time, row, table) for time in (spread.q1, spread.median, spread.q3))
        axes.plot([low, high], [place, place], color=colour, linewidth=1.4, solid_capstyle="butt", zorder=2)
        axes.plot([middle], [place], "o", markersize=4.6, markerfacecolor=face, markeredgecolor=colour, zorder=3)
    axes.annotate(number(_value(best.median, row, table), 3), (1.01, place), color=INK, **at_edge)


def _decades(axes: Any) -> float:
    low, high = axes.get_xlim()
    return math.log10(high / low)


def _value(milliseconds: float, row: TimingRow, table: TimingTable) -> float:
    """A time as the axis has it."""
    return milliseconds if table.items is None else 1000 * milliseconds / per_item(row, table)
