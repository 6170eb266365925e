"""The pointwise part of a GRU cell in one launch each way, reading and writing rows that lie apart in larger buffers.

The twin of `seqsmooth.models.cells.gru`; gates come in its order, r z n.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.pointwise import load, places, store, tanh

BLOCK = 256


@triton.jit
def _forward(
    reads,
    more,
    memories,
    before,
    hidden,
    count,
    reads_stride,
    more_stride,
    memories_stride,
    before_stride,
    hidden_stride,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    _, row, column, ok = places(count, H, BLOCK)
    own = reads + row * reads_stride + column
    other = more + row * more_stride + column
    past = memories + row * memories_stride + column
    x_r = load(own, ok) + load(other, ok)
    x_z = load(own + H, ok) + load(other + H, ok)
    x_n = load(own + 2 * H, ok) + load(other + 2 * H, ok)
    r = tl.sigmoid(x_r + load(past, ok))
    z = tl.sigmoid(x_z + load(past + H, ok))
    n = tanh(x_n + r * load(past + 2 * H, ok))
    h = load(before + row * before_stride + column, ok)
    store(hidden + row * hidden_stride + column, n + z * (h - n), ok)
    # In place, for the way back.
    store(own, r, ok)
    store(own + H, z, ok)
    store(own + 2 * H, n, ok)


@triton.jit
def _backward(
    reads,
    memories,
    before,
    hidden_grad,
    before_grad,
    reads_grad,
    memories_grad,
    count,
    reads_stride,
    memories_stride,
    before_stride,
    hidden_stride,
    before_grad_stride,
    reads_grad_stride,
    memories_grad_stride,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    _, row, column, ok = places(count, H, BLOCK)
    own = reads + row * reads_stride + column
    r = load(own, ok)
    z = load(own + H, ok)
    n = load(own + 2 * H, ok)
    m = load(memories + row * memories_stride + column + 2 * H, ok)
    h = load(before + row * before_stride + column, ok)
    dh = load(hidden_grad + row * hidden_stride + column, ok)
    dn = dh * (1 - z) * (1 - n * n)
    dz = dh * (h - n) * z * (1 - z)
    dr = dn * m * r * (1 - r)
    earlier = before_grad + row * before_grad_stride + column
    store(earlier, load(earlier, ok) + dh * z, ok)
    out = reads_grad + row * reads_grad_stride + column
    store(out, dr, ok)
    store(out + H, dz, ok)
    store(out + 2 * H, dn, ok)
    out = memories_grad + row * memories_grad_stride + column
    store(out, dr, ok)
    store(out + H, dz, ok)
    store(out + 2 * H, dn * r, ok)


def forward(
    reads: Tensor,  # (B, 3H) from what is read; leaves as the gates themselves
    more: Tensor,  # (B, 3H) to add to it, rows may be apart
    memories: Tensor,  # (B, 3H) from the hidden state, rows may be apart
    before: Tensor,  # (B, H)
    hidden: Tensor,  # (B, H) to write, rows may be apart
) -> None:
    """One step: n = tanh(x_n + r m_n), h = (1 - z) n + z h_before."""
    count = hidden.numel()
    _forward[(triton.cdiv(count, BLOCK),)](
        reads,
        more,
        memories,
        before,
        hidden,
        count,
        reads.stride(0),
        more.stride(0),
        memories.stride(0),
        before.stride(0),
        hidden.stride(0),
        H=hidden.shape[-1],
        BLOCK=BLOCK,
        num_warps=4,
    )


def backward(
    reads: Tensor,  # (B, 3H) as `forward` left them
    memories: Tensor,  # (B, 3H), rows may be apart
    before: Tensor,  # (B, H)
    hidden_grad: Tensor,  # (B, H), rows may be apart
    before_grad: Tensor,  # (B, H) to add to, without what comes through the memories
    reads_grad: Tensor,  # (B, 3H) to write
    memories_grad: Tensor,  # (B, 3H) to write, rows may be apart
) -> None:
    """The way back through one step."""
    count = hidden_grad.numel()
    _backward[(triton.cdiv(count, BLOCK),)](
        reads,
        memories,
        before,
        hidden_grad,
        before_grad,
        reads_grad,
        memories_grad,
        count,
        reads.stride(0),
        memories.stride(0),
        before.stride(0),
        hidden_grad.stride(0),
        before_grad.stride(0),
        reads_grad.stride(0),
        memories_grad.stride(0),
        H=hidden_grad.shape[-1],
        BLOCK=BLOCK,
        num_warps=4,
    )
