"""`Hamming`: sequence-level smoothing by the Hamming distance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, Table
from seqsmooth.smoothing.pools import Listed, Pool, PoolName, Vocabulary, batch_has_row, sets_of, unlisted
from seqsmooth.smoothing.records import Draws, Measure, Truth, measured, stack_atoms
from seqsmooth.smoothing.sequence_law import PooledLaw, Setting
from seqsmooth.smoothing.similarity import Similarity
from seqsmooth.smoothing.sites import Sites, find_sites
from seqsmooth.smoothing.token_law import TokenLaw
from seqsmooth.smoothing.token_matrix import token_chunks

if TYPE_CHECKING:
    from seqsmooth.ops.kernels.sites import FusedSites
    from seqsmooth.ops.kernels.targets import Sampled
    from seqsmooth.ops.positions import Reading

MOST_STEPS = 8192
"""The longest sequence that a kernel draws at once."""


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
    substitution: Tensor | None
    background: Tensor | None
    substitution_masses: Tensor | None
    background_masses: Tensor | None

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
        for table in ("substitution", "background"):
            self.register_buffer(table, None, persistent=False)
            self.register_buffer(f"{table}_masses", None, persistent=False)
        self.others: int | None = None
        self.listed = True  # whether the tokens of the pool must be: a law that mixes their rows looks them up
        self.substitutes = _checked_substitutes(substitutes, self.pool)

    @property
    def vocab_size(self) -> int | None:
        """V, where substitutes are drawn from a law that knows it."""
        return None if self.substitutes is None else self.substitutes.vocab_size

    def prepare(self, setting: Setting) -> Hamming:
        """The same law with its number of samples settled, and with the table that all its targets share, if any."""
        law = self.twin()
        law.background = law.background_masses = None  # of an earlier token law, where this one was prepared before
        undrawn = setting.specials.ids("undrawn")
        law.listed = isinstance(setting.token, Similarity)
        if self.substitutes is not None:
            law.substitution = _substitution(self.substitutes.prepare(setting.specials.ids("unsmoothed")), undrawn)
            law.substitution_masses = law.substitution.sum(-1)
        if self.pool == "vocab" and setting.vocab_size is not None:
            law.others = setting.vocab_size - len(undrawn) - 1
        if setting.drawn:
            return law
        law.samples = self.samples if setting.lazy or self.samples is not None else 1
        uses_table = law.samples is None or (self.integrate and not setting.lazy)
        if uses_table and self.pool == "vocab" and setting.vocab_size is not None:
            device = next((buffer.device for buffer in setting.token.buffers()), torch.device("cpu"))
            table = law._shared_table() or Vocabulary(setting.vocab_size, undrawn, device).table
            mixed = setting.token.mix(table)
            if mixed is not None:
                law.background, law.background_masses = mixed.values, mixed.masses
        return law

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Measure:
        """Exact when lazy and `samples` is None; otherwise over samples."""
        fused, count = self._fused(truth), self.samples or 1
        if fused and lazy:
            if self.samples is None:
                return self._fused_expectation(truth)
            return measured(truth, self._fused_samples(truth, count, generator))
        sites = self._sites(truth)
        table = self._shared_table() or sites.pool.table
        if lazy and self.samples is None:
            return sites.expectation(table, self.alpha)
        draws = self.draw(truth, count, generator) if fused else self._draw(truth, sites, count, generator)
        weights = sites.flip.new_full(draws.tokens.shape[:2], 1 / count)
        sampled = stack_atoms(truth, draws, weights, self.alpha, lazy=lazy, ess=weights.new_full((), count))
        return sampled if lazy or not self.integrate else sites.integrated(table, sampled)

    def draw(self, truth: Truth, count: int, generator: Generator | None) -> Draws:
        """`count` independent samples of each sequence, with their probability."""
        if self._fused(truth):
            sampled = self._fused_draws(truth, count, generator)
            truth.keep(sampled.reading)
            return Draws(sampled.tokens, sampled.mask, sampled.log_prob, reading=sampled.reading)
        return self._draw(truth, self._sites(truth), count, generator)

    def flip_probability(self, truth: Truth) -> Tensor:  # (B, T)
        """Pi of each position: 0 where it is frozen or has no alternative."""
        return self._sites(truth).flip

    def options(self) -> dict[str, object]:
        """Temperature or rate, pool, samples, mixing."""
        chosen: dict[str, object] = {"tau": self.tau} if self.tau is not None else {"rate": self.rate}
        chosen["pool"] = self.pool_ids if self.pool is None else self.pool
        if self.samples is not None:
            chosen["samples"] = self.samples
        if self.substitutes is not None:
            chosen["substitutes"] = self.substitutes
        if not self.integrate:
            chosen["target"] = "sample"
        return chosen | {"alpha": self.alpha}

    def extra_repr(self) -> str:
        """The choices, and what a temperature means as a rate or the other way round, once the vocabulary is known."""
        if self.others is None or self.others < 1:
            return super().extra_repr()
        if self.tau is not None:
            odds = math.exp(max(math.log(self.others) - 1 / self.tau, -700.0))
            return f"{super().extra_repr()}; rate={odds / (1 + odds):.3g}"
        assert self.rate is not None
        inverse = math.log(self.others) - math.log(self.rate / (1 - self.rate)) if 0 < self.rate < 1 else math.nan
        return f"{super().extra_repr()}; tau={1 / inverse:.3g}" if inverse > 0 else super().extra_repr()

    def _fused(self, truth: Truth) -> bool:
        """Whether kernels do it, in a launch or two. They draw no substitutes from a token law."""
        return self.substitutes is None and truth.source.targets.shape[1] <= MOST_STEPS and truth.source.fused

    def _fused_expectation(self, truth: Truth) -> Measure:
        from seqsmooth.ops.kernels import targets

        table: Table
        if self.pool == "batch" and not self.listed and batch_has_row(truth):
            sites, excluded = self._fused_sites(truth, None), unlisted(truth)
            made = targets.batch_expectation(truth.source, sites, self.alpha, excluded)
            reading, index, background, table = made
        else:
            pool = self.pool_of(truth)
            sets = None if self.listed else sets_of(pool, truth.vocab_size)
            sites, table = self._fused_sites(truth, pool), self._shared_table() or sets or pool.table
            reading, index, background = targets.expectation(truth.source, sites, self.alpha, sets=table is sets)
        return measured(truth, reading, Rows.unchecked(table, index, background))

    def _fused_samples(self, truth: Truth, count: int, generator: Generator | None) -> Reading:
        from seqsmooth.ops.kernels import targets

        sites = self._fused_sites(truth, self.pool_of(truth))
        return targets.samples(truth.source, sites, count, generator, self.alpha)

    def _fused_draws(self, truth: Truth, count: int, generator: Generator | None) -> Sampled:
        from seqsmooth.ops.kernels import targets

        sites = self._fused_sites(truth, self.pool_of(truth))
        return targets.draws(truth.source, sites, count, generator, self.alpha)

    def _fused_sites(self, truth: Truth, pool: Pool | None) -> FusedSites:
        from seqsmooth.ops.kernels.sites import FusedSites

        listed = pool if isinstance(pool, Listed) else None
        return FusedSites(
            frozen=truth.specials.ids("frozen"),
            tau=self.tau,
            rate=self.rate,
            ids=None if listed is None else listed.ids,
            sizes=None if listed is None else listed.sizes,
            vocab_size=truth.vocab_size or 0,
            undrawn=truth.specials.ids("undrawn"),
            places=None if listed is None else listed.places,
        )

    def _sites(self, truth: Truth) -> Sites:
        return find_sites(truth, self.pool_of(truth), self._substitution_table(), tau=self.tau, rate=self.rate)

    def _draw(self, truth: Truth, sites: Sites, count: int, generator: Generator | None) -> Draws:
        prepared = self.substitutes is None or self.substitution is not None
        checks.must(prepared, "Hamming", "prepared by an Objective before it draws", "not")
        return sites.draw(count, generator)

    def _shared_table(self) -> DenseTable | None:
        """The table of all targets: multiplied by the token law beforehand, or that of the substitutes, or none."""
        if self.background is not None and self.background_masses is not None:
            return DenseTable(self.background, self.background_masses, mixed=True)
        return self._substitution_table()

    def _substitution_table(self) -> DenseTable | None:
        if self.substitution is None or self.substitution_masses is None:
            return None
        return DenseTable(self.substitution, self.substitution_masses)


def _substitution(law: Similarity, undrawn: tuple[int, ...]) -> Tensor:  # (V, V)
    """S without its diagonal and without the undrawn tokens, each row of mass 1, or 0 where nothing is left."""
    table = torch.empty(law.vocab_size, law.vocab_size, dtype=law.units.dtype, device=law.units.device)
    for tokens in token_chunks(law.vocab_size, law.units.device):
        rows = law.rows(tokens)
        rows[torch.arange(len(tokens), device=rows.device), tokens] = 0
        for token in undrawn:
            rows[:, token] = 0
        table[tokens] = rows / rows.sum(-1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    return table


def _checked_substitutes(substitutes: Literal["uniform"] | TokenLaw, pool: PoolName | None) -> Similarity | None:
    if isinstance(substitutes, str) and substitutes == "uniform":
        return None
    dense = isinstance(substitutes, Similarity) and substitutes.mode == "dense"
    checks.must(dense, "substitutes", "'uniform' or a dense Similarity", repr(substitutes))
    assert isinstance(substitutes, Similarity)
    checks.must(pool == "vocab", "pool", "'vocab' when `substitutes` is a token law", repr(pool or "a tensor"))
    return substitutes
