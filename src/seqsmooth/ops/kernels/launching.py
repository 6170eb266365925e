"""Launches that take little of the host's time.

To find a compiled kernel, Triton binds and describes every argument anew at each launch: tens of microseconds for a
kernel of many, more than a small one takes the GPU. Here the compiled kernel is remembered by what it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from operator import attrgetter, itemgetter, or_
from typing import Any

from torch import Tensor

_ALIGNMENT = 16
_compiled: dict[tuple[object, ...], tuple[Any, tuple[object, ...]]] = {}
_orders: dict[int, tuple[tuple[str, ...], Any]] = {}
_plans: dict[tuple[type, ...], _Plan] = {}
_known_sizes: dict[tuple[object, ...], _Sizes] = {}
_dtype = attrgetter("dtype")


def launch(
    kernel: Any, grid: tuple[int, ...], given: tuple[Any, ...], constants: Mapping[str, object], **options: int
) -> None:
    """Launch a kernel.

    Args:
        kernel: a function of Triton, whose constants come last.
        grid: how many programs.
        given: its arguments before the constants, in order, the first a tensor.
        constants: the others by name.
        options: as `num_warps`.
    """
    who = id(kernel)
    names = tuple(constants)
    order, _ = _orders.get(who) or _orders.setdefault(who, (names, kernel))  # which lives as long
    if order != names:  # so that the values alone tell what a kernel was compiled for
        constants = {name: constants[name] for name in order}
    key = (who, given[0].get_device(), *constants.values(), *options.values(), *_looks(given))
    known = _compiled.get(key)
    if known is not None:
        known[0][(*grid, 1, 1)[:3]](*given, *known[1])
        return
    compiled = kernel[grid](*given, **constants, **options)
    if compiled is not None:  # as in the interpreter
        last = tuple(constants[name] for name in kernel.arg_names[len(given) :])
        _compiled[key] = compiled, last


def _looks(given: tuple[Any, ...]) -> tuple[object, ...]:
    """What a compiled kernel depends on of its arguments: types, alignment of memory, and how large numbers are.

    There are sixty of them in places, so what loops does so in C, and what was seen before is one object to compare.
    """
    kinds = tuple(map(type, given))
    plan = _plans.get(kinds)
    if plan is None:
        plan = _plans[kinds] = _Plan(kinds)
    tensors, numbers = plan.tensors(given), plan.numbers(given)
    pointers = list(map(Tensor.data_ptr, tensors))
    aligned = not reduce(or_, pointers) % _ALIGNMENT
    where = None if aligned else tuple([not pointer % _ALIGNMENT for pointer in pointers])
    return plan, where, _sizes(numbers), *map(_dtype, tensors)


@lru_cache(4096)
def _sizes(numbers: tuple[int, ...]) -> _Sizes:
    """How a kernel is compiled for numbers: 1 is a constant, others are of one or two words, multiples of 16 or not."""
    sizes = tuple([1 if number == 1 else (number % 16 == 0, -(2**31) <= number < 2**31) for number in numbers])
    return _known_sizes.setdefault(sizes, _Sizes())


class _Sizes:
    """Stands for the sizes of several numbers, each of which is its own object once."""


class _Plan:
    """How to pick the tensors and the numbers among arguments of some types."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self.tensors = _pick([place for place, kind in enumerate(kinds) if issubclass(kind, Tensor)])
        self.numbers = _pick([place for place, kind in enumerate(kinds) if kind is int])


def _pick(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda given: tuple([given[place] for place in places])
