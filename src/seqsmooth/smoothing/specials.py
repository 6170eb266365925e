"""Special tokens, and what smoothing may do with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from seqsmooth.ops import checks

Name = Literal["pad", "bos", "eos", "unk"]
NAMES: tuple[Name, ...] = ("pad", "bos", "eos", "unk")


@dataclass(frozen=True)
class Specials:
    """The ids of the special tokens. None at all by default: then every id is an ordinary token.

    PAD is no position: like `ignore_index`, it contributes nothing, so it must be an id of its own. The three rules
    below say what happens to the others, by name; each can be overridden.

    Args:
        pad: id of the padding.
        bos: id of the start of a sequence.
        eos: id of its end.
        unk: id of the unknown word.
        frozen: tokens that a sequence law leaves in place.
        undrawn: tokens that a sequence law never puts in: they are in no pool.
        unsmoothed: tokens to which a token law gives no mass.

    Examples:
        >>> Specials(pad=0, bos=1, eos=2, unk=3).ids("undrawn")
        (0, 1, 2, 3)
        >>> Specials(pad=0, eos=2, unk=3, undrawn=("pad", "eos")).ids("undrawn")
        (0, 2)
    """

    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    frozen: tuple[Name, ...] = ("bos", "eos")
    undrawn: tuple[Name, ...] = ("pad", "bos", "eos", "unk")
    unsmoothed: tuple[Name, ...] = ("pad", "bos")

    def __post_init__(self) -> None:
        for name in NAMES:
            if (token := getattr(self, name)) is not None:
                object.__setattr__(self, name, checks.at_least(name, token, 0))
            same = self.pad is not None and name != "pad" and token == self.pad
            rule = f"another id than `pad`, which is no position (pad targets with ignore_index instead of {token})"
            checks.must(not same, name, rule, token)
        for rule in ("frozen", "undrawn", "unsmoothed"):
            names = getattr(self, rule)
            checks.must(isinstance(names, (tuple, list)), rule, "a tuple of names", repr(names))
            for name in names:
                checks.one_of(rule, name, NAMES)
            object.__setattr__(self, rule, tuple(names))

    def ids(self, rule: Literal["frozen", "undrawn", "unsmoothed"]) -> tuple[int, ...]:
        """The distinct ids a rule names, ascending; an id of two names only if the rule names both."""
        if torch.compiler.is_compiling():  # which warns of a cache
            return _ids_of.__wrapped__(self, rule)
        return _ids_of(self, rule)

    @property
    def filler(self) -> int:
        """The id written where a sequence has no token."""
        return 0 if self.pad is None else self.pad

    def boundaries(self) -> tuple[int, ...]:
        """The ids that are no words of a sentence: PAD, BOS, EOS."""
        return tuple(sorted({token for token in (self.pad, self.bos, self.eos) if token is not None}))

    def check(self, vocab_size: int) -> None:
        """Check that the vocabulary holds them."""
        for name in NAMES:
            token = getattr(self, name)
            checks.must(token is None or token < vocab_size, name, f"an id below {vocab_size}", token)

    def __str__(self) -> str:
        named = (f"{name}:{getattr(self, name)}" for name in NAMES if getattr(self, name) is not None)
        rules = (
            f"{rule}:{'+'.join(getattr(self, rule)) or 'none'}"
            for rule in ("frozen", "undrawn", "unsmoothed")
            if getattr(self, rule) != getattr(type(self), rule)
        )
        return ",".join((*named, *rules)) or "none"


@cache
def _ids_of(specials: Specials, rule: Literal["frozen", "undrawn", "unsmoothed"]) -> tuple[int, ...]:
    listed = getattr(specials, rule)
    named = {getattr(specials, name) for name in listed}
    spared = {getattr(specials, name) for name in NAMES if name not in listed}
    return tuple(sorted(token for token in named - spared if token is not None))
