"""The log of a run: log.csv, one row a logging event."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqsmooth.files.atomic import atomic_write_text

COLUMNS = ("epoch", "step", "split", "loss", "nll", "ess", "rate", "tokens_per_second", "lr")


class Journal:
    """Rows of numbers, each out of the process as soon as it is written.

    Args:
        path: the file.
        metrics: names of the columns behind those of all runs.
        steps: the steps that are done already: rows of later ones, which a run that died wrote, are taken back.
    """

    def __init__(self, path: Path, metrics: Sequence[str], steps: int = 0) -> None:
        self.path = path
        self.columns = (*COLUMNS, *metrics)
        kept = [row for row in read_log(path) if int(row["step"]) <= steps and steps > 0]
        with atomic_write_text(path) as file:
            file.write(_line(self.columns))
            for row in kept:
                file.write(_line([_cell(row.get(name)) for name in self.columns]))

    def add(self, values: Mapping[str, Any]) -> None:
        """Write a row; columns that are not given stay empty."""
        line = _line([_cell(values.get(name)) for name in self.columns])
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(line)  # closed and so with the system, which outlives the process


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log: numbers, words, None where a cell is empty. A last row that was cut short is left out."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    whole = text[: text.rfind("\n") + 1]
    rows = csv.DictReader(io.StringIO(whole))
    return [{name: _value(cell) for name, cell in row.items() if name is not None} for row in rows]


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _value(cell: str | None) -> Any:
    if not cell:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
