"""`Uniform`: label smoothing."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from seqsmooth.ops import checks, targets
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import UniformTable
from seqsmooth.smoothing.law import Tables
from seqsmooth.smoothing.pools import VOCAB_SIZE_RULE
from seqsmooth.smoothing.records import Setting, Truth
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
    keeps_empty: ClassVar[bool] = True

    def __init__(self, alpha: float = 0.1) -> None:
        super().__init__(alpha)

    def prepare(self, setting: Setting) -> UniformTables | None:
        """The row u, where the vocabulary is known."""
        return None if setting.vocab_size is None else UniformTables(_make_table(setting))

    def spread(self, target: SoftTarget, setting: Setting, generator: Generator | None) -> SoftTarget:
        """Q M = (1 - alpha) q + alpha |q| u: all rows of S are the same u, so only the mass of q counts."""
        index, weights = [target.ids], [target.weights]
        for row in target.rows:
            index.append(row.index.clamp_max(0))  # of rows that are all alike, the first
            weights.append(row.weights * row.table.mass(row.index.clamp_min(0)))
        if target.rows:
            ids, mass = torch.cat(index, -1), torch.cat([part.to(weights[0].dtype) for part in weights], -1)
        else:
            ids, mass = target.ids, target.weights
        return scale(target, 1 - self.alpha, Rows(_table(setting), ids, self.alpha * mass))

    def smooth_truth(self, truth: Truth) -> Candidates:
        """(1 - alpha) delta(y*) + alpha u, in the launch that reads the targets."""
        table = _table(truth.setting)
        return targets.truth(truth, share=self.alpha, table=table if self.alpha > 0 else None)

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """The share spread."""
        return {"alpha": self.alpha}


class UniformTables(Tables):
    """The row u of an objective."""

    def __init__(self, table: UniformTable) -> None:
        super().__init__()
        self.table = table


def _table(setting: Setting) -> UniformTable:
    tables = setting.token_tables
    return tables.table if isinstance(tables, UniformTables) else _make_table(setting)


def _make_table(setting: Setting) -> UniformTable:
    """u, without the tokens that get no mass."""
    excluded = setting.specials.ids("unsmoothed")
    if setting.vocab_size is None:
        raise checks.wrong("vocab_size", VOCAB_SIZE_RULE, None)
    if setting.vocab_size <= len(excluded):
        raise checks.wrong("vocab_size", "more than the special tokens that get no mass", setting.vocab_size)
    return UniformTable(setting.vocab_size, excluded)


def scale(target: SoftTarget, share: float | Tensor, *more: Rows) -> SoftTarget:
    """A share of a target's mass, and more rows beside it."""
    rows = tuple(Rows(row.table, row.index, share * row.weights) for row in target.rows)
    return SoftTarget(target.ids, share * target.weights, (*rows, *more))
