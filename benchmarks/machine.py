"""The machine behind the numbers: its device and versions, and how fast it copies and multiplies."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""What tells the threads of torch how to wait for each other: by default they spin, which is CPU time."""


def describe(clock: Clock, commit: str | None = None, paths: Sequence[str] = ()) -> dict[str, Any]:
    """Name the device, the versions and the commit, and measure the device.

    Args:
        clock: of the device.
        commit: what to call the code; what git says of it otherwise.
        paths: those that ours take on the CPU.
    """
    gpu = clock.captures
    return {
        "device": torch.cuda.get_device_name(clock.device) if gpu else f"CPU: {processor()}, {cores()} cores",
        "capability": ".".join(map(str, torch.cuda.get_device_capability(clock.device))) if gpu else None,
        "cuda": torch.version.cuda if gpu else None,
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "python": platform.python_version(),
        "seqsmooth": __version__,
        "kernels": " and ".join(paths) or (dispatch.path() if gpu or dispatch.choice() == "triton" else "torch"),
        "peers": {name: version for name in peers.PACKAGES if (version := version_of(name)) is not None},
        "commit": commit or git_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "copy_bytes_per_s": copy_rate(clock, COPIED_BYTES if gpu else COPIED_BYTES // 4),
        "matmul_flop_per_s": matmul_rate(clock, MATRIX if gpu else MATRIX // 8),
        **({} if gpu else load("before") | {name: value for name in WAITING if (value := os.environ.get(name))}),
    }


def processor() -> str:
    """Name the CPU as its kernel does."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.machine()


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load(when: str) -> dict[str, float]:
    """Say how many threads of all processes wanted a core in the last minute: more than ours, and others worked too."""
    return {f"load_{when}": round(os.getloadavg()[0], 2)} if hasattr(os, "getloadavg") else {}


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads; as many as before if None."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
    """Floating-point operations a second of a square matrix product, in bf16 on a GPU and fp32 on a CPU."""
    dtype = torch.bfloat16 if clock.captures else torch.float32
    one, other = (torch.randn(size, size, device=clock.device).to(dtype) for _ in range(2))
    return 2 * size**3 / (_median_ms(clock, lambda: one @ other) / 1000)


def _median_ms(clock: Clock, step: Any) -> float:
    for _ in range(3):
        step()
    return median(clock.eager(step) for _ in range(REPEATS if clock.captures else 3))


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
