"""V_sub: the tokens that may replace another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.precision import finest
from seqsmooth.ops.sampling import uniforms
from seqsmooth.ops.tables import SparseTable, Table, UniformTable
from seqsmooth.smoothing.records import Truth
from seqsmooth.smoothing.specials import is_any

PoolName = Literal["vocab", "batch", "refs"]
NO_TOKEN = torch.iinfo(torch.int64).max
VOCAB_SIZE_RULE = "given to the objective when nothing else tells it (a token law with embeddings, or logits)"
POOLS: tuple[PoolName, ...] = ("vocab", "batch", "refs")


@dataclass(frozen=True, eq=False)
class Pool:
    """A set of tokens for the whole batch (G = 1) or for each of its items (G = B), each set of its own size."""

    ids: Tensor  # (G, P) ascending and distinct; NO_TOKEN past the end of a set
    sizes: Tensor  # (G,)
    table: Table
    """Uniform over each set (G rows)."""

    def others(
        self,
        tokens: Tensor,  # (B, ..., T)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (B, ..., T) each
        """For each token: how many others its pool has (m), whether it is in the pool, and its place there."""
        ids = self.ids.contiguous()
        if ids.shape[0] == 1:
            place = torch.searchsorted(ids[0], tokens.contiguous())
        else:
            place = torch.searchsorted(ids, tokens.flatten(1).contiguous()).view(tokens.shape)
        inside = self._at(place) == tokens
        sizes = self.sizes.view(-1, *[1] * (tokens.dim() - 1))
        return sizes - inside.long(), inside, place

    def draw_other(
        self,
        tokens: Tensor,  # (B, L, T)
        generator: torch.Generator | None,
    ) -> Tensor:  # (B, L, T)
        """One token of the pool for each token, uniform over the others; anything where there is no other."""
        count, inside, place = self.others(tokens)
        drawn = _below(count, tokens, generator)
        return self._at(drawn + (inside & (drawn >= place)).long())

    def draw(
        self,
        like: Tensor,  # (B, L, T)
        generator: torch.Generator | None,
    ) -> Tensor:  # (B, L, T)
        """One token of the pool for each place of `like`, uniform; anything where the pool is empty."""
        return self._at(_below(self.sizes.view(-1, 1, 1), like, generator))

    def _at(self, place: Tensor) -> Tensor:
        """The tokens at these places of their pools."""
        place = place.clamp_max(self.ids.shape[1] - 1)
        if self.ids.shape[0] == 1:
            return self.ids[0][place]
        return self.ids.gather(1, place.flatten(1)).view(place.shape)


def build_pool(kind: PoolName | Tensor, truth: Truth) -> Pool:
    """The pool a law asked for: by name, or the ids themselves ((P,) for all, (B, P) for each item)."""
    undrawn = truth.specials.ids("undrawn")
    if isinstance(kind, str) and kind == "vocab":
        checks.must(truth.vocab_size is not None, "vocab_size", VOCAB_SIZE_RULE, None)
        assert truth.vocab_size is not None
        return whole_vocabulary(truth.vocab_size, undrawn, truth.tokens.device)
    if isinstance(kind, Tensor):
        if kind.dim() == 2:
            checks.shape("pool", kind, truth.tokens.shape[0], None, letters="(B, P)")
        listed = (kind.unsqueeze(0) if kind.dim() == 1 else kind).long()
    elif kind == "batch":
        listed = torch.where(truth.mask, truth.tokens, -1).reshape(1, -1)
    else:
        checks.must(
            truth.references is not None,
            "references",
            "given when the pool is 'refs' (`targets.unsqueeze(1)` takes the ground truth alone)",
            None,
        )
        assert truth.references is not None
        listed = truth.references.flatten(1)
    return _distinct(listed, (listed >= 0) & ~is_any(listed, undrawn), truth.vocab_size)


def check_pool(pool: PoolName | Tensor) -> PoolName | None:
    """The name of a pool that has one, None for a tensor of ids."""
    if isinstance(pool, Tensor):
        checks.integers("pool", pool)
        checks.must(pool.dim() in (1, 2), "pool", "of shape (P,) or (B, P)", tuple(pool.shape))
        return None
    listed = ", ".join(repr(name) for name in POOLS)
    checks.must(pool in POOLS, "pool", f"one of {listed}, or a tensor of ids", repr(pool))
    return pool


def whole_vocabulary(vocab_size: int, undrawn: tuple[int, ...], device: torch.device) -> Pool:
    """All tokens but the undrawn."""
    size = vocab_size - len(undrawn)
    ids = torch.arange(max(size, 1), device=device)
    for token in undrawn:  # ascending: each step over one makes room for the next
        ids = ids + (ids >= token).long()
    table = UniformTable(vocab_size, undrawn)
    return Pool(ids.unsqueeze(0), torch.full((1,), size, device=device), table)


def _distinct(
    listed: Tensor,  # (G, P)
    valid: Tensor,  # (G, P) bool
    vocab_size: int | None,
) -> Pool:
    """Sets from lists, by two sorts of fixed shape: the host need not know how many tokens are distinct."""
    if listed.shape[1] == 0:
        listed, valid = F.pad(listed, (0, 1)), F.pad(valid, (0, 1))
    if vocab_size is not None:
        checks.ids_below("pool", listed, vocab_size, where=valid)
    ids = torch.where(valid, listed, NO_TOKEN).sort(-1).values
    again = F.pad(ids[:, 1:] == ids[:, :-1], (1, 0))
    ids = torch.where(again, NO_TOKEN, ids).sort(-1).values
    used = ids < NO_TOKEN
    sizes = used.sum(-1)
    share = used.to(finest(ids.device)) / sizes.clamp_min(1).unsqueeze(-1)
    return Pool(ids, sizes, SparseTable(torch.where(used, ids, 0), share, vocab_size))


def _below(count: Tensor, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform whole numbers in [0, count), 0 where count is 0."""
    drawn = (uniforms(tuple(like.shape), like, generator) * count).long()
    return drawn.minimum((count - 1).clamp_min(0).expand_as(drawn))
