"""Freed memory stays in the process where that was asked for, and nowhere else."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from typing import Any

import pytest

from seqsmooth import keep_memory

GLIBC = platform.libc_ver()[0] == "glibc"
FAULTS = """
import resource, sys, torch
import seqsmooth as ss
kept = {call}
for _ in range(40):
    torch.ones({size}).add(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones({size}).add(1)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(call: str, size: int = 12_000_000, **environment: str) -> tuple[str, int]:
    """What the call says, and the pages that ten rounds of two tensors ask the kernel for.

    The rounds before are for the crumbs that `malloc` cuts off to align a tensor: it keeps the first ones apart, some
    of each size, and then the tensor's place is a crumb too small for the next.
    """
    code = FAULTS.format(call=call, size=size)
    whole = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=whole | environment, capture_output=True, text=True, check=True
    )
    kept, number = done.stdout.split()
    return kept, int(number)


@pytest.mark.skipif(not GLIBC, reason="another C library")
def test_the_next_step_finds_its_memory() -> None:
    tensor = 4 * 12_000_000 // os.sysconf("SC_PAGE_SIZE")
    assert pages("None")[1] > 10 * tensor  # what is cured: each tensor is new memory every time
    kept, number = pages("ss.keep_memory()")
    assert kept == "True"
    assert number < tensor / 10


@pytest.mark.skipif(not GLIBC, reason="another C library")
def test_settings_of_the_user_stay() -> None:
    for name, value in (("MALLOC_TRIM_THRESHOLD_", "100000"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=10")):
        kept, number = pages("ss.keep_memory()", **{name: value})
        assert kept == "False"
        assert number > 10_000
    assert pages("ss.keep_memory()", GLIBC_TUNABLES="glibc.cpu.x86_ibt=off")[0] == "True"


@pytest.mark.parametrize("library", [object(), type("Musl", (), {"mallopt": lambda *_: 1})(), OSError(), TypeError()])
def test_other_libraries_are_left_alone(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: None) -> Any:
        if isinstance(library, Exception):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert keep_memory() is False


CHILDREN = """
import os, seqsmooth as ss, torch
from torch.utils.data import DataLoader
ss.keep_memory()
torch.ones(20_000_000).add(1)
loader = DataLoader([torch.full((1_000_000,), float(n)) for n in range(6)], batch_size=2, num_workers=2)
print(sum(batch.sum().item() for batch in loader))
child = os.fork()
if child == 0:
    total = sum(torch.ones(10_000_000).sum().item() for _ in range(5))
    os._exit(0 if total == 5e7 else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_workers_and_forks_are_fine() -> None:
    single = os.environ | {"OMP_NUM_THREADS": "1"}  # OpenMP's other threads do not survive a fork, whatever malloc does
    done = subprocess.run([sys.executable, "-c", CHILDREN], env=single, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["15000000.0", "0"]
