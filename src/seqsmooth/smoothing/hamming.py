"""`Hamming`: sequence-level smoothing by the Hamming distance."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from seqsmooth.ops import checks, targets
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.dispatch import finest
from seqsmooth.ops.pools import AllTokens, Pool, Substitutes
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.tables import DenseTable, UniformTable
from seqsmooth.ops.targets import Draws
from seqsmooth.smoothing.law import Tables
from seqsmooth.smoothing.pools import PooledLaw, PoolName
from seqsmooth.smoothing.records import Setting, Truth
from seqsmooth.smoothing.similarity import Similarity
from seqsmooth.smoothing.token_law import TokenLaw
from seqsmooth.smoothing.token_matrix import StoredTable, all_rows


class Hamming(PooledLaw):
    """r(y|y*) proportional to exp(-d(y, y*) / tau), d the number of changed positions: Eq. 8 with the Hamming reward.

    The law factorises: each position changes on its own with probability pi = sigmoid(ln m - 1 / tau), m being the
    number of other tokens in its pool, and the new token is uniform over those. Where m is the same everywhere, the
    number of changes is binomial, which is the p(d) of the paper's appendix (Eq. 25).

    Lazy, the expectation is exact: the target of a position is (1 - alpha pi) on its token and alpha pi spread over the
    others of the pool. With the whole vocabulary that is label smoothing: `F.cross_entropy(label_smoothing=e)` for
    e = alpha pi V / (V - 1), since torch spreads e over all V tokens, the right one included.

    Not lazy, sampled prefixes are decoded, `samples` of them beside the ground truth, and the token to predict after
    each is integrated out exactly.

    Args:
        tau: temperature of the law. Give this or `rate`.
        rate: probability of a change, the same whatever the size of the pool.
        pool: V_sub, where new tokens come from: "vocab"; "batch", the tokens of the batch; "refs", those of the item's
            references; or the ids themselves, (P,) or one row an item (B, P).
        alpha: share of this law; the rest stays on the ground truth.
        samples: number of samples L. None is the exact expectation when lazy, and one sample otherwise.
        substitutes: "uniform" over the pool, or a `Similarity`: new tokens are drawn from its law S(.|y*_t) of the
            token they replace, among the others of the vocabulary. Keeps a V x V table.
        integrate: not lazy, whether the token to predict is integrated out; if not, it is the sample's own.

    Examples:
        >>> import seqsmooth as ss
        >>> objective = ss.Objective(Hamming(rate=0.3, pool=torch.tensor([1, 2, 3])), vocab_size=5)
        >>> objective.propose(torch.tensor([[2]])).target.dense(5)[0, 0].float()  # the exact expectation: no samples
        tensor([[0.0000, 0.1500, 0.7000, 0.1500, 0.0000]])
        >>> own = ss.Objective(Hamming(tau=0.5, samples=4), lazy=False, specials=ss.Specials(bos=0), vocab_size=9)
        >>> own.propose(torch.tensor([[4, 5, 6]])).inputs.shape  # the ground truth and four samples to decode
        torch.Size([1, 5, 3])
    """

    name = "hamming"
    known_probability = True

    def __init__(
        self,
        tau: float | None = None,
        rate: float | None = None,
        pool: PoolName | Tensor = "vocab",  # (P,) or (B, P)
        alpha: float = 1.0,
        samples: int | None = None,
        substitutes: Literal["uniform"] | TokenLaw = "uniform",
        *,
        integrate: bool = True,
    ) -> None:
        super().__init__(pool, alpha)
        checks.must(
            (tau is None) != (rate is None), "tau", "given, or else `rate`, and not both", f"{tau} (`rate`: {rate})"
        )
        self.tau = None if tau is None else checks.positive("tau", tau)
        self.rate = None if rate is None else checks.fraction("rate", rate)
        self.samples = None if samples is None else checks.at_least("samples", samples, 1)
        checks.flag("integrate", integrate)
        self.integrate = integrate
        self.substitutes = _check_substitutes(substitutes, self.pool)
        kind = type(self)
        self.in_kernels = (kind.flip_probability, kind.background) == (Hamming.flip_probability, Hamming.background)

    def flip_probability(
        self,
        others: Tensor,  # (B, T) m, the number of other tokens in the pool of each position, 1 or more
    ) -> Tensor:  # (B, T)
        """Pi, the probability that a position changes (Eq. 25 in the appendix, one position at a time)."""
        m = others.to(finest(others.device))
        if self.rate is not None:
            return torch.full_like(m, self.rate)
        assert self.tau is not None
        odds = m * math.exp(-1 / self.tau)  # m others of weight exp(-1 / tau) each, against the token's own weight of 1
        return odds / (1 + odds)

    def background(
        self,
        pi: Tensor,  # (B, T) the probability of a change; 0 where a position cannot change
        others: Tensor,  # (B, T) m, the number of other tokens in its pool
        inside: Tensor,  # (B, T) bool, whether its own token is in the pool
    ) -> Tensor:  # (B, T)
        """The closed form of Eq. 9: b of the law of one position, rho_t = (1 - b) delta(y*_t) + b u_t.

        u_t is uniform over the pool, so it covers the token itself where that is in the pool.
        """
        each = pi / others  # rho_t(v) of each other token v of the pool, all alike: together they have pi
        own = torch.where(inside, each, 0)  # what u_t gives y*_t, beside the 1 - b that stays there
        return pi + own

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Candidates:
        """The exact expectation when lazy and `samples` is None; otherwise samples."""
        pool = self.pool_of(truth)
        if lazy and self.samples is None:
            listed = truth.setting.token is not None and truth.setting.token.multiplies
            return targets.expectation(truth, pool, self, self.alpha, _background(truth), listed=listed)
        count = self.samples or 1
        if lazy:
            return targets.samples(truth, pool, self, count, generator, self.alpha)
        draws = targets.draws(truth, pool, self, count, generator)
        sampled = targets.stack(truth, draws, self.alpha, lazy=False)
        return targets.integrate(truth, sampled, pool, self, _background(truth)) if self.integrate else sampled

    def draw(self, truth: Truth, count: int, generator: Generator | None) -> Draws:
        """`count` independent samples of each sequence, with their probability."""
        return targets.draws(truth, self.pool_of(truth), self, count, generator)

    def change_rate(self, truth: Truth) -> Tensor:  # ()
        """The mean of pi over the positions of a batch."""
        flip, *_ = targets.chances(truth, targets.truth(truth), self.pool_of(truth), self)
        return flip.sum() / truth.mask.sum().clamp_min(1)

    def pool_of(self, truth: Truth) -> Pool:
        """The pool for a batch, or the substitutes of each token."""
        pool = super().pool_of(truth)
        if self.substitutes is None:
            return pool
        tables = truth.setting.sequence_tables
        if not isinstance(tables, HammingTables) or tables.substitutes is None:
            raise checks.wrong("Hamming", "prepared by an Objective before it draws substitutes", "not")
        assert isinstance(pool, AllTokens)
        return Substitutes(pool, tables.substitutes.table)

    def prepare(self, setting: Setting) -> HammingTables | None:
        """The law of the substitutes, and the row of the whole vocabulary times the token law."""
        undrawn, substitutes, background = setting.specials.ids("undrawn"), None, None
        if self.substitutes is not None:
            substitutes = StoredTable(DenseTable.of(_substitution(self.substitutes, setting)))
        expects = self.samples is None if setting.lazy else self.integrate
        if setting.token is not None and expects and self.pool == "vocab" and setting.vocab_size is not None:
            uniform = UniformTable(setting.vocab_size, undrawn)
            mixed = setting.token.mix(uniform if substitutes is None else substitutes.table, setting)
            background = None if mixed is None else StoredTable(mixed)
        if substitutes is None and background is None:
            return None
        return HammingTables(substitutes, background)

    @property
    def vocab_size(self) -> int | None:
        """V, where substitutes are drawn from a law that knows it."""
        return None if self.substitutes is None else self.substitutes.vocab_size

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """Temperature or rate, pool, samples, mixing."""
        chosen: dict[str, object] = {"tau": self.tau} if self.tau is not None else {"rate": self.rate}
        chosen["pool"] = self.pool_ids if self.pool is None else self.pool
        if self.samples is not None or (setting is not None and not setting.lazy):
            chosen["samples"] = self.samples or 1
        if self.substitutes is not None:
            chosen["substitutes"] = self.substitutes
        if not self.integrate:
            chosen["target"] = "sample"
        return chosen | {"alpha": self.alpha}

    def remark(self, setting: Setting) -> str:
        """The rate of a temperature, or the temperature of a rate, where the whole vocabulary is the pool."""
        others = 0 if setting.vocab_size is None else setting.vocab_size - len(setting.specials.ids("undrawn")) - 1
        if self.pool != "vocab" or others < 1:
            return ""
        if self.tau is not None:
            odds = math.exp(max(math.log(others) - 1 / self.tau, -700.0))
            return f"rate={odds / (1 + odds):.3g}"
        assert self.rate is not None
        inverse = math.log(others) - math.log(self.rate / (1 - self.rate)) if 0 < self.rate < 1 else math.nan
        return f"tau={1 / inverse:.3g}" if inverse > 0 else ""


class HammingTables(Tables):
    """Tables that a Hamming law computes once for an objective."""

    def __init__(self, substitutes: StoredTable | None, background: StoredTable | None) -> None:
        super().__init__()
        self.substitutes = substitutes
        self.background = background


def _background(truth: Truth) -> DenseTable | None:
    """The table of all targets that the token law has multiplied beforehand, if there is one."""
    tables = truth.setting.sequence_tables
    return tables.background.table if isinstance(tables, HammingTables) and tables.background is not None else None


def _substitution(law: Similarity, setting: Setting) -> Tensor:  # (V, V)
    """S without its diagonal and without the undrawn tokens, each row of mass 1, or 0 where nothing is left."""
    similarity = law.table_of(setting)
    table = torch.empty(law.vocab_size, law.vocab_size, dtype=law.units.dtype, device=law.units.device)
    for part, rows in all_rows(similarity, "substitutes"):
        rows.diagonal(part.start).zero_()
        for token in setting.specials.ids("undrawn"):
            rows[:, token] = 0
        table[part] = rows / rows.sum(-1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    return table


def _check_substitutes(substitutes: Literal["uniform"] | TokenLaw, pool: PoolName | None) -> Similarity | None:
    if isinstance(substitutes, str) and substitutes == "uniform":
        return None
    dense = isinstance(substitutes, Similarity) and substitutes.mode == "dense"
    checks.must(dense, "substitutes", "'uniform' or a dense Similarity", repr(substitutes))
    assert isinstance(substitutes, Similarity)
    checks.must(pool == "vocab", "pool", "'vocab' when `substitutes` is a token law", repr(pool or "a tensor"))
    return substitutes
