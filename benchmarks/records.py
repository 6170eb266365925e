"""The report of a benchmark: tables of rows of times, and its JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any, Literal

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.reading import read_record

KIND = "seqsmooth benchmark 1"
Mode = Literal["eager", "graph", "cpu", "wall"]
GPU_MODES: tuple[Mode, ...] = ("eager", "graph")
CPU_MODES: tuple[Mode, ...] = ("cpu", "wall")
MODES = GPU_MODES + CPU_MODES
"""On the GPU, calls submitted one by one and as a graph; on the CPU, its time in all threads and that on the wall."""


@dataclass(frozen=True)
class Spread:
    """Repeated times of one call, in milliseconds: the quartiles and how many there were."""

    q1: float
    median: float
    q3: float
    repeats: int

    @classmethod
    def of(cls, times: Sequence[float]) -> Spread:
        """Compute the quartiles of some times."""
        if len(times) == 1:
            return cls(times[0], times[0], times[0], 1)
        low, middle, high = quantiles(times, n=4, method="inclusive")
        return cls(low, middle, high, len(times))

    @property
    def width(self) -> float:
        """The distance between the quartiles, as a share of the median."""
        return (self.q3 - self.q1) / self.median if self.median else 0.0


@dataclass(frozen=True)
class TimingRow:
    """One contestant in one table. What is None was not measured; `failures` says why where it was tried."""

    name: str
    ours: bool
    against: str | None = None
    """The row of ours that this one is compared with."""
    eager: Spread | None = None
    graph: Spread | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why it did not run ("call") or could not be captured ("graph")."""
    extra_bytes: int | None = None
    """Peak memory beyond its inputs and its results."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Largest difference from float64, over the largest value, of each result."""
    items: int | None = None
    """How many items one call handles, where it is not what the table says."""
    first_call_s: float | None = None
    """Seconds of the first call, compilation included."""
    cpu: Spread | None = None
    wall: Spread | None = None
    over_ours: Mapping[Mode, Spread] = field(default_factory=dict)
    """On the CPU, its time over that of `against` in the same round."""
    over_peer: Mapping[Mode, Spread] = field(default_factory=dict)
    """On the CPU, its time over that of the peer of the table in the same round."""
    system_share: float | None = None
    """The share of its CPU time that the kernel of the operating system took, over all rounds."""

    def best(self) -> Spread | None:
        """Return the time in graph replay, or in eager submission, or on the CPU."""
        return self.graph or self.eager or self.cpu


@dataclass(frozen=True)
class TimingTable:
    """The contestants on one shape."""

    title: str
    shape: Mapping[str, int | str]
    rows: tuple[TimingRow, ...]
    peer: str | None = None
    """The row that is the peer to beat."""
    copied_bytes: int | None = None
    """Bytes that one read and one write of the input move."""
    flop: int | None = None
    """Operations of the matrix products of one call."""
    items: int | None = None
    """How many items (candidates, sentences) one call handles."""

    def row(self, name: str | None) -> TimingRow | None:
        """Find a row by its name."""
        return next((row for row in self.rows if row.name == name), None)


@dataclass(frozen=True)
class TimingReport:
    """One run of one benchmark."""

    benchmark: str
    machine: Mapping[str, Any]
    tables: tuple[TimingTable, ...]
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why a table could not be made."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole or not at all: what was at `path` before stays until the new file is complete."""
        with atomic_write_text(path) as file:
            file.write(json.dumps({"kind": KIND, **asdict(self)}, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TimingReport:
        """Read what `save` wrote."""
        rule = "a file written by `python -m benchmarks ... --json`"
        return read_record(Path(path), cls._parse, rule, name="file", kind=KIND)

    @classmethod
    def _parse(cls, content: Mapping[str, Any]) -> TimingReport:
        tables = tuple(_table(table) for table in content["tables"])
        return cls(content["benchmark"], content["machine"], tables, content["failures"])


def _table(content: Mapping[str, Any]) -> TimingTable:
    return TimingTable(**{**content, "rows": tuple(_row(row) for row in content["rows"])})


def _row(content: Mapping[str, Any]) -> TimingRow:
    # Reports of a GPU may be older than the fields of the CPU.
    given = {mode: content[mode] for mode in MODES if mode in content or mode in GPU_MODES}
    times: dict[str, Any] = {mode: None if spread is None else Spread(**spread) for mode, spread in given.items()}
    for name in ("over_ours", "over_peer"):
        times[name] = {mode: Spread(**spread) for mode, spread in content.get(name, {}).items()}
    return TimingRow(**{**content, **times})
