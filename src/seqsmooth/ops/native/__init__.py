"""The native library: C for the CPU, compiled when the package is built, loaded here. It does not link torch.

Nothing needs it: where it is absent, plain torch does the same. The file that is loaded belongs to the best level of
instructions that torch finds in this processor (ATEN_CPU_CAPABILITY=avx2 or =default asks for a lower one).
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import NamedTuple

import torch

from seqsmooth.ops.native import libraries

FOLDER = Path(__file__).parent
"""Where the C is, and the libraries."""

BEST = {"AVX512": "avx512", "AVX2": "avx2"}
"""The best level for what torch calls the abilities of the processor; "baseline" for any other."""


class _Found(NamedTuple):
    library: ctypes.CDLL | None
    level: str | None
    absence: str


_found: _Found | None = None
_loading = threading.Lock()


def library() -> ctypes.CDLL | None:
    """The library, or None where it is absent. It is looked for once a process."""
    return (_found or _find()).library


def level() -> str | None:
    """The level of instructions of the library, "avx512", "avx2" or "baseline"; None where it is absent."""
    return (_found or _find()).level


def absence() -> str:
    """Why the library is absent, in words that follow "because"; empty where it is there."""
    return (_found or _find()).absence


def _find() -> _Found:
    global _found
    with _loading:
        if _found is None:
            try:
                _found = _load()
            except OSError as error:  # of a folder that cannot be read
                _found = _Found(None, None, f"the native library cannot be looked for: {error}")
        return _found


def _load() -> _Found:
    levels = list(libraries.LEVELS)
    levels = levels[levels.index(BEST.get(torch.backends.cpu.get_cpu_capability(), "baseline")) :]
    wanted, failures = libraries.digest(FOLDER), []
    for name in levels:
        path = FOLDER / libraries.file_name(name, wanted)
        if path.is_file():
            try:
                return _Found(ctypes.CDLL(str(path)), name, "")
            except OSError as error:
                failures.append(str(error))
    if failures:
        return _Found(None, None, f"the native library cannot be loaded: {failures[0]}")
    if any(FOLDER.glob(libraries.file_name("*", "*"))):
        return _Found(None, None, "the native library was built from other C than is here now")
    reason = FOLDER / libraries.NOT_BUILT
    if reason.is_file():
        return _Found(None, None, reason.read_text(encoding="utf-8").strip())
    return _Found(None, None, "the native library was not built")
