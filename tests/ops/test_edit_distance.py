from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.ops.edit_distance import edit_distance

captions = st.lists(st.integers(0, 3), max_size=8)
paddings = st.lists(st.integers(-9, -1), max_size=4)


def textbook(a: list[int], b: list[int]) -> int:
    table = [[max(i, j) if i * j == 0 else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            substituted = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(substituted, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return table[-1][-1]


@settings(deadline=None)
@given(captions, captions, paddings, paddings)
def test_distance_is_the_textbook_one(a: list[int], b: list[int], tail_a: list[int], tail_b: list[int]):
    got = edit_distance(torch.tensor(a + tail_a).long(), torch.tensor(b + tail_b).long())
    assert got.shape == ()
    assert got == textbook(a, b)


def test_kitten_is_three_from_sitting():
    kitten, sitting = (torch.tensor([ord(letter) for letter in word]) for word in ("kitten", "sitting"))
    assert edit_distance(kitten, sitting) == 3


def test_batches_broadcast_and_ragged_rows_do_not_disturb_each_other():
    draw = random.Random(0)
    rows = [[draw.randrange(4) for _ in range(draw.randrange(13))] for _ in range(24)]
    ids = torch.tensor([row + [-1] * (12 - len(row)) for row in rows])
    candidates, references = ids[:12].view(3, 4, 1, 12), ids[12:].view(3, 1, 4, 12)
    got = edit_distance(candidates, references)
    assert got.shape == (3, 4, 4)
    expected = [
        [[textbook(rows[4 * b + i], rows[12 + 4 * b + j]) for j in range(4)] for i in range(4)] for b in range(3)
    ]
    assert got.tolist() == expected


def test_sequences_of_no_columns_are_empty():
    assert edit_distance(torch.zeros(2, 0, dtype=torch.int64), torch.tensor([[1, 2, -1]])).tolist() == [2, 2]
    assert edit_distance(torch.tensor([1, 2, -1]), torch.zeros(0, dtype=torch.int64)) == 2


def test_ids_of_any_size_stay_apart():
    assert edit_distance(torch.tensor([2**40, 2**20, 1]), torch.tensor([2**40, 2**20 + 1, 1])) == 1


def test_the_loop_is_unrolled_without_a_break():
    a, b = torch.tensor([[1, 2, 3, -1]]), torch.tensor([[2, 3, -1]])
    assert torch.compile(edit_distance, fullgraph=True, backend="eager")(a, b).tolist() == [1]
    assert edit_distance(a.to("meta"), b.to("meta")).shape == (1,)


def test_real_numbers_are_refused():
    with pytest.raises(ValueError, match=r"^`others` must be a tensor of whole numbers; it is torch.float32.$"):
        edit_distance(torch.tensor([1]), torch.tensor([1.0]))
