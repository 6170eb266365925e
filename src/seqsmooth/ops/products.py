"""Matrix products on the CPU, by the faster of the two libraries that torch brings.

Torch gives fp32 products to MKL, which uses half the width of the vector units of AMD's processors with AVX-512. There
oneDNN, which torch has for its recurrent layers and for half precision, takes half the time.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from seqsmooth.ops import dispatch

LEAST, SIDE = 2**18, 16
"""The fewest multiplications that make up for the longer way to oneDNN, and the least of M, N and K."""


def linear(
    inputs: Tensor,  # (..., K)
    weight: Tensor,  # (N, K)
    bias: Tensor | None = None,  # (N,)
) -> Tensor:  # (..., N)
    """`F.linear`, with derivatives of any order.

    Examples:
        >>> inputs, weight = torch.randn(3, 4), torch.randn(5, 4)
        >>> torch.allclose(linear(inputs, weight), inputs @ weight.t())
        True
    """
    if not _fits(inputs, weight, bias):
        return F.linear(inputs, weight, bias)
    rows = inputs.reshape(-1, inputs.shape[-1])
    result = _apply(rows, weight, bias)
    return result if inputs.dim() == 2 else result.view(*inputs.shape[:-1], weight.shape[0])


def multiply(
    left: Tensor,  # (M, K)
    right: Tensor,  # (K, N)
) -> Tensor:  # (M, N)
    """`left @ right`, with derivatives of any order."""
    other = right.t()
    if not _fits(left, other, None):
        return left @ right
    # oneDNN copies a first factor that is a transpose. If that is the largest of the three, as the gradient of logits
    # is, the transpose of the result is cheaper.
    if not left.is_contiguous() and left.numel() > other.numel() + left.shape[0] * other.shape[0]:
        return _apply(other, left, None).t().contiguous()
    return _apply(left, other, None)


def multiply_into(
    out: Tensor,  # (M, N)
    left: Tensor,  # (M, K)
    right: Tensor,  # (K, N)
    *,
    add: bool = False,
) -> None:
    """Write `left @ right`, or add it to what is there; without derivatives."""
    if _fits(left, right.t(), None):
        product = _onednn(left, right.t(), None)
        _ = out.add_(product) if add else out.copy_(product)
    elif add:
        out.addmm_(left, right)
    else:
        torch.mm(left, right, out=out)


def add_product(
    total: Tensor | None,  # (M, N)
    left: Tensor,  # (M, K)
    right: Tensor,  # (K, N)
    dtype: torch.dtype,
) -> Tensor:  # (M, N)
    """Add `left @ right` to a sum in place, or begin one of this type; without derivatives.

    Where oneDNN multiplies, the memory is that of the transpose: it would copy a first factor that is a transpose.
    """
    if total is not None and total.dtype == left.dtype and not _fits(left, right.t(), None):
        return total.addmm_(left, right)
    product = multiply(right.t(), left.t()).t() if _fits(left, right.t(), None) else left @ right
    return product.to(dtype) if total is None else total.add_(product)


class Linear(torch.nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        """From inputs (..., K) to outputs (..., N)."""
        return linear(input, self.weight, self.bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return _onednn(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        asked = ctx.needs_input_grad
        return (
            multiply(grad, weight) if asked[0] else None,
            multiply(grad.t(), inputs) if asked[1] else None,
            grad.sum(0) if asked[2] else None,
        )


def _apply(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if not torch.is_grad_enabled():
        return _onednn(inputs, weight, bias)
    result: Tensor = _Linear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
    return result


def _onednn(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()  # rows that lie apart would take oneDNN a thousand times as long
    result: Tensor = torch.ops.mkldnn._linear_pointwise.default(inputs, weight, bias, "none", [], "")
    return result


def _fits(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether oneDNN takes these factors, and is the faster one."""
    if dispatch.is_followed() or inputs.numel() * weight.shape[0] < LEAST or not prefers_onednn():
        return False
    if min(weight.shape) < SIDE or inputs.numel() < SIDE * weight.shape[1]:
        return False
    for value in (inputs, weight, bias):
        if value is None:
            continue
        plain = type(value) in (Tensor, torch.nn.Parameter) and value.device.type == "cpu"
        if not plain or value.dtype != torch.float32:
            return False
    if forward_ad._current_level >= 0 or torch.is_autocast_enabled("cpu"):
        return False
    return bool(torch.backends.mkldnn.enabled) and dispatch.choice() != "torch"


@cache
def prefers_onednn() -> bool:
    """Whether oneDNN is faster than MKL on this processor: one of AMD with AVX-512."""
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return both and wide and hasattr(torch.ops.mkldnn, "_linear_pointwise") and "AuthenticAMD" in _processor()


def _processor() -> str:
    """What the system says of the first processor."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return lines.read(1000)
    except OSError:  # there is none but on Linux
        return platform.processor()
