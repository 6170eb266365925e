"""A report as text: one line a contestant."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import paper
from benchmarks.machine import WAITING
from benchmarks.records import Mode, Spread, TimingReport, TimingRow, TimingTable

MODE_NAMES: dict[Mode, str] = {"eager": "eager", "graph": "graph", "cpu": "CPU", "wall": "wall"}


@dataclass(frozen=True)
class ReportColumn:
    """A column: its heading, and what it says of a row."""

    heading: str
    cell: Callable[[TimingRow], str]


def text(report: TimingReport) -> str:
    """Write the whole report."""
    failed = [f"{name}: failed: {why}" for name, why in report.failures.items()]
    return "\n\n".join([heading(report), *(table_text(table, report) for table in report.tables), *failed])


def heading(report: TimingReport) -> str:
    """Say what ran, on which machine, with which versions."""
    machine = report.machine
    on_cpu = is_on_cpu(report)
    kind = "fp32" if on_cpu else "bf16"
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("torch", "triton", "cuda", "python", "seqsmooth") if machine.get(name)
    )
    peers = ", ".join(f"{name} {version}" for name, version in machine.get("peers", {}).items())
    rates = (
        f"copies {machine['copy_bytes_per_s'] / 1e12:.2f} TB/s (read + written), "
        f"multiplies {kind} at {machine['matmul_flop_per_s'] / 1e12:.3g} TFLOP/s"
    )
    if on_cpu:
        rates += "".join(f"; {name}={machine[name]}" for name in WAITING if name in machine)
        rates += f"; load average {machine['load_before']} before and {machine['load_after']} after"
    lines = [
        f"benchmarks {report.benchmark}, {machine['date']}, commit {machine['commit'] or 'unknown'}",
        f"{machine['device']}: {rates}; our kernels: {machine['kernels']}",
        versions + (f"; {peers}" if peers else ""),
    ]
    return "\n".join(lines)


def is_on_cpu(report: TimingReport) -> bool:
    """Whether a report is of a CPU."""
    return str(report.machine["device"]).startswith("CPU")


def columns(table: TimingTable, report: TimingReport) -> list[ReportColumn]:
    """Choose the columns that have an entry in this table."""
    chosen: list[ReportColumn] = []
    for mode in MODE_NAMES:
        if not any(getattr(row, mode) for row in table.rows):
            continue
        unit = "ms" if table.items is None else "us"
        chosen.append(ReportColumn(f"{MODE_NAMES[mode]} {unit}", partial(_time, table=table, mode=mode)))
        chosen.append(ReportColumn("+-%", partial(_width, mode=mode)))
        if any(row.against for row in table.rows):
            chosen.append(ReportColumn("/ours", partial(_to_ours, table=table, mode=mode)))
        if table.row(table.peer) is not None:
            chosen.append(ReportColumn("/peer", partial(_to_peer, table=table, mode=mode)))
    if report.benchmark == "step" and not is_on_cpu(report):
        chosen.append(ReportColumn("paper", lambda row: paper.beside(row.name) or "-"))
    if table.items not in (None, 1):
        chosen.append(ReportColumn("us each", partial(_each, table=table)))
    rates: tuple[tuple[str, int | None, str], ...] = (
        ("copy %", table.copied_bytes, "copy_bytes_per_s"),
        ("matmul %", table.flop, "matmul_flop_per_s"),
    )
    for name, amount, rate in rates:
        if amount is not None and not is_on_cpu(report):
            chosen.append(ReportColumn(name, partial(_share, amount=amount, limit=report.machine[rate])))
    if any(row.system_share is not None for row in table.rows):
        chosen.append(ReportColumn("system %", _system))
    if any(row.extra_bytes is not None for row in table.rows):
        chosen.append(ReportColumn("extra MiB", _mebibytes))
    for name in dict.fromkeys(name for row in table.rows for name in row.errors):
        chosen.append(ReportColumn(f"err {name}", partial(_error, name=name)))
    return chosen


def table_text(table: TimingTable, report: TimingReport) -> str:
    """Write one table, with what failed below it."""
    shown = columns(table, report)
    width = max(len(row.name) for row in table.rows)
    cells = {row.name: [column.cell(row) for column in shown] for row in table.rows}
    headings = [column.heading for column in shown]
    widths = [max(9, *map(len, column)) for column in zip(headings, *cells.values(), strict=True)]
    lines = [table.title, _line("", width, headings, widths)]
    for mark, ours in (("ours", True), ("theirs", False)):
        group = [row for row in table.rows if row.ours == ours]
        if group:
            lines.append(f"-- {mark}")
        lines += [_line(row.name, width, cells[row.name], widths) for row in group]
    lines += notes(table, report)
    return "\n".join(lines)


def notes(table: TimingTable, report: TimingReport) -> list[str]:
    """List what failed, and what ratios refer to."""
    lines = []
    for row in table.rows:
        for what, why in row.failures.items():
            lines.append(f"{row.name}: {'capture failed' if what == 'graph' else 'did not run'}: {why}")
    if table.peer is not None and table.row(table.peer) is not None:
        lines.append(f"/peer: times over those of {table.peer}.")
    bases = sorted({row.against for row in table.rows if row.against})
    if bases:
        which = ", whichever does as much" if len(bases) > 1 else ""
        lines.append(f"/ours: times over those of our {' or '.join(bases)}{which}.")
    if report.benchmark == "step" and not is_on_cpu(report):
        lines.append(paper.note())
    return lines


def per_item(row: TimingRow, table: TimingTable) -> float:
    """Return the number of items of one call, 1 where the table does not count items."""
    return float(row.items or table.items or 1)


def _time_per_item(row: TimingRow, table: TimingTable, mode: Mode) -> float | None:
    """Return the time of one item."""
    spread: Spread | None = getattr(row, mode)
    return None if spread is None else spread.median / per_item(row, table)


def _time(row: TimingRow, table: TimingTable, mode: Mode) -> str:
    spread: Spread | None = getattr(row, mode)
    if spread is None:
        return "failed" if mode in row.failures or "call" in row.failures else "-"
    return number(spread.median if table.items is None else 1000 * spread.median)


def _each(row: TimingRow, table: TimingTable) -> str:
    best = row.best()
    return "-" if best is None else number(1000 * best.median / per_item(row, table))


def _ratio(row: TimingRow, base: TimingRow | None, table: TimingTable, mode: Mode) -> str:
    mine = _time_per_item(row, table, mode)
    other = None if base is None else _time_per_item(base, table, mode)
    return "-" if mine is None or not other else number(mine / other, 3)


def _to_ours(row: TimingRow, table: TimingTable, mode: Mode) -> str:
    return _paired(row.over_ours, row, row.against, table, mode)


def _to_peer(row: TimingRow, table: TimingTable, mode: Mode) -> str:
    return _paired(row.over_peer, row, table.peer, table, mode)


def _paired(pairs: Mapping[Mode, Spread], row: TimingRow, base: str | None, table: TimingTable, mode: Mode) -> str:
    """Write the ratio of times of the same round, or of medians where rounds were not kept."""
    other = table.row(base)
    if mode not in pairs or other is None:
        return _ratio(row, other, table, mode)
    return number(pairs[mode].median * per_item(other, table) / per_item(row, table), 3)


def _system(row: TimingRow) -> str:
    return "-" if row.system_share is None else f"{100 * row.system_share:.0f}"


def _share(row: TimingRow, amount: float, limit: float) -> str:
    best = row.best()
    return "-" if best is None or not best.median else f"{100 * amount / (best.median / 1000) / limit:.0f}"


def _width(row: TimingRow, mode: Mode) -> str:
    spread: Spread | None = getattr(row, mode)
    return "-" if spread is None else f"{100 * spread.width / 2:.0f}"


def _mebibytes(row: TimingRow) -> str:
    return "-" if row.extra_bytes is None else number(row.extra_bytes / 2**20, 3)


def _error(row: TimingRow, name: str) -> str:
    error = row.errors.get(name)
    return "-" if error is None else f"{error:.0e}"


def number(value: float, digits: int = 4) -> str:
    """Write a number with so many digits, never in powers of ten."""
    if not value:
        return "0"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def _line(name: str, width: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"{name:<{width}}  " + "  ".join(f"{cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
