"""V_sub: the tokens that may replace another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks, dispatch
from seqsmooth.ops.precision import finest
from seqsmooth.ops.tables import SetTable, SparseTable, Table, UniformTable
from seqsmooth.smoothing.records import Truth
from seqsmooth.smoothing.specials import is_any

PoolName = Literal["vocab", "batch", "refs"]
NO_TOKEN = torch.iinfo(torch.int64).max
VOCAB_SIZE_RULE = "given to the objective when nothing else tells it (a token law with embeddings, or logits)"
POOLS: tuple[PoolName, ...] = ("vocab", "batch", "refs")
FEW = 64
"""A list of no more tokens costs a loss less than a row in full."""


class Pool(Protocol):
    """A set of tokens for the whole batch (G = 1) or for each of its items (G = B), each set of its own size."""

    @property
    def groups(self) -> int:
        """G."""
        ...

    @property
    def sizes(self) -> Tensor:  # (G,)
        """How many tokens each set has."""
        ...

    @property
    def table(self) -> Table:
        """Uniform over each set (G rows)."""
        ...

    def others(
        self,
        tokens: Tensor,  # (B, ..., T)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (B, ..., T) each
        """For each token: how many others its pool has (m), whether it is in the pool, and its place there."""
        ...

    def at(
        self,
        place: Tensor,  # (B, ..., T)
    ) -> Tensor:  # (B, ..., T)
        """The tokens at these places of their pools; anything past the end."""
        ...


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """All tokens but a few: nothing is listed, places and tokens are told from each other by arithmetic."""

    vocab_size: int
    undrawn: tuple[int, ...]
    """Ascending."""
    device: torch.device

    @property
    def groups(self) -> int:
        """One for all."""
        return 1

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return self.vocab_size - len(self.undrawn)

    @property
    def sizes(self) -> Tensor:  # (1,)
        """The same as a tensor."""
        return torch.full((1,), self.size, device=self.device)

    @property
    def table(self) -> Table:
        """Uniform over all of them."""
        return UniformTable(self.vocab_size, self.undrawn)

    def others(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A token is in the pool unless it is undrawn, and its place is its id less the undrawn below."""
        inside, place = ~is_any(tokens, self.undrawn), tokens
        for token in self.undrawn:
            place = place - (tokens > token).long()
        return self.size - inside.long(), inside, place

    def at(self, place: Tensor) -> Tensor:
        """Steps over the undrawn, lowest first: each step makes room for the next."""
        for token in self.undrawn:
            place = place + (place >= token)
        return place.clamp_max(self.vocab_size - 1)


