"""Peak memory of a call on the CPU, as the kernel of the operating system counts it: the pages that a process holds.

Linux only; elsewhere nothing is counted. The counters are those of all threads and all allocators, a native library's
too, and are off by a few hundred KiB.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
REFERENCES = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""What the kernel is told to forget the highest count so far."""


def extra_bytes(step: Callable[[], object]) -> int | None:
    """Measure the peak during a call, less what was there before and less its results; None where nobody counts.

    What earlier calls have freed is given back first, or else the call would take it again unseen.
    """
    gc.collect()
    trim()
    try:
        REFERENCES.write_text(RESET_PEAK)
        before = _count("VmRSS")
        results = step()
        peak = _count("VmHWM")
    except OSError:
        return None
    return max(0, peak - before - _bytes_of(results))


def trim() -> None:
    """Give pages that nobody uses back to the operating system, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _count(name: str) -> int:
    """Return one count of the kernel, in bytes."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"{STATUS} has no {name}.")


def _bytes_of(results: object) -> int:
    """Sum the sizes of the tensors that a step has returned; those that share memory count once."""
    tensors = [value for value in results if isinstance(value, torch.Tensor)] if isinstance(results, tuple) else []
    storages = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in tensors}
    return sum(storages.values())
