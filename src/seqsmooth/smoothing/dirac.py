"""`Dirac`: no token-level smoothing."""

from __future__ import annotations

from typing import ClassVar

from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.smoothing.records import Setting
from seqsmooth.smoothing.token_law import TokenLaw


class Dirac(TokenLaw):
    """M = I: each token keeps all its mass, Eq. 7.

    Examples:
        >>> import torch
        >>> import seqsmooth as ss
        >>> ss.Objective(token=Dirac()).propose(torch.tensor([[2]])).target.dense(4)[0, 0].float()
        tensor([[0., 0., 1., 0.]])
    """

    name = "dirac"
    keeps_empty: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(alpha=0.0)

    def spread(self, target: SoftTarget, setting: Setting, generator: Generator | None) -> SoftTarget:
        """The target as it is."""
        return target

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """Nothing to choose."""
        return {}
