"""Counts of words, and in how many documents n-grams occur, from tokenised text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class WordCounts:
    """How often each word occurs, and in how many sentences they stood.

    Examples:
        >>> WordCounts.of([["a", "dog"], ["a", "cat"]])
        WordCounts(words={'a': 2, 'dog': 1, 'cat': 1}, sentences=2)
    """

    words: Mapping[str, int]
    sentences: int

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
            self.words, self.sentences, min_count=min_count, most_words=most_words, tokeniser=tokeniser
        )


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
