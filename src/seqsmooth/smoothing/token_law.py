"""`TokenLaw`: the base of all laws on tokens."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.ops.tables import DenseTable, RowTable
from seqsmooth.smoothing.law import Law
from seqsmooth.smoothing.records import Setting, Truth


class TokenLaw(Law):
    """A Markov kernel M = (1 - alpha) I + alpha S on tokens: how mass spreads around each of them (Eq. 16).

    A law acts on soft targets from the right: it takes q, the measure that a sequence law puts on the tokens of a
    position, to q M. So any law goes with any sequence law, and the four terms of the paper's Tok-Seq loss (Eq. 17)
    need no code of their own.
    """

    true_prefix_only: ClassVar[bool] = False
    """Whether the law is known on the ground truth's prefix alone."""
    keeps_empty: ClassVar[bool] = False
    """Whether a position of a target that is empty is empty after `spread`; if not, it is emptied again."""
    multiplies: ClassVar[bool] = False
    """Whether rows of tables are multiplied by M, token by token."""

    @abstractmethod
    def spread(self, target: SoftTarget, setting: Setting, generator: Generator | None) -> SoftTarget:
        """The target q M. Rows of tables that are `mixed` have been multiplied by M before and stay."""

    def smooth_truth(self, truth: Truth) -> Candidates | None:
        """The measure delta(y*) M by a shorter way than `spread`, if the law knows one."""
        return None

    def mix(self, table: RowTable, setting: Setting) -> DenseTable | None:
        """A table's rows times M, where that is worth keeping between steps."""
        return None
