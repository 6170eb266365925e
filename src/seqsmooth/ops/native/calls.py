"""Calls of C functions with tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor

from seqsmooth.ops import native

_KINDS = {"i": ctypes.c_int64, "p": ctypes.c_void_p}


@cache
def function(name: str, kinds: str) -> Callable[..., Any]:
    """A function of the library that returns nothing, by its name without "seqsmooth_".

    Args:
        name: of the function.
        kinds: of its arguments, a letter each: "i" is a whole number, "p" a pointer.
    """
    library = native.library()
    assert library is not None
    found: Any = getattr(library, f"seqsmooth_{name}")
    found.argtypes, found.restype = [_KINDS[kind] for kind in kinds], None
    return found  # type: ignore[no-any-return]


def rows(values: Tensor) -> tuple[int, int]:
    """Where rows begin, and how far apart they are."""
    return values.data_ptr(), values.stride(-2)
