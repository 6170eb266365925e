"""What every sequence law offers."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from seqsmooth.ops.tables import Table
from seqsmooth.smoothing.law import Law
from seqsmooth.smoothing.pools import Pool, PoolName, build_pool, check_pool
from seqsmooth.smoothing.records import Measure, Truth
from seqsmooth.smoothing.specials import Specials


class SequenceLaw(Law):
    """A law r(y|y*) on target sequences, mixed with the ground truth: (1 - alpha) delta(y*) + alpha r(y|y*).

    In the paper's words (Eq. 15), alpha * l_Seq + (1 - alpha) * l_MLE.
    """

    @abstractmethod
    def measure(self, truth: Truth, *, lazy: bool, generator: torch.Generator | None) -> Measure:
        """The measure for a batch, over the ground truth's prefix (`lazy`) or over each atom's own."""

    def prepare(self, specials: Specials, *, lazy: bool) -> SequenceLaw:
        """This law with what can be computed once; refuses what cannot be."""
        return self

    def fixed_table(self, specials: Specials, vocab_size: int, device: torch.device) -> Table | None:
        """The table that this law's targets use at every step, if there is one."""
        return None


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
