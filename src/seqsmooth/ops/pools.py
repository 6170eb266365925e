"""V_sub: the tokens that may replace another one, as sets of token ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import checks, dispatch
from seqsmooth.ops.dispatch import finest
from seqsmooth.ops.sampling import Generator, categorical
from seqsmooth.ops.tables import DenseTable, RowTable, SparseTable, UniformTable

NO_TOKEN = torch.iinfo(torch.int64).max


class Pool(ABC):
    """A set of tokens for the whole batch (G = 1) or for each of its items (G = B), each set of its own size."""

    alike: ClassVar[bool] = True
    """Whether all tokens of a set are equally likely."""

    @property
    @abstractmethod
    def groups(self) -> int:
        """G."""

    @property
    @abstractmethod
    def sizes(self) -> Tensor:  # (G,)
        """How many tokens each set has."""

    @property
    @abstractmethod
    def table(self) -> RowTable:
        """The law of a new token: G rows, uniform over each set."""

    @abstractmethod
    def others(
        self,
        tokens: Tensor,  # (B, ..., T)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (B, ..., T) each
        """For each token: how many others its pool has (m), whether it is in the pool, and its place there."""

    @abstractmethod
    def at(
        self,
        place: Tensor,  # (B, ..., T)
    ) -> Tensor:  # (B, ..., T)
        """The tokens at these places of their pools; anything past the end."""

    def index(
        self,
        labels: Tensor,  # (B, T); negative where there is no position
    ) -> Tensor:  # (B, T)
        """The row of `table` that replaces each token; -1 where there is no position."""
        groups = torch.arange(self.groups, device=labels.device).unsqueeze(-1)
        return torch.where(labels >= 0, groups, -1)

    def pick(
        self,
        points: Tensor,  # (B, L, T) uniform in [0, 1)
    ) -> Tensor:  # (B, L, T)
        """One token of the pool for each point, uniform; anything where the pool is empty."""
        return self.at(_below(self.sizes.view(-1, 1, 1), points))

    def replace(
        self,
        tokens: Tensor,  # (B, 1, T)
        points: Tensor,  # (B, L, T) uniform in [0, 1)
        others: tuple[Tensor, Tensor, Tensor],  # `others` of the tokens, (B, 1, T) each
        generator: Generator | None,
    ) -> tuple[Tensor, Tensor]:  # (B, L, T), broadcastable to it
        """New tokens in place of others, and the logarithm of their probability; anything where there is no other."""
        count, inside, place = others
        drawn = _below(count, points)
        return self.at(drawn + (inside & (drawn >= place))), -count.to(points.dtype).log()


@dataclass(frozen=True, eq=False)
class AllTokens(Pool):
    """All tokens but a few: nothing is listed, places and tokens follow from each other by arithmetic."""

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
        """How many tokens there are, as a tensor."""
        return torch.full((1,), self.size, device=self.device)

    @property
    def table(self) -> RowTable:
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
class Distinct:
    """The distinct tokens of G lists."""

    ids: Tensor  # (G, P) int64, ascending; NO_TOKEN past the end
    sizes: Tensor  # (G,) int64
    slots: Tensor  # (G, P) the same ids; 0 past the end
    shares: Tensor  # (G, P) 1 / size; 0 past the end
    places: Tensor | None = None  # (V,) int32, the place of each token in the one set, -1 for none; None if not known


class TokenSets(Pool):
    """The distinct tokens of each of G lists but the excluded ones, sorted out when somebody asks.

    Args:
        listed: the lists; a negative id is none.
        excluded: tokens that are in no set.
        vocab_size: V, if it is known.
        whole_batch: whether the one list has the targets of the batch, which a kernel reads by itself.
    """

    def __init__(
        self,
        listed: Tensor,  # (G, P) int64
        excluded: tuple[int, ...],
        vocab_size: int | None,
        *,
        whole_batch: bool = False,
    ) -> None:
        self.listed = listed
        self.excluded = excluded
        self.vocab_size = vocab_size
        self.whole_batch = whole_batch
        self._distinct: Distinct | None = None

    @property
    def distinct(self) -> Distinct:
        """The sets."""
        if self._distinct is None:
            self._distinct = find_distinct(self.listed, self.excluded, self.vocab_size)
        return self._distinct

    @property
    def groups(self) -> int:
        """G."""
        return self.listed.shape[0]

    @property
    def sizes(self) -> Tensor:  # (G,)
        """How many tokens each set has."""
        return self.distinct.sizes

    @property
    def table(self) -> SparseTable:
        """Uniform over each set."""
        return SparseTable(self.distinct.slots, self.distinct.shares, self.vocab_size, distinct=True)

    def others(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """By a search in each set."""
        ids = self.distinct.ids
        if self.groups == 1:
            place = torch.searchsorted(ids[0], tokens.contiguous())
        else:
            place = torch.searchsorted(ids, tokens.flatten(1).contiguous()).view(tokens.shape)
        inside = self.at(place) == tokens
        sizes = self.sizes.view(-1, *[1] * (tokens.dim() - 1))
        return sizes - inside.long(), inside, place

    def at(self, place: Tensor) -> Tensor:
        """By a look into the list."""
        ids = self.distinct.ids
        place = place.clamp_max(ids.shape[1] - 1)
        if self.groups == 1:
            return ids[0][place]
        return ids.gather(1, place.flatten(1)).view(place.shape)


@dataclass(frozen=True, eq=False)
class Substitutes(Pool):
    """Tokens that replace another one by a law of their own: row y of `rows`, where y itself has no mass."""

    alike: ClassVar[bool] = False
    vocabulary: AllTokens
    rows: DenseTable  # V rows of mass 1, or 0 where nothing can replace the token

    @property
    def groups(self) -> int:
        """One for all."""
        return 1

    @property
    def sizes(self) -> Tensor:  # (1,)
        """How many tokens may be put in."""
        return self.vocabulary.sizes

    @property
    def table(self) -> RowTable:
        """A row for each token."""
        return self.rows

    def others(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The number in the vocabulary, or none where the row is empty; the row leaves the token itself out."""
        count, inside, place = self.vocabulary.others(tokens)
        return torch.where(self.rows.masses[tokens] > 0, count, 0), torch.zeros_like(inside), place

    def at(self, place: Tensor) -> Tensor:
        """The tokens of the vocabulary."""
        return self.vocabulary.at(place)

    def index(self, labels: Tensor) -> Tensor:
        """The row of the token itself."""
        return labels

    def replace(
        self, tokens: Tensor, points: Tensor, others: tuple[Tensor, Tensor, Tensor], generator: Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Draws from the rows, with numbers of their own."""
        batch, count, steps = points.shape
        every = tokens.flatten()
        if checks.visible(every):
            distinct, place = torch.unique(every, return_inverse=True)
            drawn = categorical(self.rows.values[distinct], count, generator, place)  # (B T, L)
        else:
            drawn = categorical(self.rows.values[every], count, generator)
        chosen = self.rows.values[every.unsqueeze(-1), drawn]
        new, share = (part.view(batch, steps, count).transpose(1, 2) for part in (drawn, chosen))
        return new, share.log()


def find_distinct(
    listed: Tensor,  # (G, P) int64; a negative id is none
    excluded: tuple[int, ...],
    vocab_size: int | None,
) -> Distinct:
    """Sets from lists, of fixed shape: the host need not know how many tokens are distinct."""
    if dispatch.uses_kernels(listed):
        from seqsmooth.ops.kernels import pools

        if pools.serves(listed.shape[0], listed.shape[1], vocab_size):
            return pools.distinct(listed, excluded, vocab_size)
    if listed.shape[1] == 0:
        listed = F.pad(listed, (0, 1), value=-1)
    valid = (listed >= 0) & ~is_any(listed, excluded)
    if vocab_size is not None:
        checks.ids_below("pool", listed, vocab_size, where=valid)
        valid = valid & (listed < vocab_size)  # which a GPU is not asked
    ids = torch.where(valid, listed, NO_TOKEN).sort(-1).values
    first = F.pad(ids[:, 1:] != ids[:, :-1], (1, 0), value=True) & (ids < NO_TOKEN)
    places = first.cumsum(-1)
    sizes = first.sum(-1)
    last = ids.shape[1]  # where all others go
    moved = ids.new_full((ids.shape[0], last + 1), NO_TOKEN).scatter_(1, torch.where(first, places - 1, last), ids)
    ids = moved[:, :-1].contiguous()
    used = ids < NO_TOKEN
    share = used.to(finest(ids.device)) / sizes.clamp_min(1).unsqueeze(-1)
    return Distinct(ids, sizes, torch.where(used, ids, 0), share)


def is_any(
    tokens: Tensor,  # (...)
    ids: tuple[int, ...],
) -> Tensor:  # (...) bool
    """Where a token is one of a few ids."""
    if not ids:
        return torch.zeros_like(tokens, dtype=torch.bool)
    same = tokens == ids[0]
    for token in ids[1:]:
        same = same | (tokens == token)
    return same


def _below(count: Tensor, points: Tensor) -> Tensor:
    """Uniform whole numbers in [0, count) from uniform numbers in [0, 1); 0 where count is 0."""
    return (points * count).long().minimum((count - 1).clamp_min(0))
