"""Which arithmetic runs, the Triton kernels, the native library or plain torch, and in which float types.

Kernels run where the tensors are on a GPU and Triton is installed, the native library where they are on the CPU and it
was built, and plain torch everywhere else: for kernels in double precision, and for both inside `torch.compile`,
`torch.func` and forward-mode derivatives, which take what they need from plain torch themselves.
The environment variable SEQSMOOTH_KERNELS overrides the choice: "torch" for plain torch everywhere, "native" and
"triton" for an error where that one cannot run. With "triton" and TRITON_INTERPRET=1 the kernels also run on the CPU,
slowly, for tests.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqsmooth.ops import checks, native

Choice = Literal["auto", "torch", "native", "triton"]
CHOICES: tuple[Choice, ...] = ("auto", "torch", "native", "triton")
VARIABLE = "SEQSMOOTH_KERNELS"
PLAIN = (Tensor, torch.nn.Parameter)
"""Classes whose numbers are where their pointers say."""
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Types of logits on a CPU."""
# `os.environ.get` encodes and decodes at each look, which is a large part of a small launch.
_ENVIRONMENT: dict[Any, Any] = os.environ._data  # type: ignore[attr-defined]
_KEY, _INTERPRETED = (os.environ.encodekey(name) for name in (VARIABLE, "TRITON_INTERPRET"))
_ASKED: dict[Any, Choice] = {os.environ.encodevalue(name): name for name in CHOICES}
_ONE = os.environ.encodevalue("1")


def choice() -> Choice:
    """The choice that the environment makes."""
    asked = _ENVIRONMENT.get(_KEY)
    if asked is None:
        return "auto"
    known = _ASKED.get(asked)
    if known is None:
        checks.one_of(VARIABLE, os.environ[VARIABLE], CHOICES)
    assert known is not None
    return known


def uses_kernels(*values: Tensor | None) -> bool:
    """Whether kernels run on these tensors."""
    if torch.compiler.is_compiling():  # before the environment: a compiled call would be compiled again for any change
        return False
    asked = choice()
    if asked == "torch" or forward_ad._current_level >= 0:
        return False
    if asked == "native":
        if native.library() is None:
            raise checks.wrong(VARIABLE, f"'auto' or 'torch' here, because {native.absence()}", repr(asked))
        if any(value is not None and value.is_cuda for value in values):
            raise checks.wrong(VARIABLE, "'auto', 'torch' or 'triton' for tensors on a GPU", repr(asked))
        return False
    on_gpu = True
    for value in values:
        if value is not None:
            if value.dtype == torch.float64 or checks.is_transformed(value):
                return False
            on_gpu = on_gpu and value.is_cuda
    if asked == "auto":
        return on_gpu and is_installed() and not _is_interpreted()
    if not is_installed():
        raise checks.wrong(VARIABLE, "'auto' or 'torch' where Triton is not installed", repr(asked))
    if not (on_gpu or _is_interpreted()):
        rule = "'auto' or 'torch' for tensors on the CPU (or set TRITON_INTERPRET=1)"
        raise checks.wrong(VARIABLE, rule, repr(asked))
    return True


def engine(*values: Tensor | None) -> Any | None:
    """What passes once over rows of logits, see `seqsmooth.ops.fused`.

    None where derivatives must be left to autograd: in transforms, compilers and tracers, and for tensors of other
    devices, types and classes, or whose memory does not hold their numbers.
    """
    if is_followed():
        return None
    if uses_kernels(*values):
        return kernels("engine")
    if forward_ad._current_level >= 0:
        return None
    for value in values:
        if value is None:
            continue
        if type(value) not in PLAIN or value.dtype not in FLOATS or not checks.visible(value):
            return None
        if value.is_neg() or value._is_zerotensor():
            return None
    return _room("cpu")


def is_followed() -> bool:
    """Whether a compiler, a tracer or a transform follows what is computed.

    No function of autograd runs in a transform then, even of tensors that the transform knows nothing of.
    """
    if torch.compiler.is_compiling():
        return True
    return torch._C._functorch.peek_interpreter_stack() is not None or torch._C._get_tracing_state() is not None


def fused() -> Any:
    """The pass in autograd, imported when it is first needed: it imports the formulas it falls back on."""
    return _room("fused")


@cache
def _room(name: str) -> Any:
    return import_module(f"seqsmooth.ops.{name}")


def uses_native(*values: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Whether functions of the native library that know one type alone run on these tensors."""
    if is_followed() or forward_ad._current_level >= 0 or path("cpu") != "native":
        return False
    return all(type(value) in PLAIN and value.dtype == dtype and checks.visible(value) for value in values)


@cache
def is_installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


@cache
def kernels(name: str) -> Any:
    """A module of kernels, imported when the first of them runs; an import statement takes longer at every call."""
    return import_module(f"seqsmooth.ops.kernels.{name}")


def path(device: Literal["cpu", "cuda"] | None = None) -> str:
    """The arithmetic for tensors on a device, "triton", "native" or "torch".

    By default the device is the GPU of this machine, or its CPU where it has none.
    """
    asked = choice()
    if device != "cpu":
        gpu = torch.cuda.is_available()
        if asked in ("auto", "triton") and is_installed() and (gpu or (asked == "triton" and _is_interpreted())):
            return "triton"
        if device == "cuda" or (gpu and asked != "native"):
            return "torch"
    return "native" if asked in ("auto", "native") and native.library() is not None else "torch"


def _is_interpreted() -> bool:
    return bool(_ENVIRONMENT.get(_INTERPRETED) == _ONE)


def finest(device: torch.device) -> torch.dtype:
    """The type for weights and probabilities, of which there are few: double where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def widen(values: Tensor) -> Tensor:
    """The type for sums over the vocabulary: fp32, or double if the values are."""
    return values if values.dtype == torch.float64 else values.float()
