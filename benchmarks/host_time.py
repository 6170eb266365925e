"""Microseconds that the host needs to submit the loss of a training step, measured without a GPU.

    python -m benchmarks.host_time                    # this checkout: the parts of each loss
    python -m benchmarks.host_time a3199dc .          # two checkouts or revisions, interleaved: their ratio

Every checkout has a process of its own. They take turns, a few calls each, in a new random order each round. Times are
tenth percentiles over all rounds, for whatever else the machine does only adds to them. The rows of torch's own loss
are the same code on both sides: what their ratio differs from 1 by is noise.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.house import checkout, import_from

ROOT = Path(__file__).resolve().parents[1]
TORCH = "torch"
"""The case of torch's own loss."""
CALLS = 50
"""Calls of one case in one turn."""
Case = tuple[str, str]


class Worker:
    """A process that measures one checkout."""

    def __init__(self, folder: Path, path: str) -> None:
        self.samples: dict[Case, list[list[float]]] = {}
        self.launches: dict[Case, int] = {}
        words = [sys.executable, "-P", str(Path(__file__).with_name("host_worker.py")), path]
        self.process = subprocess.Popen(
            words, env=import_from(folder), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.cases: list[Case] = [(name, way) for name, way in self._answer()]

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("A process that measures has ended early; its error is above.")
        return json.loads(line)

    def measure(self, case: Case, times: int) -> None:
        """Time one case so many times more."""
        assert self.process.stdin is not None
        name, way = case
        self.process.stdin.write(json.dumps({"name": name, "way": way, "times": times}) + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        self.samples.setdefault(case, []).extend(answer["samples"])
        self.launches[case] = answer["launches"]

    def parts(self, case: Case) -> list[float]:
        """Return the tenth percentiles of propose, loss and backward."""
        samples = self.samples[case]
        return [sorted(part)[len(samples) // 10] for part in zip(*samples, strict=True)]

    def total(self, case: Case) -> float:
        """Return the tenth percentile of whole calls."""
        sums = sorted(map(sum, self.samples[case]))
        return sums[len(sums) // 10]

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def compete(workers: Sequence[Worker], times: int) -> list[Case]:
    """Time every case of all checkouts in turns; return the cases that all of them have."""
    shared = [case for case in workers[0].cases if all(case in worker.cases for worker in workers)]
    shuffle = random.Random(0)
    for done in range(0, times, CALLS):
        for case in shared:
            for worker in shuffle.sample(list(workers), len(workers)):
                worker.measure(case, min(CALLS, times - done))
    return shared


def table_of_parts(worker: Worker, cases: Sequence[Case]) -> str:
    """List what each part of each case takes, and its launches."""
    lines = [f"{'us':42s}" + "".join(f"{name:>9s}" for name in ("propose", "loss", "backward", "in all", "launches"))]
    for case in cases:
        numbers = (*worker.parts(case), worker.total(case), worker.launches[case])
        lines.append(f"{', '.join(case):42s}" + "".join(f"{number:9.0f}" for number in numbers))
    return "\n".join(lines)


def table_of_ratios(before: Worker, after: Worker, cases: Sequence[Case]) -> str:
    """Compare two checkouts, in Markdown."""
    lines = ["| loss, called with | before, us | after, us | after / before | launches |", "|---|---:|---:|---:|---:|"]
    for case in cases:
        old, new = before.total(case), after.total(case)
        launches = f"{before.launches[case]} -> {after.launches[case]}"
        lines.append(f"| {', '.join(case)} | {old:.0f} | {new:.0f} | {new / old:.2f} | {launches} |")
    ratios = {case: after.total(case) / before.total(case) for case in cases if case[0] != TORCH}
    worst = max(ratios, key=lambda case: ratios[case])
    lines.append(
        f"\nOurs: {geometric_mean(ratios.values()):.2f} on average, at most {ratios[worst]:.2f} ({', '.join(worst)})."
    )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.host_time", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="*", metavar="CHECKOUT", help="none, or two: a folder or a git revision each")
    parser.add_argument("--times", type=int, default=1000, help="calls of each case (default 1000)")
    parser.add_argument(
        "--path", choices=("triton", "torch"), default="triton", help="the kernels' path or plain torch"
    )
    given = parser.parse_args(words)
    if len(given.places) not in (0, 2) or given.times < 1:
        parser.error("Give no checkout or two, and 1 or more times.")
    with ExitStack() as stack:
        folders = [stack.enter_context(checkout(place)) for place in given.places or [str(ROOT)]]
        workers = [Worker(folder, given.path) for folder in folders]
        cases = compete(workers, given.times)
        print(table_of_ratios(*workers, cases) if len(workers) == 2 else table_of_parts(workers[0], cases))
        for worker in workers:
            worker.close()


if __name__ == "__main__":
    main()
