"""The C touches no memory but that of its tensors, as users have it; sanitizers are `tests/sanitized.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seqsmooth.ops import native

TESTS = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="protects pages of memory as Linux does")


def run(*given: str, capability: str = "") -> subprocess.CompletedProcess[str]:
    told = {"SEQSMOOTH_KERNELS": "native", "ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": "1"}
    paths = os.pathsep.join([str(TESTS), str(Path(native.__file__).parents[3])])
    command = [sys.executable, "-m", "oracles.fenced", *given]
    environment = {name: value for name, value in (os.environ | told).items() if value} | {"PYTHONPATH": paths}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("level", ["avx512", "avx2", "baseline"])
def test_nothing_beyond_a_tensor_is_touched(level: str) -> None:
    levels = list(native.libraries.LEVELS)
    if native.level() is None or levels.index(native.level()) > levels.index(level):
        pytest.skip(f"no native library of this level, {native.absence() or 'which this processor lacks'}")
    done = run(capability="default" if level == "baseline" else level)
    assert done.returncode == 0, done.stderr


def test_fences_hold() -> None:
    assert run("beyond").returncode == -signal.SIGSEGV
