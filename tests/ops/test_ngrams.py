from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.ops import ngrams

captions = st.lists(st.integers(0, 3), max_size=9)
paddings = st.lists(st.integers(-9, -1), max_size=4)


def grams(caption: list[int], n: int) -> list[tuple[int, ...]]:
    return list(zip(*(caption[k:] for k in range(n)), strict=False))


def padded(values: list[int], width: int) -> list[int]:
    return values + [0] * (width - len(values))


@settings(deadline=None)
@given(captions, captions, paddings, paddings, st.integers(1, 5))
def test_counts_are_those_of_a_dictionary(a: list[int], b: list[int], tail_a: list[int], tail_b: list[int], order: int):
    got = ngrams.counts(torch.tensor(a + tail_a).long(), torch.tensor(b + tail_b).long(), order)
    assert len(got) == order
    for n in range(1, order + 1):
        held = Counter(grams(b, n))
        width = max(0, len(a + tail_a) - n + 1)
        assert got[n - 1].tolist() == padded([held[gram] for gram in grams(a, n)], width)


@settings(deadline=None)
@given(captions, paddings, st.integers(1, 5))
def test_ordinals_number_the_occurrences(a: list[int], tail: list[int], order: int):
    got = ngrams.ordinals(torch.tensor(a + tail).long(), order)
    for n in range(1, order + 1):
        seen: Counter[tuple[int, ...]] = Counter()
        expected = []
        for gram in grams(a, n):
            seen[gram] += 1
            expected.append(seen[gram])
        assert got[n - 1].tolist() == padded(expected, max(0, len(a + tail) - n + 1))


def test_lengths_count_tokens():
    assert ngrams.lengths(torch.tensor([[5, 0, -1], [-3, -1, -1], [7, 7, 7]])).tolist() == [2, 0, 3]


def test_every_candidate_meets_every_reference():
    candidates = torch.tensor([[[1, 2, -1], [3, 3, 3]], [[2, 2, 1], [9, -1, -1]]])  # (2, 2, 3)
    references = torch.tensor([[[1, 1], [2, -1], [3, 3]], [[2, 1], [2, 2], [-1, -1]]])  # (2, 3, 2)
    ones, twos = ngrams.counts(candidates[:, :, None], references[:, None], 2)
    assert ones.shape == (2, 2, 3, 3)
    assert twos.shape == (2, 2, 3, 2)
    assert ones[0].tolist() == [[[2, 0, 0], [0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0], [2, 2, 2]]]
    assert twos[1].tolist() == [[[0, 1], [1, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]]


@pytest.mark.parametrize("size", [254, 255, 256, 300])
def test_counts_go_beyond_a_byte(size: int):
    same = torch.full((size,), 7)
    ones, twos = ngrams.counts(same, same, 2)
    assert ones.tolist() == [size] * size
    assert twos.tolist() == [size - 1] * (size - 1)
    assert ngrams.ordinals(same, 1)[0].tolist() == list(range(1, size + 1))


def test_ids_of_any_size_stay_apart():
    ids = torch.tensor([0, 2**20, 2**32, 2**40, 2**62, 2**32])
    assert ngrams.counts(ids, ids, 1)[0].tolist() == [1, 1, 2, 1, 1, 2]


def test_input_is_left_alone():
    a, b = torch.tensor([1, 2, -1]), torch.tensor([2, -5])
    ngrams.counts(a, b, 3)
    assert a.tolist() == [1, 2, -1]
    assert b.tolist() == [2, -5]


def test_portions_are_the_batch_without_its_padding(monkeypatch: pytest.MonkeyPatch):
    length = torch.tensor([[4, 1, 0], [2, 2, 1], [0, 0, 0], [7, 0, 0], [3, 5, 1]])
    ours = torch.where(torch.arange(9) < length[..., None], torch.arange(45).view(5, 1, 9), -2)
    theirs = torch.where(torch.arange(8) < length[:, :2, None], 7, -1)
    seen: list[tuple[int, ...]] = []

    def score(candidates: torch.Tensor, references: torch.Tensor) -> torch.Tensor:
        assert candidates.shape[:1] == references.shape[:1]
        seen.append((*candidates.shape, *references.shape[1:]))
        return candidates.clamp(min=0).sum(-1) + references.clamp(min=0).sum((1, 2))[:, None]

    expected = score(ours, theirs)
    monkeypatch.setattr(ngrams, "_CACHE", 2 * 3 * 2 * (16 + 4 + 0 + 49 + 25) // 5)  # two rows of the mean size
    seen.clear()
    assert torch.equal(ngrams.in_portions(score, ours, theirs), expected)
    assert seen == [(2, 3, 2, 2, 2), (2, 3, 5, 2, 5), (1, 3, 7, 2, 7)]


def test_there_is_always_a_portion():
    for shape in ((0, 2, 3), (2, 0, 3), (2, 2, 0)):
        empty = torch.zeros(shape, dtype=torch.int64)
        theirs = torch.zeros(shape[0], 1, 4, dtype=torch.int64)
        assert ngrams.in_portions(lambda ours, _: ours.sum(-1), empty, theirs).shape == shape[:2]
    nowhere = torch.zeros(4, 1, 3, dtype=torch.int64, device="meta")
    assert ngrams.in_portions(lambda ours, _: ours.sum(-1), nowhere, nowhere).shape == (4, 1)
