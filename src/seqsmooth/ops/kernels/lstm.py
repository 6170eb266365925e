"""The pointwise part of an LSTM cell in one launch each way, reading and writing rows that lie apart in larger buffers.

The twin of what `torch.lstm_cell` does after its matrix products; gates come in its order, i f g o.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from seqsmooth.ops.kernels.pointwise import tanh

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
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = place < count
    row = (place // H).to(tl.int64)
    column = place % H
    own = gates + row * gates_stride + column
    other = more + row * more_stride + column
    i = tl.load(own, mask=ok, other=0.0).to(tl.float32) + tl.load(other, mask=ok, other=0.0).to(tl.float32)
    f = tl.load(own + H, mask=ok, other=0.0).to(tl.float32) + tl.load(other + H, mask=ok, other=0.0).to(tl.float32)
    g = tl.load(own + 2 * H, mask=ok, other=0.0).to(tl.float32) + tl.load(other + 2 * H, mask=ok, other=0.0).to(
        tl.float32
    )
    o = tl.load(own + 3 * H, mask=ok, other=0.0).to(tl.float32) + tl.load(other + 3 * H, mask=ok, other=0.0).to(
        tl.float32
    )
    i = tl.sigmoid(i)
    f = tl.sigmoid(f)
    g = tanh(g)
    o = tl.sigmoid(o)
    c = f * tl.load(cell_before + place, mask=ok, other=0.0) + i * g
    h = (o * tanh(c)).to(hidden.dtype.element_ty)
    tl.store(cell + place, c, mask=ok)
    tl.store(hidden + row * hidden_stride + column, h, mask=ok)
    if HAS_COPY:
        tl.store(copy + row * copy_stride + column, h, mask=ok)
    # In place, for the way back.
    kind = gates.dtype.element_ty
    tl.store(own, i.to(kind), mask=ok)
    tl.store(own + H, f.to(kind), mask=ok)
    tl.store(own + 2 * H, g.to(kind), mask=ok)
    tl.store(own + 3 * H, o.to(kind), mask=ok)


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
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = place < count
    row = (place // H).to(tl.int64)
    column = place % H
    own = gates + row * gates_stride + column
    i = tl.load(own, mask=ok, other=0.0).to(tl.float32)
    f = tl.load(own + H, mask=ok, other=0.0).to(tl.float32)
    g = tl.load(own + 2 * H, mask=ok, other=0.0).to(tl.float32)
    o = tl.load(own + 3 * H, mask=ok, other=0.0).to(tl.float32)
    dh = tl.load(hidden_grad + row * hidden_stride + column, mask=ok, other=0.0).to(tl.float32)
    if HAS_COPY:
        dh += tl.load(copy_grad + row * copy_stride + column, mask=ok, other=0.0).to(tl.float32)
    bent = tanh(tl.load(cell + place, mask=ok, other=0.0))
    dc = tl.load(cell_grad + place, mask=ok, other=0.0) + dh * o * (1 - bent * bent)
    before = tl.load(cell_before + place, mask=ok, other=0.0)
    tl.store(cell_grad + place, dc * f, mask=ok)
    out = gates_grad + row * grad_stride + column
    kind = gates_grad.dtype.element_ty
    tl.store(out, (dc * g * i * (1 - i)).to(kind), mask=ok)
    tl.store(out + H, (dc * before * f * (1 - f)).to(kind), mask=ok)
    tl.store(out + 2 * H, (dc * i * (1 - g * g)).to(kind), mask=ok)
    tl.store(out + 3 * H, (dh * bent * o * (1 - o)).to(kind), mask=ok)


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
