"""The texts of one side of a corpus: how they become words, lines on disk, and ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from seqsmooth.data.tokens import write_tokens
from seqsmooth.ops import checks
from seqsmooth.text import Tokeniser, Vocabulary, WhitespaceTokeniser, WordCounts

Text = str | Sequence[str]


@dataclass(frozen=True)
class Side:
    """The rules by which the texts of one side become ids.

    Attributes:
        tokeniser: splits texts; those given as lists of words are split already.
        min_count: words that are rarer in training become UNK.
        most_words: keep no more than so many words, the most frequent.
        vocabulary: one that is given; the other two are not asked then.

    Examples:
        >>> from seqsmooth.text import PtbTokeniser
        >>> Side(PtbTokeniser()).words("A dog, running.")
        ['a', 'dog', 'running']
        >>> Side(min_count=2).build(WordCounts.of([["a", "dog"], ["a", "cat"]])).words[-1]  # the others become UNK
        'a'
    """

    tokeniser: Tokeniser = field(default_factory=WhitespaceTokeniser)
    min_count: int = 5
    most_words: int | None = None
    vocabulary: Vocabulary | None = None

    def __post_init__(self) -> None:
        rule = "a tokeniser (`seqsmooth.text.tokeniser` makes one of a name)"
        checks.must(callable(self.tokeniser), "tokeniser", rule, repr(self.tokeniser))
        checks.at_least("min_count", self.min_count, 1)
        if self.most_words is not None:
            checks.at_least("most_words", self.most_words, 1)

    def words(self, text: Text) -> Sequence[str]:
        """The words of a text."""
        return self.tokeniser(text) if isinstance(text, str) else text

    def build(self, counts: WordCounts) -> Vocabulary:
        """The vocabulary of the words that occur often enough."""
        if self.vocabulary is not None:
            return self.vocabulary
        signature = self.tokeniser.signature
        return counts.vocabulary(min_count=self.min_count, most_words=self.most_words, tokeniser=signature)


class Lines:
    """Texts written as they come, a line each with a space between the words, and counted where they are to train on.

    Args:
        path: the file, made anew.
        counted: whether to count the words.
    """

    def __init__(self, path: Path, *, counted: bool) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")
        self._counts: Counter[str] | None = Counter() if counted else None
        self.written = 0

    def write(self, words: Sequence[str]) -> None:
        """Write one text."""
        self._file.write(" ".join(words) + "\n")
        if self._counts is not None:
            self._counts.update(words)
        self.written += 1

    def counts(self) -> WordCounts:
        """Return the counts of the words written so far."""
        return WordCounts(dict(self._counts or {}), self.written)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def check_words(words: Sequence[str], place: str) -> None:
    """Check that a text can be a line of words."""
    checks.must(isinstance(words, Sequence), place, "a text with words", checks.describe(words))
    checks.must(len(words) > 0, place, "a text with words", "empty")
    joined = "".join(words)
    whole = all(words) and " " not in joined and "\n" not in joined
    checks.must(whole, place, "words without white space", repr(list(words))[:60])


def sentences(path: Path) -> Iterator[list[str]]:
    """The words of each line."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n").split(" ")


def encode(out: Path, splits: Iterable[str], side: str, vocabulary: Vocabulary, max_words: int | None) -> None:
    """Write the ids of the lines of a side, once its vocabulary is known."""
    for name in splits:
        write_tokens(out / f"{name}.{side}", sentences(out / f"{name}.{side}.txt"), vocabulary, max_words)
