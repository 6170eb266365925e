"""Launches compiled instead of run: what a GPU would be asked for, made ready where there is none."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

TYPES = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.bool: "i1",
}


@contextmanager
def compiling() -> Iterator[list[str]]:
    """Compile every kernel that is launched inside for a Hopper GPU; yields the names of those that were.

    For a process in which the kernels were imported without the interpreter. Nothing is computed, so results are
    whatever the memory held.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    from seqsmooth.ops import kernels

    for module in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}."):
        importlib.import_module(module.name)  # now, for what is imported below would be interpreted
    names: list[str] = []
    options = ("num_warps", "num_stages", "maxnreg")

    def launch(kernel: Any, grid: object) -> Any:
        def run(*given: object, **more: object) -> None:
            chosen = {name: more.pop(name) for name in options if name in more}
            values = dict(zip(kernel.arg_names, given, strict=False)) | more
            signature, constants, hints = {}, {}, {}
            for place, parameter in enumerate(kernel.params):
                value = values.get(parameter.name, parameter.default)
                constant = parameter.is_constexpr or value is None
                signature[parameter.name] = "constexpr" if constant else described(value)
                if constant:
                    constants[(place,)] = value
                elif divisible(value):
                    hints[(place,)] = [["tt.divisibility", 16]]
            source = ASTSource(kernel, signature, constexprs=constants, attrs=hints)
            compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=chosen)
            assert compiled.asm["cubin"]
            names.append(kernel.__name__)

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITFunction, "__getitem__", launch)
        patch.setenv("SEQSMOOTH_KERNELS", "triton")
        patch.setitem(os.environ, "TRITON_INTERPRET", "1")  # read by us at each call, by Triton only at its import
        yield names


def described(value: object) -> str:
    """The type of an argument in Triton's words."""
    if isinstance(value, torch.Tensor):
        return "*" + TYPES[value.dtype]
    if isinstance(value, float):
        return "fp32"
    assert isinstance(value, int)
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def divisible(value: object) -> bool:
    """Whether Triton would be told that an argument is a multiple of 16."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr() % 16 == 0
    return isinstance(value, int) and value % 16 == 0
