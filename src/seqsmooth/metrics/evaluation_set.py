"""Hypotheses beside their references, item by item."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from seqsmooth import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

Id = Any  # whatever names an item; not Hashable, since a Mapping is of exactly the keys it says
Sentence: TypeAlias = "str | Sequence[Hashable] | Tensor | NDArray[Any]"  # words or ids; a string is split at blanks
Tokens = tuple[Hashable, ...]


@dataclass(frozen=True)
class EvaluationSet:
    """The tokens that a corpus metric compares, item by item.

    Attributes:
        ids: the items, in the order of the references.
        hypotheses: the tokens of one sentence an item; it may be empty.
        references: the tokens of the references of each item, one or more.
    """

    ids: tuple[Id, ...]
    hypotheses: tuple[Tokens, ...]
    references: tuple[tuple[Tokens, ...], ...]

    @classmethod
    def align(cls, hypotheses: Mapping[Id, Sentence], references: Mapping[Id, Sequence[Sentence]]) -> EvaluationSet:
        """Find the references of each hypothesis; both must be of the same items."""
        for name, given in (("hypotheses", hypotheses), ("references", references)):
            checks.must(isinstance(given, Mapping), name, "a mapping from ids", checks.describe(given))
        checks.must(len(references) > 0, "references", "of at least one item", "empty")
        check_same_items(hypotheses, references)
        for key, several in references.items():
            listed = isinstance(several, Sequence) and not isinstance(several, str)
            value = repr(several) if isinstance(several, str) else checks.describe(several)
            checks.must(listed, "references", "a sequence of sentences for each id", f"{value} for id {key!r}")
            checks.must(len(several) > 0, "references", "at least one for each id", f"none for id {key!r}")
        ours = tuple(tokens_of(hypotheses[key]) for key in references)
        theirs = tuple(tuple(tokens_of(sentence) for sentence in several) for several in references.values())
        check_same_tokens(ours, tuple(chain.from_iterable(theirs)))
        return cls(tuple(references), ours, theirs)

    def __len__(self) -> int:
        return len(self.ids)

    def number_of_references(self) -> str:
        """Write the number of references of an item: one number, or the least and the most."""
        numbers = {len(several) for several in self.references}
        return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)}-{max(numbers)}"

    @cached_property
    def checksum(self) -> str:
        """Names the references, whatever the order of the items: two scores compare where this is the same."""
        digests = sorted(
            hashlib.sha256("\x1e".join([str(key), *map(join, several)]).encode()).digest()
            for key, several in zip(self.ids, self.references, strict=True)
        )
        return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


def tokens_of(sentence: Sentence) -> Tokens:
    """Split a text at white space; tensors and arrays become tuples of numbers."""
    if isinstance(sentence, str):
        return tuple(sentence.split())
    if hasattr(sentence, "tolist"):  # a tensor, or an array
        sentence = sentence.tolist()
    several = isinstance(sentence, Iterable) and not isinstance(sentence, bytes)
    checks.must(several, "sentence", "a string or a sequence of tokens", repr(sentence))
    return tuple(sentence)


def join(tokens: Iterable[Hashable]) -> str:
    """Write the sentence as one string, a blank between two tokens, as other tools want it."""
    return " ".join(map(str, tokens))


def check_same_tokens(hypotheses: Iterable[Tokens], references: Iterable[Tokens]) -> None:
    """Check that tokens are words on both sides, or ids on both: a word never is an id, and all would score 0."""
    ours, theirs = _kinds(hypotheses), _kinds(references)
    kinds = f"{' and '.join(ours)} in the hypotheses and {' and '.join(theirs)} in the references"
    checks.must(len({*ours, *theirs}) <= 1, "tokens", "all words or all ids", kinds)


def _kinds(sentences: Iterable[Tokens]) -> list[str]:
    types = set(map(type, chain.from_iterable(sentences)))
    for one in types:
        known = issubclass(one, (str, Integral)) and not issubclass(one, bool)
        checks.must(known, "tokens", "words (str) or ids (int)", f"of the type {one.__name__}")
    return sorted({"words" if issubclass(one, str) else "ids" for one in types})


def check_same_items(hypotheses: Mapping[Id, object], references: Mapping[Id, object]) -> None:
    """Check that each item has a hypothesis and references; name both numbers and the first item that has not."""
    counts = f"{len(hypotheses)} hypotheses and {len(references)} items with references"
    for key in references:
        if key not in hypotheses:
            raise ValueError(f"There must be a hypothesis for each item, but {counts} are given: id {key!r} has none.")
    for key in hypotheses:
        if key not in references:
            raise ValueError(f"There must be references for each item, but {counts} are given: id {key!r} has none.")
