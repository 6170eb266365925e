"""Keep freed memory in the process: training on a CPU asks for the same large pieces at every step."""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # as malloc.h of glibc numbers the parameters of `mallopt`
_MOST = 2**31 - 1
_CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_")


def keep_memory() -> bool:
    """Let glibc's `malloc` keep what is freed, so that the next step of a training finds its memory there.

    By default large tensors go back to the kernel when they are freed, and it clears their pages again at the next
    step, which takes a third of the time of a step on a CPU, or more. With it, the process stays as large as it was at
    its largest, a twentieth to a fifth larger than without. `seqsmooth train` and the other commands that compute on a
    CPU call this; the library does not by itself. Call it before the first large tensor.

    Returns:
        Whether it was done: not where the C library is another one, nor where the environment has settings of the
        user's own (`MALLOC_TRIM_THRESHOLD_` and its like, or `glibc.malloc` in `GLIBC_TUNABLES`).
    """
    if any(name in os.environ for name in _CHOSEN) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        library = ctypes.CDLL(None)
        is_glibc = hasattr(library, "gnu_get_libc_version")
        # Large pieces come from the heap and not from `mmap`, and the heap is not trimmed.
        return is_glibc and library.mallopt(_MMAP_MAX, 0) == 1 and library.mallopt(_TRIM_THRESHOLD, _MOST) == 1
    except (AttributeError, OSError, TypeError):  # no `mallopt`, or no C library to ask
        return False
