"""The yardstick: batches with holes and padding, and the formula of cross entropy in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seqsmooth.ops.soft_target import IGNORED

B, T, V = 3, 5, 11


@dataclass(frozen=True, eq=False)
class Case:
    """A batch of logits and labels, some of them ignored."""

    logits: Tensor  # (B, T, V)
    labels: Tensor  # (B, T)

    @property
    def counted(self) -> Tensor:  # (B, T)
        """The positions that are not ignored."""
        return self.labels != IGNORED

    @property
    def items(self) -> Tensor:  # ()
        """The number of positions that are not ignored."""
        return self.counted.sum()

    def to(self, dtype: torch.dtype) -> Case:
        """The batch with its logits in another precision."""
        return replace(self, logits=self.logits.to(dtype))


def case(device: torch.device, seed: int = 0) -> Case:
    """A random batch: sequences of unequal length, padded with -100, one with a hole."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(B, T, V, generator=generator)
    labels = torch.randint(V, (B, T), generator=generator)
    labels[1, 2:] = IGNORED
    labels[2, 1] = IGNORED
    return Case(logits.to(device), labels.to(device))


def exact(batch: Case, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The label-smoothed cross entropy and its gradient at the logits, in float64."""
    counted = batch.counted.unsqueeze(-1)
    size = batch.logits.shape[-1]
    one_hot = torch.nn.functional.one_hot(batch.labels.clamp_min(0), size).double()
    target = ((1 - smoothing) * one_hot + smoothing / size) * counted
    log_probs = batch.logits.double().masked_fill(~counted, 0).log_softmax(-1)
    count = batch.items.clamp_min(1)
    loss = -torch.where(target > 0, target * log_probs, 0).sum() / count
    return loss, (log_probs.exp() * counted - target) / count
