"""Attention, in plain torch.

A place that is masked gets nothing. An item without any place sees them all alike: a finite number that nobody looks
at, where a softmax of nothing would be NaN and spoil the gradient of its neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops.dispatch import widen


def additive_attention(
    query: Tensor,  # (B, A)
    keys: Tensor,  # (B, R, A)
    score: Tensor,  # (A,)
    values: Tensor,  # (B, R, D)
    mask: Tensor,  # (B, R) bool
) -> Tensor:  # (B, D)
    """sum_r a_r values_r with a = softmax over the places r of <score, tanh(query + keys_r)>, Bahdanau et al. 2015."""
    return _attend(torch.tanh(query.unsqueeze(1) + keys) @ score, values, mask)


def dot_attention(
    query: Tensor,  # (B, A)
    keys: Tensor,  # (B, R, A)
    values: Tensor,  # (B, R, D)
    mask: Tensor,  # (B, R) bool
) -> Tensor:  # (B, D)
    """sum_r a_r values_r with a = softmax over the places r of <query, keys_r>: "general" in Luong et al. 2015."""
    return _attend((keys @ query.unsqueeze(-1)).squeeze(-1), values, mask)


def _attend(
    energies: Tensor,  # (B, R)
    values: Tensor,  # (B, R, D)
    mask: Tensor,  # (B, R) bool
) -> Tensor:  # (B, D)
    energies = widen(energies)
    weights = energies.masked_fill(~mask, torch.finfo(energies.dtype).min).softmax(-1).to(values.dtype)
    return (weights.unsqueeze(1) @ values).squeeze(1)
