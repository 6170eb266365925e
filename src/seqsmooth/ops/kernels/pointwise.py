"""Functions of one number, and how kernels that handle numbers one by one find them: inside other kernels."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """To 1e-7, whatever x: what it is made of saturates without overflow."""
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def places(count, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The numbers that this program handles, in rows of a width: place in all, row, column, and which exist."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return place, (place // WIDTH).to(tl.int64), place % WIDTH, place < count


@triton.jit
def load(pointers, ok):
    """Read as float32; 0 where there is nothing."""
    return tl.load(pointers, mask=ok, other=0.0).to(tl.float32)


@triton.jit
def store(pointers, values, ok):
    """Write in the type that is there."""
    tl.store(pointers, values.to(pointers.dtype.element_ty), mask=ok)
