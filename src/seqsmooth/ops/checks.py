"""Checks of tensors, beside those of plain values: one sentence for every wrong argument.

Checks of shape, type and range cost nothing and always run. Checks of the *values* in a tensor need those values on
the host, so they run only where that is free: on the CPU, outside `torch.compile`. On an accelerator they would stall
the queue at every step, and the index kernels of the device catch a bad id themselves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.checks import (
    at_least,
    describe,
    flag,
    fraction,
    missing,
    must,
    non_negative,
    one_of,
    positive,
    require,
    whole,
    wrong,
)

__all__ = [
    "at_least",
    "describe",
    "device",
    "flag",
    "floats",
    "fraction",
    "ids_below",
    "integers",
    "is_tensor",
    "is_transformed",
    "missing",
    "must",
    "non_negative",
    "one_of",
    "positive",
    "require",
    "shape",
    "visible",
    "whole",
    "wrong",
]


def is_tensor(name: str, value: object) -> None:
    """Check that something is a tensor at all."""
    if not isinstance(value, Tensor):
        raise wrong(name, "a torch.Tensor", describe(value))


def shape(name: str, value: Tensor, *sizes: int | None, letters: str) -> None:
    """Check a tensor's shape against `sizes`, where None admits any size; `letters` names it, as in "(B, T)"."""
    is_tensor(name, value)
    given = tuple(value.shape)
    if len(given) == len(sizes):
        for size, own in zip(sizes, given, strict=True):
            if size is not None and size != own:
                break
        else:
            return
    sized = str(tuple("*" if size is None else size for size in sizes)).replace("'", "")
    known = "" if all(size is None for size in sizes) else f" = {sized}"
    raise wrong(name, f"of shape {letters}{known}", given)


def integers(name: str, value: Tensor) -> None:
    """Check a tensor of ids."""
    if isinstance(value, Tensor) and value.dtype is torch.int64:  # as nearly all are
        return
    is_tensor(name, value)
    counted = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    must(counted, name, "a tensor of whole numbers", value.dtype)


def floats(name: str, value: Tensor) -> None:
    """Check a tensor of real numbers."""
    if isinstance(value, Tensor) and value.is_floating_point():  # as nearly all are
        return
    is_tensor(name, value)
    must(value.is_floating_point(), name, "a floating-point tensor", value.dtype)


def device(name: str, value: Tensor, home: torch.device, way_out: str = "") -> None:
    """Check that a tensor is where the others are."""
    if value.device != home:
        raise wrong(name, f"on {home}, as the rest{way_out}", f"on {value.device}")


def visible(value: Tensor) -> bool:
    """Whether looking at the values of a tensor is free: they are on the host and nothing is being traced."""
    return value.device.type == "cpu" and not torch.compiler.is_compiling() and not is_transformed(value)


def is_transformed(value: Tensor) -> bool:
    """Whether a tensor stands for others inside `torch.func.vmap`, `grad` and the like."""
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(value)
    return wrapped


def ids_below(name: str, value: Tensor, size: int, where: Tensor | None = None) -> None:
    """Check that ids (those where `where` holds) lie in [0, size); only where `visible`."""
    if not visible(value) or value.numel() == 0:
        return
    used = value if where is None else value.masked_fill(~where, 0)
    low, high = used.min(), used.max()
    must(bool(low >= 0), name, f"ids in [0, {size})", f"{int(low)} at its lowest")
    must(bool(high < size), name, f"ids in [0, {size})", f"{int(high)} at its highest")
