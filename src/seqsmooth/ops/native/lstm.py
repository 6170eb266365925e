"""The pointwise part of an LSTM cell in C: the twin of `seqsmooth.ops.kernels.lstm`, for the CPU and fp32."""

from __future__ import annotations

from torch import Tensor

from seqsmooth.ops.native.calls import function, rows


def forward(
    gates: Tensor,  # (B, 4H), rows may be apart; leaves as the gates themselves
    more: Tensor,  # (B, 4H) to add to them, rows may be apart or the same
    cell_before: Tensor,  # (B, H)
    cell: Tensor,  # (B, H) to write
    hidden: Tensor,  # (B, H) to write, rows may be apart
    copy: Tensor | None = None,  # (B, H) to write the same, rows may be apart
) -> None:
    """One step: c = f c_before + i g, h = o tanh(c)."""
    function("lstm_forward", "iipipipppi")(
        *(*cell.shape, *rows(gates), *rows(more), cell_before.data_ptr(), cell.data_ptr(), *rows(hidden))
    )
    if copy is not None:
        copy.copy_(hidden)


def backward(
    gates: Tensor,  # (B, 4H) as `forward` left them, rows may be apart
    cell_before: Tensor,  # (B, H)
    cell: Tensor,  # (B, H)
    hidden_grad: Tensor,  # (B, H), rows may be apart
    copy_grad: Tensor | None,  # (B, H) to add to that, rows may be apart
    cell_grad: Tensor,  # (B, H), of `cell`; leaves as that of `cell_before`
    gates_grad: Tensor,  # (B, 4H) to write, rows may be apart
) -> None:
    """The way back through one step."""
    beside = (None, 0) if copy_grad is None else rows(copy_grad)
    function("lstm_backward", "iipipppipippi")(
        *(*cell.shape, *rows(gates), cell_before.data_ptr(), cell.data_ptr(), *rows(hidden_grad), *beside),
        *(cell_grad.data_ptr(), *rows(gates_grad)),
    )
