"""Soft targets against masses added up by loops."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, SparseTable

EMPTY = -100
EXACT = {"rtol": 1e-12, "atol": 1e-12}
TAILS = ["zero", "uniform", "renormalise"]


def doubles(values: list) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def example() -> tuple[ss.SoftTarget, list[list[list[float]]]]:
    """A target of shape (2, 3) over 4 tokens with slots and two tables, and its mass by loops."""
    ids = [[[0, 1], [2, EMPTY], [EMPTY, EMPTY]], [[3, 3], [EMPTY, 1], [EMPTY, EMPTY]]]
    weights = [[[0.5, 0.2], [1.0, 7.0], [7.0, 7.0]], [[0.4, -0.1], [math.nan, 0.0], [7.0, 7.0]]]
    dense = [[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 2.0, 0.0], [0.25, 0.25, 0.25, 0.25]]
    dense_index = [[[0], [1], [-1]], [[2], [-1], [0]]]
    dense_weights = [[[0.5], [-1.0], [7.0]], [[1.0], [7.0], [3.0]]]
    pairs = [[(0, 0.5), (3, 0.5)], [(1, 0.25), (1, 0.5)]]
    sparse_index = [[[0, 1], [-1, -1], [-1, -1]], [[1, 1], [0, -1], [-1, -1]]]
    sparse_weights = [[[1.0, 2.0], [7.0, 7.0], [7.0, 7.0]], [[0.3, 0.2], [1.0, 7.0], [7.0, 7.0]]]
    sparse = SparseTable(
        torch.tensor([[token for token, _ in row] for row in pairs]), doubles([[w for _, w in row] for row in pairs]), 4
    )
    rows = (
        Rows(DenseTable.of(doubles(dense)), torch.tensor(dense_index), doubles(dense_weights)),
        Rows(sparse, torch.tensor(sparse_index), doubles(sparse_weights)),
    )
    mass = [[[0.0] * 4 for _ in range(3)] for _ in range(2)]
    for a, b in itertools.product(range(2), range(3)):
        for token, weight in zip(ids[a][b], weights[a][b], strict=True):
            if token != EMPTY:
                mass[a][b][token] += weight
        for row, weight in zip(dense_index[a][b], dense_weights[a][b], strict=True):
            for v in range(4):
                mass[a][b][v] += weight * dense[row][v] if row >= 0 else 0.0
        for row, weight in zip(sparse_index[a][b], sparse_weights[a][b], strict=True):
            for token, share in pairs[row] if row >= 0 else []:
                mass[a][b][token] += weight * share
    return ss.SoftTarget(torch.tensor(ids), doubles(weights), rows), mass


KEPT = torch.tensor([[True, True, False], [True, True, True]])


def test_dense_is_the_sum_of_the_parts() -> None:
    target, mass = example()
    torch.testing.assert_close(target.dense(4), doubles(mass), **EXACT)


def test_mass_is_the_sum_over_tokens() -> None:
    target, mass = example()
    sums = [[math.fsum(row) for row in item] for item in mass]
    torch.testing.assert_close(target.settle().mass(), doubles(sums).flatten(), **EXACT)


def test_kept_are_positions_with_any_slot_or_row() -> None:
    target, _ = example()
    assert torch.equal(target.kept(), KEPT)
    assert torch.equal(target.flatten().kept(), KEPT.view(-1))


def test_kept_knows_other_empty_ids() -> None:
    target = ss.SoftTarget(torch.tensor([[0, 0], [0, 1], [EMPTY, 0]]), torch.ones(3, 2))
    assert target.kept(ignore_index=0).tolist() == [False, True, True]
    assert target.kept().tolist() == [True, True, True]


def test_where_empties_the_rest() -> None:
    target, mass = example()
    mask = torch.tensor([[True, False, True], [False, True, True]])
    left = target.where(mask)
    assert torch.equal(left.kept(), KEPT & mask)
    torch.testing.assert_close(left.dense(4), doubles(mass) * mask.unsqueeze(-1), **EXACT)
    assert torch.equal(target.kept(), KEPT)


def test_flatten_keeps_the_order() -> None:
    target, mass = example()
    assert target.flatten().shape == (6,)
    torch.testing.assert_close(target.flatten().dense(4), doubles(mass).view(6, 4), **EXACT)


def test_flatten_of_a_single_position() -> None:
    target = ss.SoftTarget(torch.tensor([2, 0]), doubles([0.75, 0.25]))
    assert target.shape == ()
    assert target.flatten().shape == (1,)
    assert target.dense(3).tolist() == [0.25, 0.0, 0.75]


@pytest.mark.parametrize(
    "part", [slice(0, 1), slice(1, None), slice(5, 9), slice(None, None, 2), 1, torch.tensor([1, 0, 0])], ids=str
)
def test_some_of_the_positions(part: slice | int | Tensor) -> None:
    target, mass = example()
    torch.testing.assert_close(target[part].dense(4), doubles(mass)[part], **EXACT)
    assert target[part].shape == torch.zeros(2, 3)[part].shape


def test_settled_targets_are_safe_to_index() -> None:
    target, mass = example()
    settled = target.settle()
    assert settled.ids.min() >= 0
    assert all(row.index.min() >= 0 for row in settled.rows)
    assert bool(settled.weights.isfinite().all())
    torch.testing.assert_close(settled.dense(4), doubles(mass).flatten(0, -2), **EXACT)


def test_labels() -> None:
    labels = torch.tensor([[2, 0, EMPTY], [1, EMPTY, 2]], dtype=torch.int32)
    target = ss.SoftTarget.from_labels(labels, dtype=torch.float64)
    assert target.shape == (2, 3)
    assert target.ids.dtype == torch.int64
    assert target.weights.dtype == torch.float64
    assert torch.equal(target.kept(), labels != EMPTY)
    expected = [[[float(v == label) for v in range(3)] for label in row] for row in labels.tolist()]
    assert target.dense(3).tolist() == expected
    assert ss.SoftTarget.from_labels(labels).weights.dtype == torch.float32


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3), (0, 3), (2, 0, 3), (4, 1)])
def test_dense_targets_come_back(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = ss.SoftTarget.from_dense(values)
    assert target.shape == shape[:-1]
    torch.testing.assert_close(target.dense(shape[-1]), values, **EXACT)
    torch.testing.assert_close(target.settle().mass(), values.sum(-1).flatten(), **EXACT)
    assert bool(target.kept().all())


def top_k_by_loops(ids: list[int], logprobs: list[float], tail: str, size: int) -> list[float]:
    listed = {token: math.exp(log) for token, log in zip(ids, logprobs, strict=True) if log > -math.inf}
    total = math.fsum(listed.values())
    if not listed:
        return [0.0] * size
    if tail == "renormalise":
        listed = {token: share / total for token, share in listed.items()}
    others = size - len(listed)
    rest = max(1 - total, 0.0) / others if tail == "uniform" and others else 0.0
    return [listed.get(token, rest) for token in range(size)]


IDS = [[4, 1, 0], [2, -1, -1], [3, EMPTY, 5], [10**9, -7, EMPTY], [0, 5, 2]]
LOGPROBS = [
    [math.log(0.5), math.log(0.2), math.log(0.1)],
    [math.log(0.9), -math.inf, -math.inf],
    [math.log(0.4), -math.inf, math.log(0.4)],
    [-math.inf, -math.inf, -math.inf],
    [math.log(0.6), math.log(0.3), math.log(0.1)],
]


@pytest.mark.parametrize("tail", TAILS)
def test_top_k_with_padding(tail: str) -> None:
    target = ss.SoftTarget.from_topk(torch.tensor(IDS), doubles(LOGPROBS), tail=tail, vocab_size=6)
    expected = doubles([top_k_by_loops(ids, logs, tail, 6) for ids, logs in zip(IDS, LOGPROBS, strict=True)])
    torch.testing.assert_close(target.dense(6), expected, **EXACT)
    totals = [0.8, 0.9, 0.8, 0.0, 1.0] if tail == "zero" else [1.0, 1.0, 1.0, 0.0, 1.0]
    torch.testing.assert_close(target.settle().mass(), doubles(totals), **EXACT)
    assert target.kept().tolist() == [True, True, True, False, True]
    assert bool(target.weights.isfinite().all())
    logits = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    loss = ss.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(loss, F.cross_entropy(logits, expected, reduction="none"), **EXACT)
    mean = ss.cross_entropy(logits, target)
    torch.testing.assert_close(mean, F.cross_entropy(logits, expected, reduction="sum") / 4, **EXACT)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_top_k_of_any_shape(shape: tuple[int, ...], tail: str) -> None:
    logs = torch.randn(*shape, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).log_softmax(-1)
    best = logs.topk(2, -1)
    target = ss.SoftTarget.from_topk(best.indices, best.values, tail=tail, vocab_size=6)
    assert target.shape == shape
    flat = zip(best.indices.reshape(-1, 2).tolist(), best.values.reshape(-1, 2).tolist(), strict=True)
    expected = doubles([top_k_by_loops(ids, values, tail, 6) for ids, values in flat]).reshape(*shape, 6)
    torch.testing.assert_close(target.dense(6), expected, **EXACT)


@pytest.mark.parametrize("tail", TAILS)
def test_top_k_of_everything(tail: str) -> None:
    logs = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).log_softmax(-1)
    ids = torch.arange(4).expand(3, 4)
    target = ss.SoftTarget.from_topk(ids, logs, tail=tail, vocab_size=4)
    torch.testing.assert_close(target.dense(4), logs.exp(), **EXACT)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("tail", TAILS)
def test_top_k_of_tiny_vocabularies(tail: str, size: int) -> None:
    ids, logs = [[0], [size - 1]], [[math.log(0.25)], [0.0]]
    target = ss.SoftTarget.from_topk(torch.tensor(ids), doubles(logs), tail=tail, vocab_size=size)
    expected = [top_k_by_loops(row, values, tail, size) for row, values in zip(ids, logs, strict=True)]
    torch.testing.assert_close(target.dense(size), doubles(expected), **EXACT)


@pytest.mark.parametrize("tail", TAILS)
def test_top_k_of_nothing(tail: str) -> None:
    empty = torch.zeros(2, 0)
    target = ss.SoftTarget.from_topk(empty.long(), empty, tail=tail, vocab_size=5)
    assert target.shape == (2,)
    assert target.kept().tolist() == [False, False]
    assert torch.equal(target.dense(5), torch.zeros(2, 5))
    none = ss.SoftTarget.from_topk(torch.zeros(0, 3).long(), torch.zeros(0, 3), tail=tail, vocab_size=5)
    assert none.dense(5).shape == (0, 5)


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        ((0,), [0.0, 0.5, 0.3, 0.1, 0.1]),
        ((0, 0), [0.0, 0.5, 0.3, 0.1, 0.1]),  # named twice, it is left out once
        ((1,), [0.2 / 3, 0.5, 0.3, 0.2 / 3, 0.2 / 3]),  # listed, it keeps what the teacher gives it
        ((1, 2, 3, 4), [0.2, 0.5, 0.3, 0.0, 0.0]),
        ((0, 1, 2, 3, 4), [0.0, 0.5, 0.3, 0.0, 0.0]),
    ],
)
def test_the_tail_leaves_tokens_out(excluded: tuple[int, ...], expected: list[float]) -> None:
    logs = doubles([[math.log(0.5), math.log(0.3), -math.inf]])
    ids = torch.tensor([[1, 2, 1]])
    target = ss.SoftTarget.from_topk(ids, logs, tail="uniform", vocab_size=5, excluded=excluded)
    torch.testing.assert_close(target.dense(5), doubles([expected]), **EXACT)


def test_rounding_above_one_leaves_no_tail() -> None:
    logs = doubles([[math.log(0.6), math.log(0.4 + 1e-5)]])
    target = ss.SoftTarget.from_topk(torch.tensor([[1, 3]]), logs, tail="uniform", vocab_size=4)
    torch.testing.assert_close(target.dense(4), doubles([[0.0, 0.6, 0.0, 0.4 + 1e-5]]), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("tail", TAILS)
def test_top_k_is_widened(tail: str, dtype: torch.dtype) -> None:
    logs = doubles([[math.log(0.5), math.log(0.07)]]).to(dtype)
    target = ss.SoftTarget.from_topk(torch.tensor([[1, 3]]), logs, tail=tail, vocab_size=4)
    assert target.weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    expected = top_k_by_loops([1, 3], logs[0].tolist(), tail, 4)
    near = 1e-12 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(target.dense(4).double(), doubles([expected]), rtol=near, atol=near)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_top_k_ids_of_any_whole_type(dtype: torch.dtype) -> None:
    target = ss.SoftTarget.from_topk(torch.tensor([[1, 3]]).to(dtype), doubles([[math.log(0.5), -math.inf]]))
    assert target.dense(4).tolist() == [[0.0, 0.5, 0.0, 0.0]]


def test_no_positions_and_no_slots() -> None:
    none = ss.SoftTarget(torch.zeros(0, 2, dtype=torch.long), torch.zeros(0, 2))
    assert none.dense(3).shape == (0, 3)
    assert none.kept().shape == (0,)
    bare = ss.SoftTarget(torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 0))
    assert bare.kept().tolist() == [False, False]
    assert torch.equal(bare.dense(3), torch.zeros(2, 3))
    assert torch.equal(bare.settle().mass(), torch.zeros(2))


def test_targets_cannot_be_changed() -> None:
    target, _ = example()
    with pytest.raises(AttributeError):
        target.ids = torch.zeros(1, dtype=torch.long)  # type: ignore[misc]


@settings(max_examples=50, deadline=None)
@given(st.data(), st.sampled_from(TAILS))
def test_any_top_k_is_that_of_loops(data: st.DataObject, tail: str) -> None:
    size = data.draw(st.integers(1, 6))
    listed = data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=size))
    parts = data.draw(st.lists(st.floats(1e-6, 1), min_size=len(listed) + 1, max_size=len(listed) + 1))
    pads = data.draw(st.lists(st.integers(-200, 200), max_size=3))
    logs = [math.log(part / math.fsum(parts)) for part in parts[1:]]
    pairs = data.draw(st.permutations([*zip(listed, logs, strict=True), *((pad, -math.inf) for pad in pads)]))
    ids, logs = [token for token, _ in pairs], [log for _, log in pairs]
    target = ss.SoftTarget.from_topk(torch.tensor(ids).long(), doubles(logs), tail=tail, vocab_size=size)
    torch.testing.assert_close(target.dense(size), doubles(top_k_by_loops(ids, logs, tail, size)), **EXACT)
