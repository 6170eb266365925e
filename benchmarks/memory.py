"""What `seqsmooth.keep_memory` saves: the kernel's time and the pages of whole training steps on a CPU.

    python -m benchmarks.memory --json memory.json

Each measurement is a process of its own, with and without in turn; a share is that of the kernel's time in the user's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.step import SIZES, TINY, build

MODELS = ("show_tell", "rnnsearch")
OBJECTIVES = ("mle", "tok")
WORDS = 9953  # of Show and Tell here: COCO's vocabulary at five occurrences


def measure(model: Any, objective: Any, steps: int, *, keep: bool, tiny: bool = False) -> dict[str, float]:
    """Take some steps on the CPU in this process, after three that are not counted."""
    import seqsmooth as ss

    if keep:
        ss.keep_memory()
    size = SIZES[model] if model == "rnnsearch" else replace(SIZES[model], vocabulary=WORDS)
    bench = build(model, objective, device="cpu", precision="fp32", size=TINY if tiny else size)
    for _ in range(3):
        bench.eager()
    before, began = resource.getrusage(resource.RUSAGE_SELF), os.times()
    for _ in range(steps):
        bench.eager()
    after, ended = resource.getrusage(resource.RUSAGE_SELF), os.times()
    return {
        "user": (ended.user - began.user) / steps,
        "system": (ended.system - began.system) / steps,
        "pages": (after.ru_minflt - before.ru_minflt) / steps,
        "peak": after.ru_maxrss / 1024,
    }


def compare(model: str, objective: str, steps: int, rounds: int, *, tiny: bool = False) -> dict[str, dict[str, float]]:
    """Measure a step with and without, in turn, and take the medians."""
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(rounds):
        for keep in found:
            call = f"measure({model!r}, {objective!r}, {steps}, keep={keep}, tiny={tiny})"
            code = f"import json; from benchmarks.memory import measure; print(json.dumps({call}))"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            found[keep].append(json.loads(done.stdout))
    return {
        name: {key: median(each[key] for each in found[keep]) for key in found[keep][0]}
        for name, keep in (("without", False), ("with", True))
    }


def main() -> None:
    """Compare, print a table, write it where that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="counted steps of a process (default 12)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind (default 3)")
    parser.add_argument("--json", type=Path, help="write the medians here")
    given = parser.parse_args()
    rows: dict[str, dict[str, dict[str, float]]] = {}
    print("model      loss  memory    user s  system s  share    pages  peak MiB")
    for model in MODELS:
        for objective in OBJECTIVES:
            rows[f"{model}/{objective}"] = found = compare(model, objective, given.steps, given.rounds)
            for name, one in found.items():
                label = "kept" if name == "with" else "returned"
                share = one["system"] / one["user"]
                print(
                    f"{model:<10} {objective:<5} {label:<8} {one['user']:7.3f} {one['system']:9.3f} {share:6.1%} "
                    f"{one['pages']:8.0f} {one['peak']:9.0f}",
                    flush=True,
                )
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
