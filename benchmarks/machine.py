"""The machine behind the numbers: its device and versions, and how fast it copies and multiplies."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import peers
from benchmarks.clock import Clock
from seqsmooth.ops import dispatch
from seqsmooth.packages import version_of
from seqsmooth.version import __version__

COPIED_BYTES = 2**30
MATRIX = 8192
REPEATS = 20


def describe(clock: Clock, commit: str | None = None) -> dict[str, Any]:
    """Name the device, the versions and the commit, and measure the device.

    Args:
        clock: of the device.
        commit: what to call the code; what git says of it otherwise.
    """
    gpu = clock.captures
    return {
        "device": torch.cuda.get_device_name(clock.device) if gpu else f"CPU, {torch.get_num_threads()} threads",
        "capability": ".".join(map(str, torch.cuda.get_device_capability(clock.device))) if gpu else None,
        "cuda": torch.version.cuda if gpu else None,
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "python": platform.python_version(),
        "seqsmooth": __version__,
        "kernels": dispatch.path() if gpu or dispatch.choice() == "triton" else "torch",
        "peers": {name: version for name in peers.PACKAGES if (version := version_of(name)) is not None},
        "commit": commit or git_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "copy_bytes_per_s": copy_rate(clock, COPIED_BYTES if gpu else COPIED_BYTES // 64),
        "matmul_flop_per_s": matmul_rate(clock, MATRIX if gpu else MATRIX // 32),
    }


def git_commit() -> str | None:
    """The commit of this file, marked "+" where something was changed since; None outside of a repository."""
    here = Path(__file__).resolve().parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changed else "")


def copy_rate(clock: Clock, size: int) -> float:
    """Bytes read and written a second when memory is copied."""
    source = torch.empty(size, dtype=torch.uint8, device=clock.device).zero_()
    target = torch.empty_like(source)
    return 2 * size / (_median_ms(clock, lambda: target.copy_(source)) / 1000)


def matmul_rate(clock: Clock, size: int) -> float:
    """Floating-point operations a second of a square matrix product in bf16, as many values as make it large."""
    one, other = (torch.randn(size, size, device=clock.device).bfloat16() for _ in range(2))
    return 2 * size**3 / (_median_ms(clock, lambda: one @ other) / 1000)


def _median_ms(clock: Clock, step: Any) -> float:
    for _ in range(3):
        step()
    return median(clock.eager(step) for _ in range(REPEATS if clock.captures else 3))


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
