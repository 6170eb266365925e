from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.rewards.document_counter import DocumentCounter

Document = list[list[int]]
captions = st.lists(st.integers(0, 4) | st.integers(0, 2**31 - 1), max_size=7)
documents_of = st.lists(st.lists(captions, max_size=4), min_size=1, max_size=25)


def count(documents: list[Document], order: int, block: int, most_tokens: int, path: Path) -> None:
    counter = DocumentCounter(path.parent, order, most_tokens)
    for start in range(0, len(documents), block):
        several = documents[start : start + block]
        texts = [text for document in several for text in document]
        ids = np.array([token for text in texts for token in text], dtype=np.int32)
        sizes = (np.array(list(map(len, parts)), dtype=np.int32) for parts in (texts, several))
        counter.add(ids, *sizes)
    counter.save(path)


@settings(max_examples=60, deadline=None)
@given(documents_of, st.integers(1, 5), st.integers(1, 30), st.integers(1, 80))
def test_files_hold_what_memory_does(documents: list[Document], order: int, block: int, most_tokens: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        count(documents, order, block, most_tokens, folder / "ours.npz")
        assert [path.name for path in folder.iterdir()] == ["ours.npz"]  # and nothing else is left
        DocumentFrequencies.build(documents, order).save(folder / "memory.npz")
        assert (folder / "ours.npz").read_bytes() == (folder / "memory.npz").read_bytes()


@settings(max_examples=40, deadline=None)
@given(documents_of, st.integers(1, 4), st.integers(1, 30))
def test_counts_are_those_of_a_dictionary(documents: list[Document], order: int, most_tokens: int) -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / "frequencies.npz"
        count(documents, order, 3, most_tokens, path)
        found = DocumentFrequencies.load(path)
    for n in range(1, order + 1):
        expected: Counter[tuple[int, ...]] = Counter()
        for document in documents:
            expected.update({tuple(text[at : at + n]) for text in document for at in range(len(text) - n + 1)})
        assert sorted(found.counts[n - 1].tolist()) == sorted([0, *expected.values()])
        for ngram, times in expected.items():
            assert found.lookup(torch.tensor(ngram))[n - 1].tolist() == [times]


def test_nothing_to_count_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^`documents` must be at least one; it is none\.$"):
        DocumentCounter(tmp_path).save(tmp_path / "f.npz")
    with pytest.raises(ValueError, match="`order` must be 1 or more; it is 0"):
        DocumentCounter(tmp_path, 0)
