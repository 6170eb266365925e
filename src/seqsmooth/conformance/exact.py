"""What every loss is compared with: the formula, in float64, on tensors that hold what trips losses up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seqsmooth.ops.soft_target import IGNORED

B, T, V = 3, 5, 11


@dataclass(frozen=True, eq=False)
class Case:
    """Logits and labels of a batch, some of them ignored."""

    logits: Tensor  # (B, T, V)
    labels: Tensor  # (B, T)

    @property
    def kept(self) -> Tensor:  # (B, T)
        """Positions that count."""
        return self.labels != IGNORED

    @property
    def items(self) -> Tensor:  # ()
        """How many of them."""
        return self.kept.sum()

    def to(self, dtype: torch.dtype) -> Case:
        """The same in another precision."""
        return replace(self, logits=self.logits.to(dtype))


def case(device: torch.device, seed: int = 0) -> Case:
    """A batch with sequences of unlike lengths, padded with -100, one of them with a hole."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(B, T, V, generator=generator)
    labels = torch.randint(V, (B, T), generator=generator)
    labels[1, 2:] = IGNORED
    labels[2, 1] = IGNORED
    return Case(logits.to(device), labels.to(device))


def exact(given: Case, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Mean and gradient at the logits of cross entropy with a share `smoothing` spread evenly, in float64."""
    kept = given.kept.unsqueeze(-1)
    size = given.logits.shape[-1]
    one = torch.nn.functional.one_hot(given.labels.clamp_min(0), size).double()
    target = ((1 - smoothing) * one + smoothing / size) * kept
    log_probs = given.logits.double().masked_fill(~kept, 0).log_softmax(-1)
    count = given.items.clamp_min(1)
    loss = -torch.where(target > 0, target * log_probs, 0).sum() / count
    return loss, (log_probs.exp() * kept - target) / count
