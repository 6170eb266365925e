"""`Edit`: sequence-level smoothing by insertions, deletions and substitutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.precision import finest
from seqsmooth.ops.sampling import Generator, categorical, uniforms
from seqsmooth.smoothing.pools import PoolName, draw, draw_other
from seqsmooth.smoothing.records import Draws, Measure, Truth, stack_atoms
from seqsmooth.smoothing.sequence_law import PooledLaw, Setting
from seqsmooth.smoothing.specials import is_any


class Edit(PooledLaw):
    """r(y|y*) proportional to exp(-e(y, y*) / tau), e the edit distance, approximately (Norouzi et al. 2016).

    There is no closed form for the number of sequences at distance e, so what is weighed are edit *scripts*: each
    of T words is kept (weight 1), replaced by another word of the pool (exp(-1/tau) for each of m) or deleted
    (exp(-1/tau)), and I words of the pool are inserted into the T + 1 gaps (exp(-I/tau) for each way to do it). That
    law is sampled exactly. A sequence that several scripts reach is counted once for each, as in the count of Norouzi
    et al., which also leaves out deletions; `docs/edit.md` measures the error of both. EOS stays last.

    Args:
        tau: temperature.
        pool: where new words come from, as in `Hamming`.
        alpha: share of this law; the rest stays on the ground truth.
        samples: number of samples L.
        max_insertions: most words inserted into a sequence, by default as many as it has. Samples have room for
            T + max_insertions tokens, or for 2T.

    Examples:
        >>> import seqsmooth as ss
        >>> specials = ss.Specials(pad=0, bos=1, eos=2)
        >>> objective = ss.Objective(Edit(tau=0.3, samples=8), lazy=False, specials=specials, vocab_size=9)
        >>> source = torch.Generator().manual_seed(0)
        >>> candidates = objective.propose(torch.tensor([[4, 5, 6, 2]]), generator=source)
        >>> candidates.inputs.shape  # as many insertions as tokens find room
        torch.Size([1, 9, 8])
        >>> bool(candidates.mask.sum(-1).unique().numel() > 1)  # samples have lengths of their own
        True
    """

    name = "edit"
    known_probability = False

    def __init__(
        self,
        tau: float,
        pool: PoolName | Tensor = "vocab",  # (P,) or (B, P)
        alpha: float = 1.0,
        samples: int = 1,
        *,
        max_insertions: int | None = None,
    ) -> None:
        super().__init__(pool, alpha)
        self.tau = checks.positive("tau", tau)
        self.samples = checks.at_least("samples", samples, 1)
        self.max_insertions = None if max_insertions is None else checks.at_least("max_insertions", max_insertions, 0)

    def prepare(self, setting: Setting) -> Edit:
        """Lengths change, so the ground truth's prefixes will not do."""
        checks.must(not setting.lazy, "lazy", "False with Edit: its samples have lengths of their own", setting.lazy)
        return self

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Measure:
        """Samples of equal weight on their own prefixes."""
        draws = self.draw(truth, self.samples, generator)
        shape = draws.tokens.shape[:2]
        weights = torch.full(shape, 1 / self.samples, dtype=finest(draws.tokens.device), device=draws.tokens.device)
        ess = weights.new_full((), self.samples)
        return stack_atoms(truth, draws, weights, self.alpha, lazy=lazy, ess=ess)

    def draw(self, truth: Truth, count: int, generator: Generator | None) -> Draws:
        """`count` independent samples of each sequence; their probability, a sum over scripts, is not given."""
        steps = truth.tokens.shape[1]
        extra = steps if self.max_insertions is None else self.max_insertions
        pool = self.pool_of(truth)
        tokens = truth.tokens.unsqueeze(1).expand(-1, count, -1)
        movable = truth.movable.unsqueeze(1).expand_as(tokens)

        others = pool.others(truth.tokens.unsqueeze(1))
        kept, replaced, deleted = 1.0, others[0].to(finest(tokens.device)), 1.0
        cost = math.exp(-1 / self.tau)
        total = kept + (replaced + deleted) * cost
        point = uniforms(tuple(tokens.shape), tokens, generator) * total
        replace = movable & (point < replaced * cost)
        delete = movable & ~replace & (point < (replaced + deleted) * cost)
        new = draw_other(pool, uniforms(tuple(tokens.shape), tokens, generator), others)
        edited = torch.where(replace, new, tokens)

        inserted, gap = self._insertions(truth, pool.sizes, count, extra, generator)
        added = draw(pool, uniforms(tuple(inserted.shape), tokens, generator))

        # Every word and every insertion gets a key that says where it goes; sorting the keys writes the sentence.
        # Word i has key 4i + 2 and an insertion before it 4i. What is frozen stays behind the word before it, or last.
        rank = movable.long().cumsum(-1)
        number = rank[..., -1:]
        start = (rank == 0) & is_any(tokens, () if truth.specials.bos is None else (truth.specials.bos,))
        fixed = torch.where((rank < number) | start, 4 * rank - 1, 4 * number + 2)
        gone = 4 * (steps + extra) + 4
        present = truth.mask.unsqueeze(1) & ~delete
        key = torch.where(present, torch.where(movable, 4 * rank - 2, fixed), gone)
        keys = torch.cat([key, torch.where(inserted, 4 * gap, gone)], -1)
        order = keys.argsort(dim=-1, stable=True)[..., : steps + extra]
        mask = keys.gather(-1, order) < gone
        written = torch.cat([edited, added], -1).gather(-1, order)
        return Draws(torch.where(mask, written, truth.specials.filler), mask, None)

    def _insertions(
        self,
        truth: Truth,
        sizes: Tensor,  # (G,)
        count: int,
        extra: int,
        generator: Generator | None,
    ) -> tuple[Tensor, Tensor]:  # (B, L, T + extra) bool, int64
        """Which of T + extra slots are insertions, and how many words stand before each slot.

        I insertions among W words can be laid out in C(W + I, I) ways, each filled in n^I ways: I is drawn from
        C(W + I, I) (n exp(-1/tau))^I for I <= W, or for I <= `max_insertions`, then the layout uniformly.
        """
        batch, steps = truth.tokens.shape
        dtype = finest(truth.tokens.device)
        words = truth.movable.sum(-1, keepdim=True).to(dtype)  # (B, 1)
        number = torch.arange(extra + 1, dtype=dtype, device=words.device)
        layouts = torch.lgamma(words + number + 1) - torch.lgamma(words + 1) - torch.lgamma(number + 1)
        each = sizes.to(dtype).log() - 1 / self.tau  # (G,)
        weights = layouts + torch.where(number > 0, number * each.unsqueeze(-1), 0)
        if self.max_insertions is None:
            weights = weights.masked_fill(number > words, -torch.inf)
        drawn = categorical(weights.softmax(-1), count, generator) * truth.mask.any(-1, keepdim=True)
        drawn = drawn.unsqueeze(-1)  # (B, L, 1)

        slots = torch.arange(steps + extra, device=words.device)
        active = slots < words.long().unsqueeze(1) + drawn
        points = uniforms((batch, count, steps + extra), words, generator)
        place = torch.where(active, points, 2).argsort(-1).argsort(-1)
        inserted = place < drawn
        before = F.pad((active & ~inserted).long().cumsum(-1), (1, 0))[..., :-1]
        return inserted, before

    def options(self) -> dict[str, object]:
        """Temperature, pool, samples, mixing."""
        chosen: dict[str, object] = {"tau": self.tau, "pool": self.pool_ids if self.pool is None else self.pool}
        chosen["insertions"] = "words" if self.max_insertions is None else self.max_insertions
        return chosen | {"samples": self.samples, "alpha": self.alpha}
