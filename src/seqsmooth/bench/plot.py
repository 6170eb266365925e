"""A report as a picture: one panel a table, one bar a contestant."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

from seqsmooth.bench import peers
from seqsmooth.bench.records import Report, Row, Spread, Table
from seqsmooth.bench.report import number, per_item
from seqsmooth.ops import checks

FORMATS = (".png", ".svg")
OURS, THEIRS, INK = "#0b6e99", "#b8bec4", "#22272b"
ROW_HEIGHT = 0.21
PANEL_WIDTH = 8.2


def check(path: Path | None) -> None:
    """Check that a picture can be drawn, before anything is measured for it."""
    if path is None:
        return
    checks.one_of("plot", path.suffix, FORMATS)
    checks.must(path.parent.is_dir(), "plot", "in a folder that is there", str(path))
    rule = "left out where matplotlib is not installed (pip install 'seqsmooth[toolkit]')"
    checks.must(peers.found("matplotlib"), "plot", rule, str(path))


def save(report: Report, path: Path) -> None:
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
        f"seqsmooth bench {report.benchmark}: {machine['device']}, torch {machine['torch']}, "
        f"{machine['date'][:10]}, commit {machine['commit'] or 'unknown'}",
        fontsize=11,
        color=INK,
    )
    figure.savefig(path, dpi=110)


def _panel(axes: Any, table: Table) -> None:
    rows = [row for row in table.rows if row.ours] + [row for row in table.rows if not row.ours]
    places = list(range(len(rows), 0, -1))
    for place, row in zip(places, rows, strict=True):
        _bar(axes, place, row, table)
    axes.set_yticks(places, [row.name for row in rows], fontsize=7.5)
    axes.set_ylim(0.3, len(rows) + 0.7)
    axes.set_xscale("log")
    axes.set_title(table.title, fontsize=9, loc="left", color=INK)
    unit = "ms" if table.items is None else "us for each"
    legend = "bar: graph replay (pale: eager, where not captured); ring: eager submission"
    axes.set_xlabel(f"{unit}; {legend}", fontsize=7.5)
    axes.tick_params(axis="x", labelsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="major", color="#e3e6e8", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.12)  # room for the numbers
    peer = table.row(table.peer)
    best = None if peer is None else peer.best()
    if peer is not None and best is not None:
        axes.axvline(_value(best.median, peer, table), color=INK, linewidth=0.7, linestyle=(0, (4, 3)))


def _bar(axes: Any, place: int, row: Row, table: Table) -> None:
    best = row.best()
    if best is None:
        axes.annotate(
            "did not run", (0.01, place), xycoords=("axes fraction", "data"), fontsize=7, va="center", color="#8a4b08"
        )
        return
    colour = OURS if row.ours else THEIRS
    middle, low, high = (_value(time, row, table) for time in (best.median, best.q1, best.q3))
    captured = row.graph is not None
    axes.barh(place, middle, height=0.66, color=colour, alpha=1.0 if captured or not row.ours else 0.55)
    axes.plot([low, high], [place, place], color=INK, linewidth=1.1, solid_capstyle="butt")
    if captured and isinstance(row.eager, Spread):
        eager = _value(row.eager.median, row, table)
        axes.plot([eager], [place], marker="o", markersize=3.6, markerfacecolor="white", markeredgecolor=INK)
    beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(number(middle, 3), (middle, place), fontsize=6.8, color=INK, **beside)


def _value(milliseconds: float, row: Row, table: Table) -> float:
    """A time as the axis has it."""
    return milliseconds if table.items is None else 1000 * milliseconds / per_item(row, table)
