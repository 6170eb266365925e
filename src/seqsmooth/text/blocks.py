"""Blocks of texts, split into words: a part of a corpus that a process can work on alone.

In a block, words are numbers of its distinct words. So a whole corpus becomes ids with one look-up for each distinct
word of a block, once its vocabulary is known. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqsmooth import checks
from seqsmooth.text.tokenisers import Tokeniser

Text = str | Sequence[str]

LEAST_ITEMS, MOST_ITEMS = 2048, 16384
MOST_LETTERS = 1 << 21
_PORTION = 256


@dataclass(frozen=True)
class TextBlock:
    """Texts of one side, one after the other.

    Attributes:
        lines: the texts as they are written: a line each, a space between the words.
        items: the number of texts of each item: an image, or a pair.
        sizes: the number of words of each text.
        words: the distinct words, in the order in which they come.
        numbers: of all words, their places in `words`.
    """

    lines: bytes
    items: NDArray[np.int32]  # (I,)
    sizes: NDArray[np.int32]  # (N,)
    words: list[str]
    numbers: NDArray[np.int32]  # (M,)

    @property
    def counts(self) -> NDArray[np.int64]:  # one for each of the words
        """How often each of the distinct words occurs."""
        return np.bincount(self.numbers, minlength=len(self.words)).astype(np.int64, copy=False)


class _Numbers(dict[str, int]):
    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _Writer:
    """Takes the texts of a block, item by item."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._words: list[str] = []
        self._sizes: list[int] = []
        self._items: list[int] = []

    def write(self, words: Sequence[str], line: str) -> None:
        """Take a text of an item that is not ended yet."""
        self._lines.append(line)
        self._words += words
        self._sizes.append(len(words))

    def end_item(self, texts: int) -> None:
        """End an item of so many texts."""
        self._items.append(texts)

    def block(self) -> TextBlock:
        """Number the words."""
        numbers = _Numbers()
        flat = np.fromiter(map(numbers.__getitem__, self._words), np.int32, len(self._words))
        text = "\n".join([*self._lines, ""]).encode()
        return TextBlock(text, np.array(self._items, np.int32), np.array(self._sizes, np.int32), list(numbers), flat)


@dataclass(frozen=True)
class PairBlock:
    """Pairs that were split.

    Attributes:
        sources: one for each pair.
        targets: one or more for each pair.
        left_out: pairs that were left out because they are longer, or empty.
    """

    sources: TextBlock
    targets: TextBlock
    left_out: dict[str, int]


@dataclass(frozen=True)
class PairSplitter:
    """Splits a block of pairs.

    Attributes:
        split: its name, for errors.
        source: splits sources.
        target: splits targets.
        longest: pairs with more words are left out; None leaves out none.
        drop_empty: whether pairs with an empty side are left out, not refused.
    """

    split: str
    source: Tokeniser
    target: Tokeniser
    longest: int | None = None
    drop_empty: bool = False

    def __call__(self, block: tuple[int, Sequence[Any]]) -> PairBlock:
        """Split the pairs that come after so many of the corpus."""
        before, pairs = block
        sources, targets = _Writer(), _Writer()
        left_out = {"longer_pairs": 0, "empty_pairs": 0}
        for number, pair in enumerate(pairs, before + 1):
            paired = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
            if not paired:
                raise checks.wrong(f"pair {number} of {self.split}", "a source and a target", repr(pair))
            text, several = pair
            read = _words(self.source, text)
            if type(several) is str:
                written = [_words(self.target, several)]
            else:
                written = [_words(self.target, one) for one in (several if isinstance(several, tuple) else (several,))]
            if self.drop_empty and not (read and written and all(written)):
                left_out["empty_pairs"] += 1
                continue
            if self.longest is not None and max(map(len, (read, *written))) > self.longest:
                left_out["longer_pairs"] += 1
                continue
            sources.write(read, line_of(read) or check_words(read, f"source {number} of {self.split}"))
            if not written:
                raise checks.wrong(f"pair {number} of {self.split}", "one with a target", "one without")
            for one in written:
                targets.write(one, line_of(one) or check_words(one, f"target {number} of {self.split}"))
            sources.end_item(1)
            targets.end_item(len(written))
        return PairBlock(sources.block(), targets.block(), left_out)


@dataclass(frozen=True)
class CaptionBlock:
    """Captions that were split.

    Attributes:
        captions: those of one image after those of the other.
        ids: of the images that are left.
        empty: the number of captions that were left out because they are empty.
    """

    captions: TextBlock
    ids: list[Any]
    empty: int


@dataclass(frozen=True)
class CaptionSplitter:
    """Splits a block of images with captions.

    Attributes:
        split: its name, for errors.
        tokeniser: splits captions.
        drop_empty: whether captions without words are left out, not refused; and the image, where none is left.
    """

    split: str
    tokeniser: Tokeniser
    drop_empty: bool = False

    def __call__(self, block: tuple[int, Sequence[tuple[Any, Any]]]) -> CaptionBlock:
        """Split the captions of some images."""
        _, images = block
        captions, ids, empty = _Writer(), [], 0
        for identity, texts in images:
            place = f"of the image {identity!r} of {self.split}"
            listed = not isinstance(texts, str)  # or else its letters would be captions
            checks.must(listed, f"captions {place}", "a list of texts", repr(texts))
            several = [_words(self.tokeniser, text) for text in texts]
            some = [words for words in several if words or not self.drop_empty]
            empty += len(several) - len(some)
            if several and not some:
                continue
            for number, words in enumerate(some, 1):
                captions.write(words, line_of(words) or check_words(words, f"caption {number} {place}"))
            captions.end_item(len(some))
            ids.append(identity)
        return CaptionBlock(captions.block(), ids, empty)


def blocks_of(items: Iterable[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Items in blocks, with the number of items before each; what `items` raises comes after those before it.

    Blocks grow with what was before them: many share the words of a large corpus, and a small one still has several.
    """
    source, before = iter(items), 0
    while True:
        block: list[Any] = []
        most, letters = min(max(before // 8, LEAST_ITEMS), MOST_ITEMS), 0
        try:
            while len(block) < most and letters < MOST_LETTERS:
                had = len(block)
                for item in islice(source, _PORTION):
                    block.append(item)
                if len(block) == had:
                    break
                letters += sum(map(_letters, islice(block, had, None)))
        except Exception:
            if block:
                yield before, block
            raise
        if not block:
            return
        yield before, block
        before += len(block)


def _letters(item: Any) -> int:
    """The length of the source of a pair: about half of what it takes."""
    return len(item[0]) if isinstance(item, tuple) and item and isinstance(item[0], str) else 0


def line_of(words: Sequence[str]) -> str:
    """The words with spaces between them; empty where they cannot be a line of words."""
    if not isinstance(words, (list, tuple)) or not words or "" in words:
        return ""
    line = " ".join(words)
    return line if line.count(" ") == len(words) - 1 and "\n" not in line else ""


def check_words(words: Sequence[str], place: str) -> str:
    """Check that a text can be a line of words, and return the line."""
    checks.must(isinstance(words, Sequence), place, "a text with words", checks.describe(words))
    checks.must(len(words) > 0, place, "a text with words", "empty")
    joined = "".join(words)
    whole = all(words) and " " not in joined and "\n" not in joined
    checks.must(whole, place, "words without white space", repr(list(words))[:60])
    return " ".join(words)


def _words(split: Tokeniser, text: Text) -> Sequence[str]:
    return split(text) if isinstance(text, str) else text
