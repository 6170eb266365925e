"""The pointwise part of recurrent cells, after their matrix products."""

from __future__ import annotations

import torch
from torch import Tensor


def lstm(
    gates: Tensor,  # (B, 4H) in the order i f g o
    cell: Tensor,  # (B, H)
) -> tuple[Tensor, Tensor]:  # (B, H) hidden, (B, H) cell
    """LSTM of Hochreiter and Schmidhuber 1997 with forget gates: c = f c + i g, h = o tanh(c)."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru(
    inputs: Tensor,  # (B, 3H) in the order r z n, the product with the input
    memories: Tensor,  # (B, 3H) in the order r z n, the product with the hidden state
    hidden: Tensor,  # (B, H)
) -> Tensor:  # (B, H)
    """GRU of Cho et al. 2014 in the form of `nn.GRU`: n = tanh(x_n + r h_n), h = (1 - z) n + z h."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = inputs.chunk(3, -1), memories.chunk(3, -1)
    new = torch.tanh(x_n + (x_r + h_r).sigmoid() * h_n)
    return torch.lerp(new, hidden, (x_z + h_z).sigmoid())
