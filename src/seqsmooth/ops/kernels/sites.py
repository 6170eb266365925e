"""Where a sequence may change, how likely, and into what: `Hamming` as its kernels see it.

`FusedSites.arguments` is what the host hands over, and the functions after it are how a program reads that.

Let a position have m others to change into. With x uniform below m + exp(1 / tau), it changes if x < m, and then into
the other number floor(x): one product decides both. Where the rate of a change is given, x is below m / rate instead.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cache, lru_cache

import triton
import triton.language as tl
from torch import Tensor

NOWHERE = 2**31 - 1
"""Stands for an id that is not there: no token is as large."""


@dataclass(frozen=True, eq=False)
class FusedSites:
    """Which tokens may change, how likely, and the pool they change into.

    The pool is a list of tokens (`ids` and `sizes`), or the whole vocabulary (`vocab_size`) without `undrawn`.
    """

    frozen: tuple[int, ...]
    tau: float | None
    rate: float | None
    ids: Tensor | None  # (G, P) int64, ascending and distinct
    sizes: Tensor | None  # (G,) int64
    vocab_size: int
    undrawn: tuple[int, ...]
    places: Tensor | None = None  # (V,) int32, where each token is in the only list, -1 for nowhere

    def arguments(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """What both kernels take of it, and the constants among that."""
        groups, longest = (1, 0) if self.ids is None else self.ids.shape
        drawn = self.vocab_size - len(self.undrawn)
        given = (self.ids, self.sizes, self.places, longest, drawn, self.vocab_size, *self.law())
        kind = (self.sizes is not None, self.ids is not None, self.places is not None, groups > 1)
        return given, _constants(self.frozen, self.undrawn, self.rate is not None, *kind, longest.bit_length())

    def constants(self) -> dict[str, object]:
        """What is the same for every kind of pool."""
        return _same_constants(self.frozen, self.undrawn, self.rate is not None)

    def law(self) -> tuple[int, int, int]:
        """What the kernels need of the strength, as the bits of doubles; infinity is as good as any number there."""
        return _strength(self.tau, self.rate)


@lru_cache(256)
def _strength(tau: float | None, rate: float | None) -> tuple[int, int, int]:
    if rate is not None:
        inverse = 1 / rate if rate > 0 else math.inf
        # Where a change is certain, no logarithm of the other chance is taken.
        return _bits(rate), _bits(inverse), _bits(math.log1p(-rate) if rate < 1 else 0.0)
    assert tau is not None
    power = 1 / tau
    return _bits(math.exp(power) if power < 709 else math.inf), _bits(math.exp(-power)), _bits(-power)


@cache
def _same_constants(frozen: tuple[int, ...], undrawn: tuple[int, ...], rate: bool) -> dict[str, object]:
    return numbered("FROZEN", frozen, 4) | numbered("UNDRAWN", undrawn, 4) | {"RATE": rate}


@cache
def _constants(
    frozen: tuple[int, ...],
    undrawn: tuple[int, ...],
    rate: bool,
    sized: bool,
    listed: bool,
    placed: bool,
    grouped: bool,
    search: int,
) -> dict[str, object]:
    kind = {"SIZED": sized, "LISTED": listed, "PLACED": placed, "GROUPED": grouped, "SEARCH": search}
    return _same_constants(frozen, undrawn, rate) | kind


@cache
def nowhere() -> tuple[tuple[object, ...], dict[str, object]]:
    """No place may change."""
    return FusedSites((), None, 0.0, None, None, 0, ()).arguments()


@cache
def numbered(name: str, ids: tuple[int, ...], most: int) -> dict[str, object]:
    """A few ids as so many constants."""
    padded = (*ids, *[NOWHERE] * most)[:most]
    return {f"{name}_{number}": token for number, token in enumerate(padded)}


def _bits(value: float) -> int:
    """A double as a whole number, for a kernel is handed floats in single precision."""
    bits: int = struct.unpack("q", struct.pack("d", value))[0]
    return bits


@triton.jit
def is_frozen(tokens, FROZEN_0: tl.constexpr, FROZEN_1: tl.constexpr, FROZEN_2: tl.constexpr, FROZEN_3: tl.constexpr):
    """Whether tokens may not change."""
    return (tokens == FROZEN_0) | (tokens == FROZEN_1) | (tokens == FROZEN_2) | (tokens == FROZEN_3)


@triton.jit
def find_others(
    tokens, pool, row, sizes, group, places, drawn, vocab_size,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    SIZED: tl.constexpr, LISTED: tl.constexpr, PLACED: tl.constexpr, SEARCH: tl.constexpr,
):  # fmt: skip
    """The number of other tokens in the pool, whether a token is in it (0 or 1), and its place there."""
    size = tl.load(sizes + group) if SIZED else drawn
    if PLACED:
        known = (tokens >= 0) & (tokens < vocab_size)
        place = tl.load(places + tokens, mask=known, other=-1).to(tl.int64)
        inside = (place >= 0).to(tl.int64)
    elif LISTED:
        low = tl.zeros_like(tokens)
        high = low + size
        for _ in range(SEARCH):
            middle = (low + high) // 2
            open_ = low < high
            less = open_ & (tl.load(pool + row + middle, mask=open_, other=0) < tokens)
            high = tl.where(less, high, middle)
            low = tl.where(less, middle + 1, low)
        found = tl.load(pool + row + low, mask=low < size, other=-1)
        inside = (found == tokens).to(tl.int64)
        place = low
    else:
        undrawn = (tokens == UNDRAWN_0) | (tokens == UNDRAWN_1) | (tokens == UNDRAWN_2) | (tokens == UNDRAWN_3)
        inside = 1 - undrawn.to(tl.int64)
        place = tokens - (tokens > UNDRAWN_0).to(tl.int64) - (tokens > UNDRAWN_1).to(tl.int64)
        place = place - (tokens > UNDRAWN_2).to(tl.int64) - (tokens > UNDRAWN_3).to(tl.int64)
    return size - inside, inside, place


@triton.jit
def token_at(
    place, pool, row, wanted,
    UNDRAWN_0: tl.constexpr, UNDRAWN_1: tl.constexpr, UNDRAWN_2: tl.constexpr, UNDRAWN_3: tl.constexpr,
    LISTED: tl.constexpr,
):  # fmt: skip
    """The tokens at places of the pool; where they are not wanted, anything."""
    if LISTED:
        token = tl.load(pool + row + place, mask=wanted, other=0)
    else:
        token = place + (place >= UNDRAWN_0).to(tl.int64)
        token = token + (token >= UNDRAWN_1).to(tl.int64)
        token = token + (token >= UNDRAWN_2).to(tl.int64)
        token = token + (token >= UNDRAWN_3).to(tl.int64)
    return token


@triton.jit
def range_of(number, law_0, law_1, RATE: tl.constexpr):
    """Below what x is uniform: so many of its values are others to change into, the rest is none."""
    return number * double(law_1) if RATE else number + double(law_0)


@triton.jit
def double(bits):
    """The double that a whole number stands for."""
    return (tl.full((), 0, tl.int64) + bits).to(tl.float64, bitcast=True)
