"""Functions of one number, inside other kernels."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """To 1e-7, whatever x: what it is made of saturates without overflow."""
    return 2 * tl.sigmoid(2 * x) - 1
