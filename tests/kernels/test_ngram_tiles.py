from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton")
from seqsmooth.ops.kernels import ngrams


@given(st.integers(1, 2000), st.integers(1, 70), st.integers(0, 63), st.sampled_from([1, 8, 32, 64]))
def test_every_candidate_has_a_column(items: int, samples: int, others: int, width: int):
    programs, group, columns, warps = ngrams.spread(items, samples, others, width)
    assert (programs - 1) * group < samples <= programs * group
    assert group + others <= columns == ngrams.cover(columns)
    assert columns * width <= 4096
    assert warps in (1, 2, 4, 8, 16)


def test_few_columns_for_few_candidates_and_many_for_many():
    # 50 items of 5 are too few to fill a GPU with one program an item; 1000 items of 25 share their references.
    assert ngrams.spread(50, 5, 5, 32)[:3] == (2, 3, 8)
    assert ngrams.spread(1000, 25, 5, 32)[:3] == (1, 25, 32)


@pytest.mark.parametrize(
    ("ours", "theirs", "room"),
    [((9, 9, 64), (9, 63, 64), True), ((9, 9, 64), (9, 64, 64), False), ((9, 9, 65), (9, 63, 64), False)],
)
def test_room(ours: tuple[int, ...], theirs: tuple[int, ...], room: bool):
    assert ngrams.fit(torch.empty(ours, device="meta"), torch.empty(theirs, device="meta")) == room


def test_steps_cover_in_fours():
    assert [ngrams.steps(length) for length in (0, 1, 4, 5, 17)] == [0, 4, 4, 8, 20]
