"""What every sequence law offers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from seqsmooth.ops.sampling import Generator
from seqsmooth.smoothing.law import Law
from seqsmooth.smoothing.pools import Pool, PoolName, build_pool, check_pool
from seqsmooth.smoothing.records import Measure, Truth
from seqsmooth.smoothing.specials import Specials
from seqsmooth.smoothing.token_law import TokenLaw


@dataclass(frozen=True, eq=False)
class Setting:
    """What an objective tells its sequence law beforehand."""

    specials: Specials
    lazy: bool
    vocab_size: int | None
    token: TokenLaw
    drawn: bool = False
    """Whether the law is a proposal: drawn from, and nothing else."""


class SequenceLaw(Law):
    """A law r(y|y*) on target sequences, mixed with the ground truth: (1 - alpha) delta(y*) + alpha r(y|y*).

    In the paper's words (Eq. 15), alpha * l_Seq + (1 - alpha) * l_MLE.
    """

    only_truth: ClassVar[bool] = False
    """Whether the ground truth is the only sequence, so that its prefix is all there is."""

    @abstractmethod
    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Measure:
        """The measure for a batch, over the ground truth's prefix (`lazy`) or over each atom's own."""

    def prepare(self, setting: Setting) -> SequenceLaw:
        """This law with what can be computed once; refuses what cannot be."""
        return self


class PooledLaw(SequenceLaw):
    """A sequence law that puts in tokens from a pool."""

    pool_ids: Tensor | None

    def __init__(self, pool: PoolName | Tensor, alpha: float) -> None:
        super().__init__(alpha)
        self.pool: PoolName | None = check_pool(pool)
        self.register_buffer("pool_ids", pool if isinstance(pool, Tensor) else None, persistent=False)

    def pool_of(self, truth: Truth) -> Pool:
        """The pool for a batch."""
        if self.pool is not None:
            return build_pool(self.pool, truth)
        assert self.pool_ids is not None
        return build_pool(self.pool_ids, truth)
