"""One sentence for every wrong argument: what must be, and what is.

Checks of shape, type and range cost nothing and always run. Checks of the *values* in a tensor need those values on
the host, so they run only where that is free: on the CPU, outside `torch.compile`. On an accelerator they would stall
the queue at every step, and the index kernels of the device catch a bad id themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

import torch
from torch import Tensor


def must(condition: bool, name: str, rule: str, value: object) -> None:
    """Raise `wrong` unless `condition` holds."""
    if not condition:
        raise wrong(name, rule, value)


def require(condition: bool, sentence: str) -> None:
    """Raise a ValueError that says `sentence` unless `condition` holds."""
    if not condition:
        raise ValueError(sentence)


def wrong(name: str, rule: str, value: object) -> ValueError:
    """The sentence "`name` must be <rule>; it is <value>.", where it takes time to put it together."""
    return ValueError(f"`{name}` must be {rule}; it is {value}.")


def missing(package: str, what: str, extra: str) -> ValueError:
    """The sentence for a package that is not installed, and the way out."""
    way_out = f"pip install 'seqsmooth[{extra}]'"
    return ValueError(f"`{package}` must be installed for {what} ({way_out}).")


def positive(name: str, value: float) -> float:
    """Check a number greater than 0 (infinity is one)."""
    must(_is_number(value), name, "a number", repr(value))
    must(value > 0, name, "greater than 0", value)
    return float(value)


def non_negative(name: str, value: float) -> float:
    """Check a finite number that is 0 or more."""
    must(_is_number(value), name, "a number", repr(value))
    must(0 <= value < math.inf, name, "a finite number, 0 or more", value)
    return float(value)


def fraction(name: str, value: float) -> float:
    """Check a number between 0 and 1."""
    must(_is_number(value), name, "a number", repr(value))
    must(0 <= value <= 1, name, "between 0 and 1", value)
    return float(value)


def flag(name: str, value: object) -> None:
    """Check a yes or no."""
    must(isinstance(value, bool), name, "True or False", repr(value))


def whole(name: str, value: object) -> None:
    """Check a whole number."""
    must(isinstance(value, Integral) and not isinstance(value, bool), name, "a whole number", repr(value))


def at_least(name: str, value: int, least: int) -> int:
    """Check a whole number that is `least` or more."""
    whole(name, value)
    must(value >= least, name, f"{least} or more", value)
    return int(value)


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Check a word from a short list."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise wrong(name, f"one of {listed}", repr(value))


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


def describe(value: object) -> str:
    """A value in words: "a GroundTruth", or "the class Hamming" where it was not called."""
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def ids_below(name: str, value: Tensor, size: int, where: Tensor | None = None) -> None:
    """Check that ids (those where `where` holds) lie in [0, size); only where `visible`."""
    if not visible(value) or value.numel() == 0:
        return
    used = value if where is None else value.masked_fill(~where, 0)
    low, high = used.min(), used.max()
    must(bool(low >= 0), name, f"ids in [0, {size})", f"{int(low)} at its lowest")
    must(bool(high < size), name, f"ids in [0, {size})", f"{int(high)} at its highest")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