@dataclass(frozen=True, eq=False)
class Listed:
    """Tokens given by their ids."""

    ids: Tensor  # (G, P) ascending and distinct; NO_TOKEN past the end of a set
    sizes: Tensor  # (G,)
    table: Table
    places: Tensor | None = None  # (V,) int32, each token's place in the only set, -1 for none; None if not known

    @property
    def groups(self) -> int:
        """G."""
        return self.ids.shape[0]

    def others(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """By a search in each set."""
        if self.groups == 1:
            place = torch.searchsorted(self.ids[0], tokens.contiguous())
        else:
            place = torch.searchsorted(self.ids, tokens.flatten(1).contiguous()).view(tokens.shape)
        inside = self.at(place) == tokens
        sizes = self.sizes.view(-1, *[1] * (tokens.dim() - 1))
        return sizes - inside.long(), inside, place

    def at(self, place: Tensor) -> Tensor:
        """By a look into the list."""
        place = place.clamp_max(self.ids.shape[1] - 1)
        if self.groups == 1:
            return self.ids[0][place]
        return self.ids.gather(1, place.flatten(1)).view(place.shape)


def build_pool(kind: PoolName | Tensor, truth: Truth) -> Pool:
    """The pool a law asked for: by name, or the ids themselves ((P,) for all, (B, P) for each item)."""
    undrawn = truth.specials.ids("undrawn")
    source = truth.source
    if isinstance(kind, str) and kind == "vocab":
        checks.must(truth.vocab_size is not None, "vocab_size", VOCAB_SIZE_RULE, None)
        assert truth.vocab_size is not None
        return Vocabulary(truth.vocab_size, undrawn, source.targets.device)
    if isinstance(kind, Tensor):
        if kind.dim() == 2:
            checks.shape("pool", kind, source.targets.shape[0], None, letters="(B, P)")
        return _distinct((kind.unsqueeze(0) if kind.dim() == 1 else kind).long(), undrawn, truth.vocab_size)
    if kind == "batch":
        return _distinct(source.targets.reshape(1, -1), unlisted(truth), truth.vocab_size)
    checks.must(
        truth.references is not None,
        "references",
        "given when the pool is 'refs' (`targets.unsqueeze(1)` takes the ground truth alone)",
        None,
    )
    assert truth.references is not None
    return _distinct(truth.references.flatten(1), unlisted(truth), truth.vocab_size)


def batch_has_row(truth: Truth) -> bool:
    """Whether kernels write the table of the pool "batch" out over the vocabulary; or else a list is as good.

    A loss would have to write it out itself from a list of many tokens.
    """
    from seqsmooth.ops.kernels import pools

    length = truth.source.targets.numel()
    return length > FEW and pools.takes_flags(length, truth.vocab_size)


def sets_of(pool: Pool, vocab_size: int | None) -> SetTable | None:
    """A table of lists that are too long for the loss kernels to hold; None for any other pool."""
    from seqsmooth.ops.kernels.sorted_target import MOST_LISTED

    if not isinstance(pool, Listed) or pool.groups == 1 or pool.ids.shape[1] < MOST_LISTED or vocab_size is None:
        return None
    return SetTable.of(pool.ids, pool.ids < vocab_size, vocab_size)


def unlisted(truth: Truth) -> tuple[int, ...]:
    """The ids that lists of tokens do not bring into a pool: what is never drawn, and PAD, which fills them up."""
    pad = truth.specials.pad
    return tuple(sorted({*truth.specials.ids("undrawn"), *(() if pad is None else (pad,))}))


def check_pool(pool: PoolName | Tensor) -> PoolName | None:
    """The name of a pool that has one, None for a tensor of ids."""
    if isinstance(pool, Tensor):
        checks.integers("pool", pool)
        checks.must(pool.dim() in (1, 2), "pool", "of shape (P,) or (B, P)", tuple(pool.shape))
        return None
    listed = ", ".join(repr(name) for name in POOLS)
    checks.must(isinstance(pool, str) and pool in POOLS, "pool", f"one of {listed}, or a tensor of ids", repr(pool))
    return pool


def _distinct(
    listed: Tensor,  # (G, P) int64; a negative id is none
    excluded: tuple[int, ...],
    vocab_size: int | None,
) -> Listed:
    """Sets from lists, of fixed shape: the host need not know how many tokens are distinct."""
    if dispatch.fused(listed):
        from seqsmooth.ops.kernels import pools

        if pools.serves(listed.shape[0], listed.shape[1], vocab_size):
            sets = pools.distinct(listed, excluded, vocab_size)
            table = SparseTable(sets.slots, sets.shares, vocab_size, distinct=True)
            return Listed(sets.ids, sets.sizes, table, sets.places)
    if listed.shape[1] == 0:
        listed = F.pad(listed, (0, 1), value=-1)
    valid = (listed >= 0) & ~is_any(listed, excluded)
    if vocab_size is not None:
        checks.ids_below("pool", listed, vocab_size, where=valid)
        valid = valid & (listed < vocab_size)  # which a GPU is not asked
    ids = torch.where(valid, listed, NO_TOKEN).sort(-1).values
    again = F.pad(ids[:, 1:] == ids[:, :-1], (1, 0))
    ids = torch.where(again, NO_TOKEN, ids).sort(-1).values
    used = ids < NO_TOKEN
    sizes = used.sum(-1)
    share = used.to(finest(ids.device)) / sizes.clamp_min(1).unsqueeze(-1)
    return Listed(ids, sizes, SparseTable(torch.where(used, ids, 0), share, vocab_size, distinct=True))


def draw_other(
    pool: Pool,
    points: Tensor,  # (B, L, T) uniform in [0, 1)
    others: tuple[Tensor, Tensor, Tensor],  # `pool.others` of the tokens to replace, broadcastable to (B, L, T)
) -> Tensor:  # (B, L, T)
    """One token of the pool for each point, uniform over the others; anything where there is no other."""
    count, inside, place = others
    drawn = _below(count, points)
    return pool.at(drawn + (inside & (drawn >= place)))


def draw(
    pool: Pool,
    points: Tensor,  # (B, L, T) uniform in [0, 1)
) -> Tensor:  # (B, L, T)
    """One token of the pool for each point, uniform; anything where the pool is empty."""
    return pool.at(_below(pool.sizes.view(-1, 1, 1), points))


def _below(count: Tensor, points: Tensor) -> Tensor:
    """Uniform whole numbers in [0, count) from uniform numbers in [0, 1); 0 where count is 0."""
    return (points * count).long().minimum((count - 1).clamp_min(0))
