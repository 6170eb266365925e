"""Rows kept for the tokens met so far, against the law that makes them; and objectives with and without them."""

from __future__ import annotations

import copy
import io
import math
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.tables import DenseTable, padded
from seqsmooth.smoothing import token_matrix
from seqsmooth.smoothing.row_store import FEW, RowStore
from seqsmooth.smoothing.token_matrix import KeptMatrix

V = 70
VECTORS = torch.randn(V, 5, generator=torch.Generator().manual_seed(0))
UNITS = F.normalize(VECTORS, dim=-1)
LAW = SimilarityTable(UNITS, torch.arange(V) > 1, 0.3)
ROW_BYTES = 4 * padded(V)
SPECIALS = ss.Specials(pad=0, bos=1)


def similar(law: SimilarityTable = LAW) -> Tensor:  # (V, V)
    """S by its definition, in double precision."""
    cosines = (law.units.double() @ law.units.double().T).masked_fill(~law.known, -math.inf)
    rows = torch.softmax(cosines / law.tau, -1)
    return torch.where(law.known.unsqueeze(-1), rows, torch.eye(len(rows), dtype=torch.float64))


def assert_rows(table: DenseTable, found: Tensor, tokens: Tensor, law: SimilarityTable = LAW) -> None:
    """Rows that were found are those of their tokens."""
    there = found >= 0
    assert table.values[found[there], V:].eq(0).all()
    torch.testing.assert_close(
        table.values[found[there], :V].double(), similar(law)[tokens[there]], rtol=3e-5, atol=1e-9
    )
    torch.testing.assert_close(table.mass(found[there]), torch.ones(int(there.sum())))


@settings(deadline=None)
@given(
    room=st.integers(0, V + 3),
    batches=st.lists(st.lists(st.integers(-2, V - 1), min_size=1, max_size=40), min_size=1, max_size=4),
)
def test_first_come_first_kept(room: int, batches: list[list[int]]) -> None:
    store = RowStore((room + 1) * ROW_BYTES + 3)
    seen: set[int] = set()
    for batch in batches:
        tokens = torch.tensor(batch)
        table, found = store.find(LAW, tokens)
        assert table.size <= min(room, V) + 1
        assert found[tokens < 0].eq(-1).all()
        assert_rows(table, found, tokens)
        new = {token for token in batch if token >= 0} - seen
        kept = {token for token, row in zip(batch, found.tolist(), strict=True) if row >= 0}
        assert kept >= seen & set(batch)
        assert len(kept - seen) == min(len(new), room - len(seen))
        seen |= kept


def test_the_row_that_empty_ones_point_at_is_there_from_the_start() -> None:
    table, found = RowStore(2**20).find(LAW, torch.tensor([-1, -100]))
    assert found.tolist() == [-1, -1]
    assert table.values[0].eq(0).all()
    assert table.masses[0] == 0


def test_a_row_does_not_depend_on_what_came_with_it() -> None:
    alone, together = RowStore(2**20), RowStore(2**20)
    order = torch.randperm(V, generator=torch.Generator().manual_seed(1))
    for token in order:
        alone.find(LAW, token.view(1))
    table, found = together.find(LAW, torch.arange(V))
    other, places = alone.find(LAW, torch.arange(V))
    assert torch.equal(table.values[found], other.values[places])
    assert V > 2 * FEW


CHANGES: dict[str, Callable[[SimilarityTable], object]] = {
    "vectors": lambda law: law.units.copy_(UNITS.flip(0)),
    "known": lambda law: law.known.logical_not_(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_law_starts_anew_in_other_memory(change: str) -> None:
    law, store, tokens = SimilarityTable(UNITS.clone(), LAW.known.clone(), 0.3), RowStore(2**20), torch.arange(3, 20)
    before, found = store.find(law, tokens)
    kept = before.values[found].clone()
    CHANGES[change](law)
    table, places = store.find(law, tokens)
    assert_rows(table, places, tokens, law)
    assert torch.equal(before.values[found], kept)  # for targets made before point at them
    assert not torch.allclose(table.values[places], kept)


def test_another_law_starts_anew() -> None:
    store, tokens, other = RowStore(2**20), torch.arange(3, 20), SimilarityTable(UNITS, LAW.known, 0.9)
    store.find(LAW, tokens)
    table, found = store.find(other, tokens)
    assert_rows(table, found, tokens, other)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])  # noqa: S301
