from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqsmooth.text import GloVe, Vocabulary, cooccurrence

TEXTS = st.lists(st.lists(st.integers(0, 5), max_size=9), min_size=1, max_size=6)


def brute_force(texts: list[list[int]], window: int, symmetric: bool, weighted: bool) -> dict[tuple[int, int], float]:
    """As Stanford's program walks: each word looks back at those before it in its line."""
    table: dict[tuple[int, int], float] = defaultdict(float)
    for text in texts:
        for here, word in enumerate(text):
            for there in range(max(0, here - window), here):
                weight = 1 / (here - there) if weighted else 1.0
                table[word, text[there]] += weight
                if symmetric:
                    table[text[there], word] += weight
    return table


def flattened(texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    flat = np.array([word for text in texts for word in text], dtype=np.int32)
    return flat, np.cumsum([0, *map(len, texts)])


@given(TEXTS, st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from([1, 7, 1000]))
def test_counts_are_those_of_two_loops(
    texts: list[list[int]], window: int, symmetric: bool, weighted: bool, block_cells: int
) -> None:
    ids, offsets = flattened(texts)
    counted = cooccurrence.count(
        ids, offsets, 6, window=window, symmetric=symmetric, weighted=weighted, block_cells=block_cells
    )
    wanted = brute_force(texts, window, symmetric, weighted)
    keys = list(zip(counted.rows.tolist(), counted.columns.tolist(), strict=True))
    assert keys == sorted(wanted)
    assert counted.values.tolist() == pytest.approx([wanted[key] for key in keys], rel=1e-12)


def test_one_sentence_by_hand() -> None:
    ids, offsets = flattened([[0, 1, 0], [2]])
    dense = cooccurrence.count(ids, offsets, 3).dense()
    # 0 and 1 are neighbours twice; 0 is two places from itself, seen from both sides.
    assert dense.tolist() == [[1.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_words_that_are_not_known_take_up_no_place_and_eos_ends_every_sentence() -> None:
    vocabulary = Vocabulary.build({"a": 2, "b": 2, "rare": 1}, sentences=2, min_count=2)
    texts = [["a", "rare", "b"], ["b", "a"]]
    a, b, eos = vocabulary.id("a"), vocabulary.id("b"), 2
    with_eos = GloVe(window=1).count(texts, vocabulary).dense()
    assert with_eos[a, b] == 2
    assert with_eos[b, eos] == with_eos[a, eos] == 1
    assert torch.equal(with_eos, with_eos.T)
    without = GloVe(window=1, eos=False).count(texts, vocabulary).dense()
    assert without[eos].sum() == 0
    assert without[a, b] == 2


def test_a_window_must_reach_somewhere() -> None:
    ids, offsets = flattened([[0, 1]])
    with pytest.raises(ValueError, match="`window` must be 1 or more; it is 0"):
        cooccurrence.count(ids, offsets, 2, window=0)
