"""The pointwise part of an LSTM cell in one launch each way, reading and writing rows that lie apart in larger buffers.

The twin of what `torch.lstm_cell` does after its matrix products; gates come in its order, i f g o.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.pointwise import load, places, store, tanh

BLOCK = 256


@triton.jit
def _forward(
    gates,
    more,
    cell_before,
    cell,
    hidden,
    copy,
    count,
    gates_stride,
    more_stride,
    hidden_stride,
    copy_stride,
    H: tl.constexpr,
    HAS_COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place, row, column, ok = places(count, H, BLOCK)
    own = gates + row * gates_stride + column
    other = more + row * more_stride + column
    i = tl.sigmoid(load(own, ok) + load(other, ok))
    f = tl.sigmoid(load(own + H, ok) + load(other + H, ok))
    g = tanh(load(own + 2 * H, ok) + load(other + 2 * H, ok))
    o = tl.sigmoid(load(own + 3 * H, ok) + load(other + 3 * H, ok))
    c = f * load(cell_before + place, ok) + i * g
    h = o * tanh(c)
    store(cell + place, c, ok)
    store(hidden + row * hidden_stride + column, h, ok)
    if HAS_COPY:
        store(copy + row * copy_stride + column, h, ok)
    # In place, for the way back.
    store(own, i, ok)
    store(own + H, f, ok)
    store(own + 2 * H, g, ok)
    store(own + 3 * H, o, ok)


@triton.jit
def _backward(
    gates,
    cell_before,
    cell,
    hidden_grad,
    copy_grad,
    cell_grad,
    gates_grad,
    count,
    gates_stride,
    hidden_stride,
    copy_stride,
    grad_stride,
    H: tl.constexpr,
    HAS_COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place, row, column, ok = places(count, H, BLOCK)
    own = gates + row * gates_stride + column
    i = load(own, ok)
    f = load(own + H, ok)
    g = load(own + 2 * H, ok)
    o = load(own + 3 * H, ok)
    dh = load(hidden_grad + row * hidden_stride + column, ok)
    if HAS_COPY:
        dh += load(copy_grad + row * copy_stride + column, ok)
    bent = tanh(load(cell + place, ok))
    dc = load(cell_grad + place, ok) + dh * o * (1 - bent * bent)
    before = load(cell_before + place, ok)
    store(cell_grad + place, dc * f, ok)
    out = gates_grad + row * grad_stride + column
    store(out, dc * g * i * (1 - i), ok)
    store(out + H, dc * before * f * (1 - f), ok)
    store(out + 2 * H, dc * i * (1 - g * g), ok)
    store(out + 3 * H, dh * bent * o * (1 - o), ok)


def forward(
    gates: Tensor,  # (B, 4H), rows may be apart; leaves as the gates themselves
    more: Tensor,  # (B, 4H) to add to them, rows may be apart or the same
    cell_before: Tensor,  # (B, H) float32
    cell: Tensor,  # (B, H) float32 to write
    hidden: Tensor,  # (B, H) to write, rows may be apart
    copy: Tensor | None = None,  # (B, H) to write the same, rows may be apart
) -> None:
    """One step: c = f c_before + i g, h = o tanh(c)."""
    count = cell.numel()
    _forward[(triton.cdiv(count, BLOCK),)](
        gates,
        more,
        cell_before,
        cell,
        hidden,
        hidden if copy is None else copy,
        count,
        gates.stride(0),
        more.stride(0),
        hidden.stride(0),
        0 if copy is None else copy.stride(0),
        H=cell.shape[-1],
        HAS_COPY=copy is not None,
        BLOCK=BLOCK,
        num_warps=4,
    )


def backward(
    gates: Tensor,  # (B, 4H) as `forward` left them, rows may be apart
    cell_before: Tensor,  # (B, H) float32
    cell: Tensor,  # (B, H) float32
    hidden_grad: Tensor,  # (B, H), rows may be apart
    copy_grad: Tensor | None,  # (B, H) to add to that, rows may be apart
    cell_grad: Tensor,  # (B, H) float32, of `cell`; leaves as that of `cell_before`
    gates_grad: Tensor,  # (B, 4H) to write, rows may be apart
) -> None:
    """The way back through one step."""
    count = cell.numel()
    _backward[(triton.cdiv(count, BLOCK),)](
        gates,
        cell_before,
        cell,
        hidden_grad,
        hidden_grad if copy_grad is None else copy_grad,
        cell_grad,
        gates_grad,
        count,
        gates.stride(0),
        hidden_grad.stride(0),
        0 if copy_grad is None else copy_grad.stride(0),
        gates_grad.stride(0),
        H=cell.shape[-1],
        HAS_COPY=copy_grad is not None,
        BLOCK=BLOCK,
        num_warps=4,
    )
