"""`Dirac`: no token-level smoothing."""

from __future__ import annotations

from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import SoftTarget
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

    def __init__(self) -> None:
        super().__init__(alpha=0.0)

    @property
    def keeps_empty(self) -> bool:
        """Nothing changes."""
        return True

    def spread(self, target: SoftTarget, *, vocab_size: int | None, generator: Generator | None) -> SoftTarget:
        """The target as it is."""
        return target

    def options(self) -> dict[str, object]:
        """Nothing to choose."""
        return {}
