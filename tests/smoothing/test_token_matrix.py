"""The matrix of a similarity law, kept, multiplied and drawn from in pieces, against loops over all its entries."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from oracles.chi_square import assert_follows
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.tables import DenseTable, RowTable, SparseTable, UniformTable
from seqsmooth.smoothing import token_matrix
from seqsmooth.smoothing.token_matrix import TokenMatrix, draw_from, keep, multiply, rows_of

V, TAU, ALPHA, DOUBLE = 7, 0.4, 0.6, torch.float64
VECTORS = F.normalize(torch.randn(V, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)), dim=-1)
LAW = SimilarityTable(VECTORS, torch.tensor([True] * 6 + [False]), TAU)


@pytest.fixture(autouse=True)
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tokens at a time, of seven, and two rows to draw from."""
    monkeypatch.setattr(token_matrix, "CHUNK_ROWS", 3)
    monkeypatch.setattr(token_matrix, "ROW_ELEMENTS", 2 * V)


@pytest.fixture(scope="module")
def similar() -> Tensor:
    """S by its definition, entry by entry; the last token has no vector."""
    entries = torch.zeros(V, V, dtype=DOUBLE)
    for y in range(6):
        for v in range(6):
            entries[y, v] = math.exp(
                sum(float(a) * float(b) for a, b in zip(VECTORS[y], VECTORS[v], strict=True)) / TAU
            )
        entries[y] /= sum(entries[y].tolist())
    entries[6, 6] = 1
    return entries


def test_m_is_kept_in_full_where_the_mode_is_dense(similar: Tensor) -> None:
    kept = keep(LAW, ALPHA, "dense", None, "renormalise", True)
    assert kept.table is not None
    assert kept.masses is not None
    torch.testing.assert_close(kept.table[:, :V], (1 - ALPHA) * torch.eye(V, dtype=DOUBLE) + ALPHA * similar)
    assert not kept.table[:, V:].any()
    torch.testing.assert_close(kept.masses, torch.ones(V, dtype=DOUBLE))
    assert kept.neighbours is None


def test_s_is_kept_to_draw_from(similar: Tensor) -> None:
    kept = keep(LAW, ALPHA, "sampled", 2, "renormalise", True)
    assert kept.table is not None
    torch.testing.assert_close(kept.table[:, :V], similar)


def test_masses_are_those_of_rounded_rows() -> None:
    kept = keep(LAW, ALPHA, "dense", None, "renormalise", torch.float16)
    assert kept.table is not None
    assert kept.table.dtype == torch.float16
    torch.testing.assert_close(kept.masses, kept.table.double().sum(-1))
    assert not torch.equal(kept.masses, torch.ones(V, dtype=DOUBLE))


@pytest.mark.parametrize("tail", ["renormalise", "zero"])
def test_the_nearest_are_kept(similar: Tensor, tail: token_matrix.TopTail) -> None:
    kept = keep(LAW, ALPHA, "top-k", 2, tail, None)
    assert kept.table is not None
    assert kept.neighbours is not None
    assert kept.masses is not None
    for y in range(V):
        best = sorted(range(V), key=lambda v: -float(similar[y, v]))[:2]
        total = sum(float(similar[y, v]) for v in best)
        assert kept.masses[y].item() == pytest.approx(1 - total)
        given = dict(zip(kept.neighbours[y].tolist(), kept.table[y].tolist(), strict=True))
        share = total if tail == "renormalise" else 1.0
        positive = {v: float(similar[y, v]) / share for v in best if similar[y, v] > 0}
        assert {v: mass for v, mass in given.items() if mass > 0} == pytest.approx(positive)


@pytest.mark.parametrize(("limit", "expected"), [(V, True), (V - 1, False)], ids=["within", "beyond"])
def test_a_small_vocabulary_is_stored(limit: int, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_matrix, "STORED_VOCABULARY", limit)
    for stored, kept in ((None, expected), (True, True), (False, False)):
        assert (keep(LAW, ALPHA, "dense", None, "renormalise", stored).table is not None) is kept


def forms(similar: Tensor) -> list[TokenMatrix]:
    every = torch.arange(V).expand(V, V)
    return [LAW, DenseTable(F.pad(similar, (0, 1)), similar.sum(-1), columns=V), SparseTable(every, similar, V)]


@pytest.mark.parametrize("form", [0, 1, 2], ids=["made", "dense", "sparse"])
@pytest.mark.parametrize(
    ("table", "whole"),
    [
        pytest.param(
            DenseTable.of(torch.arange(3.0 * V, dtype=DOUBLE).view(3, V)),
            torch.arange(3.0 * V, dtype=DOUBLE).view(3, V),
            id="dense",
        ),
        pytest.param(
            SparseTable(torch.tensor([[1, 3], [2, 2]]), torch.tensor([[0.5, 0.2], [1.0, 2.0]], dtype=DOUBLE), V),
            torch.tensor([[0, 0.5, 0, 0.2, 0, 0, 0], [0, 0, 3, 0, 0, 0, 0]], dtype=DOUBLE),
            id="sparse",
        ),
        pytest.param(
            UniformTable(V, (0, 4)), torch.tensor([[0, 0.2, 0.2, 0.2, 0, 0.2, 0.2]], dtype=DOUBLE), id="uniform"
        ),
    ],
)
def test_products(similar: Tensor, table: RowTable, whole: Tensor, form: int) -> None:
    plain, product = multiply(table, forms(similar)[form], VECTORS)
    torch.testing.assert_close(plain, whole)
    expected = [[sum(float(row[y] * similar[y, v]) for y in range(V)) for v in range(V)] for row in whole]
    torch.testing.assert_close(product, torch.tensor(expected, dtype=DOUBLE))


def test_rows_and_draws_are_those_of_their_tokens(similar: Tensor) -> None:
    tokens = torch.tensor([5, 6, 0])
    torch.testing.assert_close(rows_of(LAW, tokens, DOUBLE), similar[tokens])
    drawn = draw_from(LAW, tokens, 4000, DOUBLE, torch.Generator().manual_seed(1))
    assert drawn.shape == (3, 4000)
    assert drawn[1].eq(6).all()
    for place, token in ((0, 5), (2, 0)):
        assert_follows(drawn[place].tolist(), dict(enumerate(similar[token].tolist())))
    assert draw_from(LAW, tokens[:0], 2, DOUBLE, None).shape == (0, 2)
