"""Additive attention of one decoding step in C, and the gradient of its keys over all steps.

The twin of `seqsmooth.ops.kernels.attention`, for the CPU and fp32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops.native.calls import function, rows


def forward(
    query: Tensor,  # (B, A), rows may be apart
    keys: Tensor,  # (B, R, A)
    score: Tensor,  # (A,)
    values: Tensor,  # (B, R, D)
    mask: Tensor,  # (B, R) uint8
    context: Tensor,  # (B, D) to write, rows may be apart
    weights: Tensor,  # (B, R) to write
) -> None:
    """Attend: writes the context and the weights it is made with."""
    function("attention_forward", "iiiipipppppip")(
        *(*keys.shape, values.shape[-1], *rows(query), keys.data_ptr(), score.data_ptr(), values.data_ptr()),
        *(mask.data_ptr(), *rows(context), weights.data_ptr()),
    )


def backward(
    context_grad: Tensor,  # (B, D), rows may be apart
    query: Tensor,  # (B, A), rows may be apart
    keys: Tensor,  # (B, R, A)
    score: Tensor,  # (A,)
    values: Tensor,  # (B, R, D)
    mask: Tensor,  # (B, R) uint8
    weights: Tensor,  # (B, R)
    query_grad: Tensor,  # (B, A) to write, rows may be apart
    energy_grad: Tensor,  # (B, R) to write
) -> None:
    """The gradient of the query, and that of the energies, from which `keys_backward` makes the others."""
    function("attention_backward", "iiiipipippppppip")(
        *(*keys.shape, values.shape[-1], *rows(context_grad), *rows(query), keys.data_ptr(), score.data_ptr()),
        *(values.data_ptr(), mask.data_ptr(), weights.data_ptr(), *rows(query_grad), energy_grad.data_ptr()),
    )


def keys_backward(
    query: Tensor,  # (T, B, A), rows and steps may be apart
    keys: Tensor,  # (B, R, A)
    score: Tensor,  # (A,)
    energy_grad: Tensor,  # (T, B, R)
) -> tuple[Tensor, Tensor]:  # (B, R, A), (A,)
    """The gradients of the keys and of the score vector, summed over the steps."""
    keys_grad, score_grad = torch.empty_like(keys), torch.zeros_like(score)
    function("attention_keys_backward", "iiiipiippppp")(
        *(query.shape[0], *keys.shape, query.data_ptr(), query.stride(0), query.stride(1), keys.data_ptr()),
        *(score.data_ptr(), energy_grad.data_ptr(), keys_grad.data_ptr(), score_grad.data_ptr()),
    )
    return keys_grad, score_grad
