"""`Uniform`: label smoothing."""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import UniformTable
from seqsmooth.smoothing.pools import VOCAB_SIZE_RULE
from seqsmooth.smoothing.token_law import TokenLaw


class Uniform(TokenLaw):
    """S is uniform over the vocabulary, the token itself included: label smoothing (Szegedy et al. 2016).

    Without special tokens, `Uniform(alpha=e)` is `F.cross_entropy(label_smoothing=e)`. PAD and BOS get no mass.

    Args:
        alpha: the share of each token's mass that is spread.

    Examples:
        >>> import seqsmooth as ss
        >>> objective = ss.Objective(token=Uniform(0.2), vocab_size=5, specials=ss.Specials(pad=0))
        >>> objective.propose(torch.tensor([[2]])).target.dense(5)[0, 0].float()  # 0.2 over four tokens, none for PAD
        tensor([[0.0000, 0.0500, 0.8500, 0.0500, 0.0500]])
    """

    name = "uniform"

    def __init__(self, alpha: float = 0.1) -> None:
        super().__init__(alpha)
        self.excluded: tuple[int, ...] = ()

    def prepare(self, unsmoothed: tuple[int, ...]) -> Uniform:
        """The same without mass for the given ids."""
        law = self.twin()
        law.excluded = unsmoothed
        return law

    @property
    def keeps_empty(self) -> bool:
        """An empty slot or row has an empty row of S."""
        return True

    def even(self, vocab_size: int | None) -> UniformTable | None:
        """The table of S, unless a law that is made of this one spreads in its own way."""
        return self._table(vocab_size) if type(self).spread is Uniform.spread else None

    def spread(self, target: SoftTarget, *, vocab_size: int | None, generator: Generator | None) -> SoftTarget:
        """A row of S for each slot, and for each row of another table; all rows of S are the same."""
        table = self._table(vocab_size)
        index, weights = [target.ids], [target.weights]
        for row in target.rows:
            index.append(row.index.clamp_max(0))  # of rows that are all alike, the first
            weights.append(row.weights * row.table.mass(row.index.clamp_min(0)))
        if target.rows:
            ids, mass = torch.cat(index, -1), torch.cat([part.to(weights[0].dtype) for part in weights], -1)
        else:
            ids, mass = target.ids, target.weights
        return thinned(target, 1 - self.alpha, Rows(table, ids, self.alpha * mass))

    def options(self) -> dict[str, object]:
        """The share spread."""
        return {"alpha": self.alpha}

    def _table(self, vocab_size: int | None) -> UniformTable:
        if vocab_size is None:
            raise checks.wrong("vocab_size", VOCAB_SIZE_RULE, None)
        if vocab_size <= len(self.excluded):
            raise checks.wrong("vocab_size", "more than the special tokens that get no mass", vocab_size)
        return UniformTable(vocab_size, self.excluded)


def thinned(target: SoftTarget, share: float | Tensor, *more: Rows) -> SoftTarget:
    """A share of a target's mass, and more rows beside it."""
    rows = tuple(Rows(row.table, row.index, share * row.weights) for row in target.rows)
    return SoftTarget(target.ids, share * target.weights, (*rows, *more))
