"""Kernels compiled before anything is timed: every benchmark once, in processes side by side, its numbers discarded.

Triton and torch.compile keep on disk what they compiled. In one process a benchmark compiles one kernel after the
other, a second or more each, and that is most of its set-up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from benchmarks.run import SHAPED

COMMAND = (sys.executable, "-m", "benchmarks")
ROOT = Path(__file__).resolve().parents[1]
"""Where `benchmarks` can be imported."""
BRIEFLY = ("--seconds", "1", "--quick")


@dataclass(frozen=True)
class Task:
    """One process: its name, and the words after `python -m benchmarks`."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    name: str
    status: int
    seconds: float

    def __str__(self) -> str:
        result = "done" if self.status == 0 else f"failed with exit status {self.status}"
        return f"{self.name}: {result} after {self.seconds:.1f} s"


def tasks(benchmarks: Sequence[str], shapes: Sequence[str], options: Sequence[str] = ()) -> list[Task]:
    """One for each shape of benchmarks that have shapes, the last and largest first, and one for each other one."""
    shaped = [
        Task(f"{benchmark} {shape}", (benchmark, "--shapes", shape, *options))
        for shape in reversed(shapes)
        for benchmark in benchmarks
        if benchmark in SHAPED
    ]
    return shaped + [Task(name, (name, *options)) for name in benchmarks if name not in SHAPED]


def run(given: Sequence[Task], workers: int | None = None) -> Iterator[Done]:
    """Run the tasks, at most so many at a time (as many as there are cores by default); each is told as it ends."""
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for future in as_completed([pool.submit(_one, task) for task in given]):
            yield future.result()


def _one(task: Task) -> Done:
    start = time.monotonic()
    nothing = subprocess.DEVNULL
    words = [*COMMAND, *task.words, *BRIEFLY]
    ended = subprocess.run(words, cwd=ROOT, stdin=nothing, stdout=nothing, stderr=nothing, check=False)
    return Done(task.name, ended.returncode, time.monotonic() - start)
