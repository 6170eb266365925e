"""`Edit`: sequence-level smoothing by insertions, deletions and substitutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks, targets
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.dispatch import finest
from seqsmooth.ops.pools import is_any
from seqsmooth.ops.sampling import Generator, categorical, uniforms
from seqsmooth.ops.targets import Draws
from seqsmooth.smoothing.pools import PooledLaw, PoolName
from seqsmooth.smoothing.records import Setting, Truth


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

    def prepare(self, setting: Setting) -> None:
        """Refuses the ground truth's prefixes: lengths change."""
        checks.must(not setting.lazy, "lazy", "False with Edit: its samples have lengths of their own", setting.lazy)

    def measure(self, truth: Truth, *, lazy: bool, generator: Generator | None) -> Candidates:
        """Samples of equal weight on their own prefixes."""
        return targets.stack(truth, self.draw(truth, self.samples, generator), self.alpha, lazy=lazy)

    def draw(self, truth: Truth, count: int, generator: Generator | None) -> Draws:
        """`count` independent samples of each sequence; their probability, a sum over scripts, is not given."""
        base = targets.truth(truth)
        words, real = base.sequences, base.mask  # (B, 1, T)
        steps = words.shape[-1]
        extra = steps if self.max_insertions is None else self.max_insertions
        pool = self.pool_of(truth)
        tokens = words.expand(-1, count, -1)
        movable = (real & ~is_any(words, truth.frozen)).expand_as(tokens)

        others = pool.others(words)
        kept, replaced, deleted = 1.0, others[0].to(finest(tokens.device)), 1.0
        cost = math.exp(-1 / self.tau)
        total = kept + (replaced + deleted) * cost
        point = uniforms(tuple(tokens.shape), tokens, generator) * total
        replace = movable & (point < replaced * cost)
        delete = movable & ~replace & (point < (replaced + deleted) * cost)
        new, _ = pool.replace(words, uniforms(tuple(tokens.shape), tokens, generator), others, generator)
        edited = torch.where(replace, new, tokens)

        inserted, gap = self._insertions(movable[:, 0], real[:, 0].any(-1), pool.sizes, count, extra, generator)
        added = pool.pick(uniforms(tuple(inserted.shape), tokens, generator))

        # Every word and every insertion gets a key that says where it goes; sorting the keys writes the sentence.
        # Word i has key 4i + 2 and an insertion before it 4i. What is frozen stays behind the word before it, or last.
        rank = movable.long().cumsum(-1)
        number = rank[..., -1:]
        start = (rank == 0) & is_any(tokens, () if truth.bos is None else (truth.bos,))
        fixed = torch.where((rank < number) | start, 4 * rank - 1, 4 * number + 2)
        gone = 4 * (steps + extra) + 4
        present = real & ~delete
        key = torch.where(present, torch.where(movable, 4 * rank - 2, fixed), gone)
        keys = torch.cat([key, torch.where(inserted, 4 * gap, gone)], -1)
        order = keys.argsort(dim=-1, stable=True)[..., : steps + extra]
        mask = keys.gather(-1, order) < gone
        written = torch.cat([edited, added], -1).gather(-1, order)
        return Draws(torch.where(mask, written, truth.filler), mask, None, truth=base)

    def _insertions(
        self,
        movable: Tensor,  # (B, T) bool
        real: Tensor,  # (B,) bool, sequences with any position
        sizes: Tensor,  # (G,)
        count: int,
        extra: int,
        generator: Generator | None,
    ) -> tuple[Tensor, Tensor]:  # (B, L, T + extra) bool, int64
        """Which of T + extra slots are insertions, and how many words stand before each slot.

        I insertions among W words can be laid out in C(W + I, I) ways, each filled in n^I ways: I is drawn from
        C(W + I, I) (n exp(-1/tau))^I for I <= W, or for I <= `max_insertions`, then the layout uniformly.
        """
        batch, steps = movable.shape
        dtype = finest(movable.device)
        words = movable.sum(-1, keepdim=True).to(dtype)  # (B, 1)
        number = torch.arange(extra + 1, dtype=dtype, device=words.device)
        layouts = torch.lgamma(words + number + 1) - torch.lgamma(words + 1) - torch.lgamma(number + 1)
        each = sizes.to(dtype).log() - 1 / self.tau  # (G,)
        weights = layouts + torch.where(number > 0, number * each.unsqueeze(-1), 0)
        if self.max_insertions is None:
            weights = weights.masked_fill(number > words, -torch.inf)
        drawn = categorical(weights.softmax(-1), count, generator) * real.unsqueeze(-1)
        drawn = drawn.unsqueeze(-1)  # (B, L, 1)

        slots = torch.arange(steps + extra, device=words.device)
        active = slots < words.long().unsqueeze(1) + drawn
        points = uniforms((batch, count, steps + extra), words, generator)
        place = torch.where(active, points, 2).argsort(-1).argsort(-1)
        inserted = place < drawn
        before = F.pad((active & ~inserted).long().cumsum(-1), (1, 0))[..., :-1]
        return inserted, before

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """Temperature, pool, samples, mixing."""
        chosen: dict[str, object] = {"tau": self.tau, "pool": self.pool_ids if self.pool is None else self.pool}
        chosen["insertions"] = "words" if self.max_insertions is None else self.max_insertions
        return chosen | {"samples": self.samples, "alpha": self.alpha}
