from __future__ import annotations

from functools import cache

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.rewards import Edit

captions = st.lists(st.integers(0, 3), max_size=6)


def row(captions: list[list[int]]) -> torch.Tensor:
    width = max(map(len, captions))
    return torch.tensor([[caption + [-1] * (width - len(caption)) for caption in captions]]).long()


@cache
def apart(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return apart(a[1:], b[1:])
    return 1 + min(apart(a[1:], b), apart(a, b[1:]), apart(a[1:], b[1:]))


@settings(deadline=None)
@given(st.lists(captions, min_size=1, max_size=3), st.lists(captions.filter(bool), min_size=1, max_size=3))
def test_the_nearest_reference_counts(candidates: list[list[int]], references: list[list[int]]):
    got = Edit()(row(candidates), row(references))
    assert got.tolist() == [[-min(apart(tuple(a), tuple(b)) for b in references) for a in candidates]]


def test_without_references_the_candidate_is_compared_with_nothing():
    assert Edit()(row([[1, 2, 3], [5]]), torch.tensor([[[-1, -1]]])).tolist() == [[-3.0, -1.0]]


def test_names():
    assert Edit().signature() == "edit"
    assert repr(Edit()) == "Edit()"
