"""Parts of targets whose computed rows fit into memory, against the whole target written out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import written
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import IGNORED, Rows, SoftTarget
from seqsmooth.ops.tables import DenseTable, RowTable, SetTable, SparseTable, UniformTable
from seqsmooth.ops.written import parts_in_memory

V, WIDE = 12, torch.float64
UNITS = F.normalize(torch.randn(V, 3, dtype=WIDE, generator=torch.Generator().manual_seed(0)), dim=-1)
LAW, OTHER = (SimilarityTable(UNITS, torch.arange(V) > 0, tau) for tau in (0.2, 0.9))
DENSE = DenseTable.of(torch.rand(V, V, dtype=WIDE, generator=torch.Generator().manual_seed(1)))


class Shifted:
    """A user's table: all mass of a row on the token after it."""

    vocab_size, size, mixed = V, V, False

    def combine(self, index: Tensor, weights: Tensor) -> Tensor:
        return torch.zeros(len(index), V, dtype=WIDE).scatter_add_(-1, (index + 1) % V, weights.to(WIDE))

    def mass(self, index: Tensor) -> Tensor:
        return torch.ones(index.shape)

    def dot(self, logits: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        return (self.combine(index, weights) * logits).sum(-1)


TABLES: list[RowTable] = [LAW, OTHER, DENSE, Shifted()]


@settings(deadline=None)
@given(data=st.data(), most=st.integers(1, 8))
def test_the_parts_are_the_whole(data: st.DataObject, most: int) -> None:
    count = data.draw(st.integers(0, 9))
    rows = []
    for table in data.draw(st.lists(st.sampled_from(TABLES), max_size=3)):
        width = data.draw(st.integers(0, 3))
        index = data.draw(st.lists(st.integers(-1, V - 1), min_size=count * width, max_size=count * width))
        weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=count * width, max_size=count * width))
        places, shares = torch.tensor(index, dtype=torch.long), torch.tensor(weights, dtype=WIDE)
        rows.append(Rows(table, places.view(count, width), shares.view(count, width)))
    ids = torch.tensor(data.draw(st.lists(st.sampled_from([IGNORED, 3]), min_size=count, max_size=count)))
    target = SoftTarget(ids.long().view(count, 1), torch.ones(count, 1, dtype=WIDE), tuple(rows))
    whole, kept = target.dense(V), target.kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(written, "MOST_ELEMENTS", most * V)
        parts = list(parts_in_memory(target, V))
    assert torch.equal(torch.cat([torch.arange(count)[part] for part, _ in parts]), torch.arange(count))
    for part, some in parts:
        torch.testing.assert_close(some.dense(V), whole[part], rtol=1e-12, atol=1e-12)
        assert torch.equal(some.kept(), kept[part])
        assert all(isinstance(row.table, DenseTable) for row in some.rows)
        computed = sum(len(row.table.values) for row in some.rows if row.table is not DENSE)
        needed = sum(row.table is not DENSE for row in some.rows)
        assert computed <= max(most, needed, 9 if len(whole[part]) == 1 else 0) + needed


def test_each_row_is_computed_once_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "MOST_ELEMENTS", 2 * V)
    index = torch.tensor([[3], [4], [3], [-1], [4], [5], [3], [5]])
    target = SoftTarget(index[:, :0], torch.zeros(8, 0), (Rows(LAW, index, torch.ones(8, 1)),))
    parts = list(parts_in_memory(target, V))
    assert [(part.start, part.stop) for part, _ in parts] == [(0, 5), (5, 8)]
    assert [len(some.rows[0].table.values) for _, some in parts] == [2, 2]


def test_what_is_stored_stays_as_it_is() -> None:
    index, weights = torch.zeros(2, 1, dtype=torch.long), torch.ones(2, 1)
    tables: list[RowTable] = [
        DENSE,
        SparseTable(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1), V),
        SetTable.of(torch.tensor([[1]]), torch.tensor([[True]]), V),
        UniformTable(V),
    ]
    target = SoftTarget(index, weights, tuple(Rows(table, index, weights) for table in tables))
    assert [(part, some is target) for part, some in parts_in_memory(target, V)] == [(slice(0, 2), True)]
