from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.text import Vocabulary, WordCounts
from seqsmooth.text.counts import WordCounter

words = st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs"]), min_size=1, max_size=3)
texts = st.lists(st.lists(words | st.sampled_from(["a", "b", "<unk>", "<pad>", "\t", "\x85"]), max_size=8), max_size=25)


@settings(max_examples=80, deadline=None)
@given(texts, st.integers(1, 30), st.integers(1, 3), st.none() | st.integers(1, 6))
def test_a_vocabulary_from_files_is_that_from_memory(
    given_texts: list[list[str]], in_memory: int, min_count: int, most_words: int | None
) -> None:
    with TemporaryDirectory() as name:
        counter = WordCounter(Path(name), "words", in_memory)
        for text in given_texts:
            of_text = Counter(text)
            counter.add(list(of_text), list(of_text.values()), 1)
        counts = counter.counts(min_count=min_count, most_words=most_words)
        assert list(Path(name).iterdir()) == []
    memory = WordCounts.of(given_texts)
    assert counts.sentences == memory.sentences
    assert sum(counts.words.values()) + counts.others == sum(memory.words.values())
    ours, theirs = (one.vocabulary(min_count=min_count, most_words=most_words) for one in (counts, memory))
    assert (ours.words, ours.counts) == (theirs.words, theirs.counts)


def test_rare_words_that_are_not_listed_are_unk() -> None:
    built = Vocabulary.build({"a": 7}, 3, min_count=2, others=5)
    assert built.counts == (0, 3, 3, 5, 7)
