"""The matrix of a similarity law, kept, multiplied and drawn from in pieces, against loops over all its entries."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from oracles.chi_square import assert_follows
from seqsmooth.ops import similarity
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.tables import DenseTable, RowTable, SparseTable, UniformTable
from seqsmooth.smoothing import token_matrix
from seqsmooth.smoothing.row_store import RowStore
from seqsmooth.smoothing.token_matrix import KeptMatrix, TokenMatrix, draw_from, keep, multiply, sum_rows

V, TAU, ALPHA, DOUBLE = 7, 0.4, 0.6, torch.float64
VECTORS = F.normalize(torch.randn(V, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)), dim=-1)
LAW = SimilarityTable(VECTORS, torch.tensor([True] * 6 + [False]), TAU)


@pytest.fixture(autouse=True)
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tokens at a time, of seven."""
    monkeypatch.setattr(token_matrix, "CHUNK_ROWS", 3)
    monkeypatch.setattr(similarity, "LEAST_ROWS", 3)
    monkeypatch.setattr(similarity, "CACHED_ELEMENTS", 1)


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
    for stored, in_full, by_and_by in (
        (None, expected, not expected),
        (True, True, False),
        (False, False, False),
    ):
        kept = keep(LAW, ALPHA, "dense", None, "renormalise", stored)
        assert (kept.table is not None, kept.store is not None) == (in_full, by_and_by)


def forms(similar: Tensor) -> list[tuple[KeptMatrix, TokenMatrix]]:
    every = torch.arange(V).expand(V, V)
    nothing = KeptMatrix(LAW)
    return [
        (nothing, LAW),
        (KeptMatrix(LAW, store=RowStore(4 * 16 * 8)), LAW),  # three rows, and one of zeros
        (KeptMatrix(LAW, store=RowStore(2**20)), LAW),
        (nothing, DenseTable(F.pad(similar, (0, 1)), similar.sum(-1), columns=V)),
        (nothing, SparseTable(every, similar, V)),
    ]


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("form", range(5), ids=["made", "three stored", "stored", "dense", "sparse"])
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
def test_products(similar: Tensor, table: RowTable, whole: Tensor, form: int, share: float) -> None:
    product = multiply(table, *forms(similar)[form], share, VECTORS)
    matrix = (1 - share) * torch.eye(V, dtype=DOUBLE) + share * similar
    expected = [[sum(float(row[y] * matrix[y, v]) for y in range(V)) for v in range(V)] for row in whole]
    torch.testing.assert_close(product, torch.tensor(expected, dtype=DOUBLE))


@pytest.mark.parametrize("form", range(5), ids=["made", "three stored", "stored", "dense", "sparse"])
def test_rows_are_those_of_their_tokens(similar: Tensor, form: int) -> None:
    tokens, weights = torch.tensor([[5, 6], [0, -1], [1, 5]]), torch.tensor([[0.5, 2], [1, 4], [-1, 1]], dtype=DOUBLE)
    expected = torch.stack([0.5 * similar[5] + 2 * similar[6], similar[0], similar[5] - similar[1]])
    kept, matrix = forms(similar)[form]
    for _ in range(2):
        torch.testing.assert_close(sum_rows(kept.rows(matrix, tokens, weights)), expected)


@pytest.mark.parametrize("form", range(5), ids=["made", "three stored", "stored", "dense", "sparse"])
def test_draws_are_those_of_their_tokens(similar: Tensor, form: int) -> None:
    tokens = torch.tensor([5, 6, 0, 5])
    kept, matrix = forms(similar)[form]
    drawn = draw_from(kept, matrix, tokens, 4000, DOUBLE, torch.Generator().manual_seed(1))
    assert drawn.shape == (4, 4000)
    assert drawn[1].eq(6).all()
    for place, token in ((0, 5), (2, 0), (3, 5)):
        assert_follows(drawn[place].tolist(), dict(enumerate(similar[token].tolist())))
    assert not torch.equal(drawn[0], drawn[3])
    assert draw_from(kept, matrix, tokens[:0], 2, DOUBLE, None).shape == (0, 2)


def test_a_table_that_takes_long_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    with caplog.at_level("INFO", logger="seqsmooth"):
        keep(LAW, ALPHA, "top-k", 2, "zero", None)
        assert not caplog.messages
        monkeypatch.setattr(token_matrix, "QUIET_SECONDS", 0.0)
        keep(LAW, ALPHA, "top-k", 2, "zero", None)
    assert caplog.messages == [f"similarity of 7 tokens, the 2 nearest of each: {share} %" for share in (42, 85, 100)]
