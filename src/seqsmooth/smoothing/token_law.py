"""What every token law offers."""

from __future__ import annotations

from abc import abstractmethod

import torch

from seqsmooth.ops.soft_target import SoftTarget
from seqsmooth.ops.tables import Table
from seqsmooth.smoothing.law import Law


class TokenLaw(Law):
    """A Markov kernel M = (1 - alpha) I + alpha S on tokens: how mass spreads around each of them (Eq. 16).

    A law acts on soft targets from the right: it takes q, the measure that a sequence law puts on the tokens of a
    position, to q M. So any law goes with any sequence law, and the four terms of the paper's Tok-Seq loss (Eq. 17)
    need no code of their own.
    """

    @abstractmethod
    def spread(
        self,
        target: SoftTarget,
        *,
        vocab_size: int | None,
        generator: torch.Generator | None,
        mixed: Table | None = None,
    ) -> SoftTarget:
        """The target q M; `mixed` is what `mix` made of the target's fixed table beforehand."""

    def mix(self, table: Table) -> Table | None:
        """A table's rows times M, where that is worth keeping between steps."""
        return None

    def prepare(self, unsmoothed: tuple[int, ...]) -> TokenLaw:
        """This law with no mass for the given ids, and with what can be computed once."""
        return self
