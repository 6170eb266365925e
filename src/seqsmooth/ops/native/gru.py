"""The pointwise part of a GRU cell in C: the twin of `seqsmooth.ops.kernels.gru`, for the CPU and fp32."""

from __future__ import annotations

from torch import Tensor

from seqsmooth.ops.native.calls import function, rows


def forward(
    reads: Tensor,  # (B, 3H) from what is read; leaves as the gates themselves
    more: Tensor,  # (B, 3H) to add to it, rows may be apart
    memories: Tensor,  # (B, 3H) from the hidden state, rows may be apart
    before: Tensor,  # (B, H)
    hidden: Tensor,  # (B, H) to write, rows may be apart
) -> None:
    """One step: n = tanh(x_n + r m_n), h = (1 - z) n + z h_before."""
    function("gru_forward", "ii" + 5 * "pi")(
        *(*hidden.shape, *rows(reads), *rows(more), *rows(memories), *rows(before), *rows(hidden))
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
    given = reads, memories, before, hidden_grad, before_grad, reads_grad, memories_grad
    function("gru_backward", "ii" + "pi" * len(given))(
        *hidden_grad.shape, *(number for values in given for number in rows(values))
    )
