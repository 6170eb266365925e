"""The measurement of host time runs where there is no GPU, and sees the launches that a step really has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "host_time.py"
LAUNCHES = {
    "torch, head": 0,
    "mle, head": 5,  # the target, the loss, hidden states without ignored rows, the sum, the gradient rescaled
    "mle, logits": 4,  # the target, the loss, the sum, the gradient again
    "tok-seq, head": 6,
}


def test_prints_times_and_launches() -> None:
    pytest.importorskip("triton")
    sources = str(SCRIPT.parents[1] / "src")
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "10"],
        env=os.environ | {"PYTHONPATH": sources},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    rows = {line[:24].strip(): [int(number) for number in line[24:].split()] for line in run.stdout.splitlines()[1:]}
    assert {name: rows[name][-1] for name in LAUNCHES} == LAUNCHES
    for propose, loss, backward, total, _ in rows.values():
        assert abs(propose + loss + backward - total) <= 2
        assert min(loss, backward) > 0
