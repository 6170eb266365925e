"""Which threads the C runs in: those of torch where torch has GNU's OpenMP, or else threads of its own.

After each parallel operation torch's threads spin for milliseconds, and other threads would share the cores with them.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import torch

_forked = False


def parallel() -> int | None:
    """The address of `GOMP_parallel`; None where C must start threads of its own.

    It must where torch has another OpenMP, and in a process made by `fork`, where the threads of OpenMP are missing.
    """
    return None if _forked else _address()


@cache
def _address() -> int | None:
    if not hasattr(os, "RTLD_NOLOAD"):  # as on Windows
        return None
    beside_torch = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    for name in (*map(str, beside_torch), "libgomp.so.1"):
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)  # only one that is loaded already
            return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
    return None


def _remember_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remember_fork)
