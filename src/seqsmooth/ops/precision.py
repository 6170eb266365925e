"""Which float types the sums are done in."""

from __future__ import annotations

import torch
from torch import Tensor


def finest(device: torch.device) -> torch.dtype:
    """The type for weights and probabilities, of which there are few: double where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def widen(values: Tensor) -> Tensor:
    """The type for sums over the vocabulary: fp32, or double if the values are."""
    return values if values.dtype == torch.float64 else values.float()
