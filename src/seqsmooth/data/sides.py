"""The texts of one side of a corpus: how they become words, lines on disk, and ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seqsmooth.data.tokens import TokenWriter
from seqsmooth.ops import checks
from seqsmooth.text import Tokeniser, Vocabulary, WhitespaceTokeniser, WordCounts
from seqsmooth.text.blocks import Text, TextBlock
from seqsmooth.text.counts import WordCounter

__all__ = ["Side", "SideWriter", "Text"]

Ints = NDArray[np.int32]


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

    def build(self, counts: WordCounts | WordCounter) -> Vocabulary:
        """The vocabulary of the words that occur often enough."""
        if self.vocabulary is not None:
            return self.vocabulary
        signature = self.tokeniser.signature
        if isinstance(counts, WordCounter):
            counts = counts.counts(min_count=self.min_count, most_words=self.most_words)
        return counts.vocabulary(min_count=self.min_count, most_words=self.most_words, tokeniser=signature)


class SideWriter:
    """One side of a split on its way to the disk: lines at once, ids when its vocabulary is known.

    Until then, the words are kept as the numbers that they have in their block.

    Args:
        path: the name that its files begin with.
        scratch: a folder for what is not kept.
        counter: counts the words; None where they are not to train on.
    """

    def __init__(self, path: Path, scratch: Path, counter: WordCounter | None = None) -> None:
        self._path, self._counter = path, counter
        self._blocks: list[tuple[int, ...]] = []  # how much of each of the scratch files each block takes
        self._scratch = [scratch / f"{path.name}.{what}" for what in ("items", "sizes", "numbers", "lexicon")]
        self._files = [file.open("wb") for file in (Path(f"{path}.txt"), *self._scratch)]
        self.items = self.texts = 0

    def write(self, block: TextBlock) -> None:
        """Write some texts."""
        kept = (block.items.tobytes(), block.sizes.tobytes(), block.numbers.tobytes(), " ".join(block.words).encode())
        for file, content in zip(self._files, (block.lines, *kept), strict=True):
            file.write(content)
        self._blocks.append(tuple(map(len, kept)))
        self.items += len(block.items)
        self.texts += len(block.sizes)
        if self._counter is not None:
            self._counter.add(block.words, block.counts.tolist(), len(block.sizes))

    def encode(self, vocabulary: Vocabulary, max_words: int | None) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Write the ids, and yield those of each block: the ids, uncut and without EOS, of its texts, of its items.

        Args:
            vocabulary: makes ids of the words.
            max_words: cut texts after so many words.
        """
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("rb")) for path in self._scratch]
            tokens = stack.enter_context(TokenWriter(self._path, len(vocabulary), max_words))
            for lengths in self._blocks:
                *arrays, lexicon = (file.read(length) for file, length in zip(files, lengths, strict=True))
                items, sizes, numbers = (np.frombuffer(array, np.int32) for array in arrays)
                ids = np.array(vocabulary.encode(lexicon.decode().split(" ")), dtype=np.int32)[numbers]
                tokens.append(ids, sizes)
                yield ids, sizes, items
        for path in self._scratch:
            path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()