def test_a_copy_is_empty(copied: Callable[[RowStore], RowStore]) -> None:
    store = RowStore(3 * ROW_BYTES)
    store.find(LAW, torch.tensor([5, 6]))
    again = copied(store)
    assert again.most_bytes == store.most_bytes
    assert again._rows is None
    assert len(pickle.dumps(store)) < 300


def test_rows_first_met_in_inference_mode_are_no_obstacle() -> None:
    store = RowStore(2**20)
    with torch.inference_mode():
        store.find(LAW, torch.tensor([5]))
    tokens = torch.tensor([5, 6])
    assert_rows(*store.find(LAW, tokens), tokens)


def test_many_threads_at_once() -> None:
    store, start = RowStore(40 * ROW_BYTES), threading.Barrier(8)

    def ask(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        start.wait()
        for _ in range(50):
            tokens = torch.randint(V, (9,), generator=generator)
            assert_rows(*store.find(LAW, tokens), tokens)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(8)))
    table, found = store.find(LAW, torch.arange(V))
    assert sorted(found[found >= 0].tolist()) == list(range(1, table.size))


def test_while_another_thread_adds_rows_those_there_must_do() -> None:
    store = RowStore(2**20)
    store.find(LAW, torch.tensor([5]))
    assert store._rows is not None
    with store._rows.lock:
        _, found = store.find(LAW, torch.tensor([5, 6]))
    assert found.tolist() == [1, -1]
    _, found = store.find(LAW, torch.tensor([5, 6]))
    assert found.tolist() == [1, 2]


LAWS: dict[str, Callable[[], ss.Objective]] = {
    "Tok": lambda: objective(None),
    "Tok-Seq, refs": lambda: objective(ss.Hamming(rate=0.4, pool="refs", alpha=0.8)),
    "Tok-Seq, batch": lambda: objective(ss.Hamming(rate=0.4, pool="batch")),
    "Tok-Seq, vocabulary": lambda: objective(ss.Hamming(rate=0.4)),
    "Tok-Seq, five samples": lambda: objective(ss.Hamming(rate=0.4, pool="refs", samples=5)),
    "Tok-Seq, own prefixes": lambda: objective(ss.Hamming(rate=0.4, pool="refs", samples=2), lazy=False),
}


def objective(sequence: ss.SequenceLaw | None, *, lazy: bool = True) -> ss.Objective:
    return ss.Objective(sequence, ss.Similarity(VECTORS, 0.3, alpha=0.7), lazy=lazy, specials=SPECIALS)


def target_of(made: ss.Objective, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    references = torch.randint(2, V, (4, 3, 6), generator=generator)
    references[0, :, 4:] = 0
    with torch.no_grad():
        return made.propose(references[:, 0], references=references, generator=generator).target.dense(V)


@pytest.mark.parametrize("room", [1, 9, V + 1])
@pytest.mark.parametrize("name", LAWS)
def test_targets_are_the_same_with_and_without(name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_full = LAWS[name]()
    monkeypatch.setattr(token_matrix, "STORED_VOCABULARY", V - 1)
    monkeypatch.setattr(token_matrix, "STORED_BYTES", room * ROW_BYTES)
    stored = LAWS[name]()
    assert isinstance(stored.token_tables, KeptMatrix)
    assert stored.token_tables.store is not None
    for seed in range(3):
        torch.testing.assert_close(target_of(stored, seed), target_of(in_full, seed), rtol=3e-5, atol=1e-7)


def test_an_objective_is_saved_and_moved_without_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_matrix, "STORED_VOCABULARY", V - 1)
    made = LAWS["Tok"]()
    expected, file = target_of(made, 0), io.BytesIO()
    torch.save(made, file)
    empty = io.BytesIO()
    torch.save(LAWS["Tok"](), empty)
    assert file.tell() < empty.tell() + 500
    assert made.state_dict() == {}
    assert torch.equal(target_of(copy.deepcopy(made), 0), expected)
    assert torch.equal(target_of(made.to(torch.device("cpu")).half(), 0), expected)


def test_a_refreshed_law_has_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_matrix, "STORED_VOCABULARY", V - 1)
    model = torch.nn.Embedding(V, 5)

    def make() -> ss.Similarity:
        return ss.Similarity.from_model(model, 0.3)

    made = ss.Objective(token=make(), specials=SPECIALS)
    old = target_of(made, 0)
    with torch.no_grad():
        model.weight.copy_(VECTORS)
    ss.Refresh(made, make, every=1).step()
    new = target_of(made, 0)
    assert not torch.allclose(new, old)
    assert torch.equal(new, target_of(ss.Objective(token=make(), specials=SPECIALS), 0))
