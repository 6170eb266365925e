"""Launches that take little of the host's time.

To find a compiled kernel, Triton binds and describes every argument anew at each launch: tens of microseconds for a
kernel of many, more than a small one takes the GPU. Here the compiled kernel is remembered by what it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

_compiled: dict[tuple[object, ...], tuple[Any, Any]] = {}


def launch(
    kernel: Any, grid: tuple[int, ...], given: tuple[object, ...], constants: Mapping[str, object], **options: int
) -> None:
    """Launch a kernel.

    Args:
        kernel: a function of Triton, whose constants come last.
        grid: how many programs.
        given: its arguments before the constants, in order, the first a tensor.
        constants: the others by name.
        options: as `num_warps`.
    """
    names = kernel.arg_names[len(given) :]
    last = tuple(map(constants.__getitem__, names))
    assert isinstance(given[0], Tensor)
    key = (id(kernel), given[0].get_device(), last, *options.values(), *_looks(given))
    known = _compiled.get(key)
    if known is not None:
        known[0][(*grid, 1, 1)[:3]](*given, *last)
        return
    made = kernel[grid](*given, **constants, **options)
    if made is not None:  # as in the interpreter
        _compiled[key] = made, kernel  # which lives as long, so that no other has its id


def _looks(given: tuple[Any, ...]) -> list[object]:
    """What a compiled kernel depends on of its arguments. One loop, for there are sixty of them in places."""
    seen: list[object] = []
    for value in given:
        if value is None:  # as about half of them are
            seen.append(None)
        elif type(value) is int:
            seen.append(1 if value == 1 else (value % 16 == 0, -(2**31) <= value < 2**31))
        elif isinstance(value, Tensor):
            seen += value.dtype, value.data_ptr() % 16 == 0
        else:
            seen.append(type(value))
    return seen
