"""A compiled kernel is launched again only for arguments that it was compiled for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seqsmooth.ops.kernels.launching import launch

VALUES = torch.zeros(40)


class Compiled:
    """Knows what it is launched with."""

    def __init__(self) -> None:
        self.launches: list[tuple[object, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *arguments: self.launches.append((grid, *arguments))


class Kernel:
    """Compiles anew at each call, as Triton would for arguments that it has not seen."""

    arg_names = ("values", "count", "factor", "BLOCK", "FLAG")

    def __init__(self) -> None:
        self.compiled: list[Compiled] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def run(*arguments: object, **named: object) -> Compiled:
            self.compiled.append(Compiled())
            return self.compiled[-1]

        return run


def launched(kernel: Kernel, values: torch.Tensor = VALUES, count: object = 5, block: int = 64, warps: int = 4) -> None:
    launch(kernel, (7,), (values, count, 0.5), {"FLAG": True, "BLOCK": block}, num_warps=warps)


def test_the_second_launch_finds_what_the_first_compiled() -> None:
    kernel = Kernel()
    launched(kernel)
    launched(kernel, torch.ones(48), count=11)
    assert len(kernel.compiled) == 1
    ((grid, values, *rest),) = kernel.compiled[0].launches
    assert grid == (7, 1, 1)
    assert torch.equal(values, torch.ones(48))  # type: ignore[arg-type]
    assert rest == [11, 0.5, 64, True]  # constants in the order of the kernel's arguments


@pytest.mark.parametrize(
    "other",
    [
        {"values": VALUES.double()},
        {"values": VALUES[1:]},  # no multiple of 16 bytes
        {"count": 1},
        {"count": 16},
        {"count": 2**31},
        {"count": 5.0},
        {"count": None},
        {"count": VALUES},
        {"block": 128},
        {"warps": 8},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_a_kernel_is_compiled_for(other: dict[str, Any]) -> None:
    kernel = Kernel()
    launched(kernel)
    launched(kernel, **other)
    assert len(kernel.compiled) == 2
    launched(kernel)
    launched(kernel, **other)
    assert len(kernel.compiled) == 2


@pytest.mark.parametrize(("number", "flag"), [(1, True), (0, False)])
def test_a_flag_is_no_number(number: int, flag: bool) -> None:
    kernel = Kernel()
    launched(kernel, count=number)
    launched(kernel, count=flag)
    assert len(kernel.compiled) == 2


def test_kernels_are_told_apart() -> None:
    one, other = Kernel(), Kernel()
    launched(one)
    launched(other)
    assert len(one.compiled) == len(other.compiled) == 1
