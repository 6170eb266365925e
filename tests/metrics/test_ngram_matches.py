from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.metrics.ngram_matches import count_matches

Tokens = tuple[str, ...]
sentences = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8).map(tuple)
items = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=4)), max_size=12)


def by_hand(hypothesis: Tokens, references: list[Tokens], order: int) -> list[int]:
    def ngrams(tokens: Tokens, n: int) -> Counter[Tokens]:
        return Counter(tokens[at : at + n] for at in range(len(tokens) - n + 1))

    closest = min(references, key=lambda one: (abs(len(one) - len(hypothesis)), len(one)))
    matches, totals = [], []
    for n in range(1, order + 1):
        most: Counter[Tokens] = Counter()
        for reference in references:
            most |= ngrams(reference, n)
        matches.append((ngrams(hypothesis, n) & most).total())
        totals.append(ngrams(hypothesis, n).total())
    return [len(hypothesis), len(closest), *matches, *totals]


@settings(max_examples=150, deadline=None)
@given(items, st.integers(1, 5), st.integers(1, 5))
def test_matches_are_those_of_counters(several: list[tuple[Tokens, list[Tokens]]], order: int, portion: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqsmooth.metrics.ngram_matches._PORTION", portion)
        found = count_matches([one for one, _ in several], [theirs for _, theirs in several], order)
    assert found.shape == (len(several), 2 + 2 * order)
    assert found.tolist() == [by_hand(*item, order) for item in several]


def test_tokens_may_be_ids() -> None:
    ids = count_matches([(7, 8, 2**40)], [[(7, 8), (2**40,)]], 2)
    assert ids.tolist() == [[3, 2, 3, 1, 3, 2]]
