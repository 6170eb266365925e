"""Importing the library is cheap and needs torch and numpy only."""

from __future__ import annotations

import subprocess
import sys

SECONDS = "import time, torch, numpy; t = time.perf_counter(); import seqsmooth; print(time.perf_counter() - t)"
MODULES = """
import sys, torch, numpy
before = set(sys.modules)
import seqsmooth
new = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(name for name in new if name not in sys.stdlib_module_names))
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_costs_under_300_ms_beyond_torch() -> None:
    assert min(float(run(SECONDS)) for _ in range(3)) < 0.3


def test_brings_in_nothing_but_torch_and_numpy() -> None:
    assert set(run(MODULES).split()) <= {"seqsmooth", "torch", "numpy"}


def test_every_public_name_is_there() -> None:
    import seqsmooth

    assert all(hasattr(seqsmooth, name) for name in seqsmooth.__all__)
    assert len(seqsmooth.__all__) <= 30
