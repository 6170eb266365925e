from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.ops import hash_table

keys = st.integers(0, 2**63 - 1) | st.integers(0, 20)


@settings(deadline=None)
@given(st.dictionaries(keys, st.integers(0, 2**63 - 1), max_size=40), st.lists(keys, max_size=10))
def test_it_is_a_dictionary(held: dict[int, int], others: list[int]):
    table = hash_table.build(torch.tensor(list(held)).long(), torch.tensor(list(held.values())).long())
    asked = [*held, *others, -1, -5]
    assert hash_table.find(table, torch.tensor(asked)).tolist() == [held.get(key, -1) for key in asked]


@pytest.mark.parametrize("stride", [1, 2**32, 10007, 2**20 + 1])
def test_regular_keys_find_a_place_in_little_room(stride: int):
    wanted = torch.arange(20000) * stride
    table = hash_table.build(wanted, torch.arange(20000))
    assert table.numel() <= 4 * 20000
    assert torch.equal(hash_table.find(table, wanted), torch.arange(20000))
    assert (hash_table.find(table, wanted + 20000 * stride) == -1).all()


def test_it_takes_more_room_where_there_is_too_little(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hash_table, "_SLOTS_PER_KEY", 0.5)
    wanted = torch.arange(500)
    assert torch.equal(hash_table.find(hash_table.build(wanted, wanted), wanted), wanted)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"^`values` must be of shape \(N,\) = \(3,\); it is \(2,\).$"):
        hash_table.build(torch.arange(3), torch.arange(2))
