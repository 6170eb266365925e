"""Counts of words, and in how many documents n-grams occur, from tokenised text."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.text.vocabulary import SPECIALS, Vocabulary


@dataclass(frozen=True)
class WordCounts:
    """How often each word occurs, and in how many sentences they stood.

    Examples:
        >>> WordCounts.of([["a", "dog"], ["a", "cat"]])
        WordCounts(words={'a': 2, 'dog': 1, 'cat': 1}, sentences=2, others=0)
    """

    words: Mapping[str, int]
    sentences: int
    others: int = 0
    """How often words occur that are too rare to be listed."""

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> WordCounts:
        """Count tokenised sentences; an iterator will do."""
        seen = 0

        def tokens() -> Iterator[str]:
            nonlocal seen
            for sentence in sentences:
                seen += 1
                yield from sentence

        words = Counter(tokens())  # counts in C
        return cls(dict(words), seen)

    def vocabulary(self, *, min_count: int = 5, most_words: int | None = None, tokeniser: str = "") -> Vocabulary:
        """Make a vocabulary of the words that occur often enough: see `Vocabulary.build`."""
        return Vocabulary.build(
            self.words,
            self.sentences,
            min_count=min_count,
            most_words=most_words,
            tokeniser=tokeniser,
            others=self.others,
        )


class WordCounter:
    """Counts more words than fit into memory: what is too much goes to sorted files, which are merged in the end.

    Args:
        folder: where these files are kept.
        name: what their names begin with.
        most_words: the distinct words in memory.

    Examples:
        >>> import tempfile
        >>> counter = WordCounter(Path(tempfile.mkdtemp()), "words", most_words=2)
        >>> counter.add(["a", "dog", "runs"], [2, 1, 1], sentences=2)
        >>> counter.add(["a", "cat"], [1, 1], sentences=1)
        >>> counter.counts(min_count=2)
        WordCounts(words={'a': 3}, sentences=3, others=3)
    """

    def __init__(self, folder: Path, name: str, most_words: int = 1 << 19) -> None:
        self._folder, self._name, self._most_words = folder, name, most_words
        self._counts: dict[str, int] = {}
        self._sentences = self._total = 0
        self._files: list[Path] = []

    def add(self, words: Sequence[str], counts: Sequence[int], sentences: int) -> None:
        """Count some words, so many times each, of so many sentences. No word has white space in it."""
        known = self._counts
        find = known.get
        for word, count in zip(words, counts, strict=True):
            known[word] = find(word, 0) + count
        self._total += sum(counts)
        self._sentences += sentences
        if len(known) > self._most_words:
            self._let_go()

    def counts(self, *, min_count: int = 1, most_words: int | None = None) -> WordCounts:
        """Return the counts, of the words that occur so often, and of no more than so many, the most frequent."""
        if not self._files:
            return WordCounts(self._counts, self._sentences)
        self._let_go()
        frequent: Iterable[tuple[str, int]] = (pair for pair in self._merged() if pair[1] >= min_count)
        if most_words is not None:
            most = most_words + len(SPECIALS)  # which are no words of a vocabulary, if they are in the text
            frequent = heapq.nsmallest(most, frequent, key=lambda pair: (-pair[1], pair[0]))
        words = dict(frequent)
        return WordCounts(words, self._sentences, self._total - sum(words.values()))

    def _let_go(self) -> None:
        path = self._folder / f"{self._name}.{len(self._files)}.words"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{word} {count}\n" for word, count in sorted(self._counts.items()))
        self._files.append(path)
        self._counts.clear()

    def _merged(self) -> Iterator[tuple[str, int]]:
        for word, counts in groupby(heapq.merge(*map(_read_counts, self._files)), key=itemgetter(0)):
            yield word, sum(count for _, count in counts)
        for path in self._files:
            path.unlink()


def _read_counts(path: Path) -> Iterator[tuple[str, int]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            word, _, count = line.rpartition(" ")
            yield word, int(count)


def document_frequencies(
    documents: Iterable[Sequence[Sequence[str]]], vocabulary: Vocabulary, order: int = 4
) -> DocumentFrequencies:
    """Count in how many documents each n-gram occurs, for CIDEr.

    Args:
        documents: documents of tokenised captions: those of one image, or source sentence, are one document.
        vocabulary: makes ids of the words; all words that it does not hold are one, UNK.
        order: the length of the longest n-grams.

    Examples:
        >>> captions = [[["a", "dog"], ["one", "dog"]], [["a", "cat"]]]  # of two images
        >>> vocabulary = WordCounts.of(caption for image in captions for caption in image).vocabulary(min_count=1)
        >>> frequencies = document_frequencies(captions, vocabulary)
        >>> frequencies.documents, frequencies.order
        (2, 4)
    """
    return DocumentFrequencies.build(([vocabulary.encode(text) for text in texts] for texts in documents), order)
