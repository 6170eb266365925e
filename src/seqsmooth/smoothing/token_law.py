"""What every token law offers."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.ops.tables import DenseTable, Table
from seqsmooth.smoothing.law import Law


class TokenLaw(Law):
    """A Markov kernel M = (1 - alpha) I + alpha S on tokens: how mass spreads around each of them (Eq. 16).

    A law acts on soft targets from the right: it takes q, the measure that a sequence law puts on the tokens of a
    position, to q M. So any law goes with any sequence law, and the four terms of the paper's Tok-Seq loss (Eq. 17)
    need no code of their own.
    """

    true_prefix_only: ClassVar[bool] = False
    """Whether the law is known on the ground truth's prefix alone."""

    @property
    def keeps_empty(self) -> bool:
        """Whether a position of a target that is empty is empty after `spread`."""
        return False

    @abstractmethod
    def spread(self, target: SoftTarget, *, vocab_size: int | None, generator: Generator | None) -> SoftTarget:
        """The target q M. Rows of tables that are `mixed` have been multiplied by M before and stay."""

    def even(self, vocab_size: int | None) -> Table | None:
        """The table that a share alpha of every slot goes to, where that is all `spread` does to slots; or None."""
        return None

    def mix(self, table: Table) -> DenseTable | None:
        """A table's rows times M, where that is worth keeping between steps."""
        return None

    def prepare(self, unsmoothed: tuple[int, ...]) -> TokenLaw:
        """This law with no mass for the given ids, and with what can be computed once."""
        return self
