"""The loss kernels compile for a GPU, as they are launched: the interpreter takes more than the compiler does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import torch
from oracles.compiler import compiling
from oracles.kernel_jobs import some_job
from seqsmooth.ops.cross_entropy import losses
from seqsmooth.ops.head import Head

cpu = torch.device("cpu")
with compiling() as names:
    for kind, size, dtype, entropy in (
        ("labels", 64, torch.float32, False),
        ("labels", 70000, torch.bfloat16, False),
        ("everything", 37, torch.bfloat16, True),
        ("two-tables", 2048, torch.float16, False),
        ("sets", 640, torch.bfloat16, False),
        ("bits", 2048, torch.bfloat16, False),
        ("law", 160, torch.bfloat16, False),
        ("law-and-more", 160, torch.float32, True),
    ):
        job = some_job(kind, 5, size, cpu, entropy=entropy, reduced=True)
        losses(torch.zeros(5, size, dtype=dtype, requires_grad=True), job).smoothed.backward()
    for kind in ("uniform", "law"):
        given = [torch.zeros(5, 16), torch.zeros(160, 16), torch.zeros(160)]
        leaves = [value.bfloat16().requires_grad_() for value in given]
        job = some_job(kind, 5, 160, cpu, entropy=False, reduced=True)
        Head(*leaves, 3).losses(job).smoothed.backward()
print(*sorted(set(names)))
"""


@pytest.mark.slow
def test_every_kernel_compiles() -> None:
    pytest.importorskip("triton")
    paths = [str(ROOT / "src"), str(ROOT / "tests")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{SCRIPT}"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert {"rows", "tiles", "summed", "emptied"} <= set(done.stdout.split())
