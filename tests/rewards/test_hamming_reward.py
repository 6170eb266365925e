from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.rewards import Hamming

captions = st.lists(st.integers(0, 3), max_size=7)


def row(captions: list[list[int]]) -> torch.Tensor:
    width = max(map(len, captions))
    return torch.tensor([[caption + [-1] * (width - len(caption)) for caption in captions]]).long()


def differing(a: list[int], b: list[int]) -> int:
    here = dict(enumerate(a))
    there = dict(enumerate(b))
    return sum(here.get(place) != there.get(place) for place in here.keys() | there.keys())


@settings(deadline=None)
@given(st.lists(captions, min_size=1, max_size=3), st.lists(captions.filter(bool), min_size=1, max_size=3))
def test_positions_are_compared_one_by_one(candidates: list[list[int]], references: list[list[int]]):
    got = Hamming()(row(candidates), row(references))
    assert got.tolist() == [[-min(differing(a, b) for b in references) for a in candidates]]


def test_the_overhang_counts_on_either_side():
    assert Hamming()(row([[1, 2, 3, 4]]), row([[1, 9]])).tolist() == [[-3.0]]
    assert Hamming()(row([[1, 9]]), row([[1, 2, 3, 4]])).tolist() == [[-3.0]]


def test_without_references_the_candidate_is_compared_with_nothing():
    assert Hamming()(row([[1, 2, 3], [5]]), torch.tensor([[[-1, -1]]])).tolist() == [[-3.0, -1.0]]


def test_names():
    assert Hamming().signature() == "hamming"
    assert repr(Hamming()) == "Hamming()"
