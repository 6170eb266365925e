"""Tables against their rows written out."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.ops import similarity, tables
from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.tables import DenseTable, RowTable, SetTable, SparseTable, UniformTable, masked_dot

V = 6
EXACT = {"rtol": 1e-12, "atol": 1e-12}
VECTORS = [[1.0, 0.0, 2.0], [0.5, 1.0, -1.0], [-1.0, 0.2, 0.3], [0.1, 0.1, 0.9], [2.0, 2.0, 1.0], [-0.5, 1.0, 0.0]]
COUNTS = [5.0, 0.0, 100.0, 0.0, 20.0, 1.0]
UNITS = F.normalize(torch.tensor(VECTORS, dtype=torch.float64), dim=-1)
ALL = torch.ones(V, dtype=torch.bool)


def doubles(values: list) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def cosine(a: list[float], b: list[float]) -> float:
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))


def ratio(f: float, g: float) -> float:
    if f == g:
        return 1.0
    return 0.0 if min(f, g) == 0 else min(f / g, g / f)


def law(token: int, tau: float, beta: float = 0.0, known: tuple[int, ...] = tuple(range(V))) -> list[float]:
    """Eq. 13 and 14 by loops; a token without an embedding is left alone."""
    if token not in known:
        return [float(v == token) for v in range(V)]
    rewards = {v: cosine(VECTORS[v], VECTORS[token]) - beta * ratio(COUNTS[v], COUNTS[token]) for v in known}
    best = max(rewards.values())
    scores = {v: math.exp((reward - best) / tau) for v, reward in rewards.items()}
    return [scores.get(v, 0.0) / math.fsum(scores.values()) for v in range(V)]


def mask(known: tuple[int, ...]) -> Tensor:
    return torch.tensor([v in known for v in range(V)])


DENSE = [[0.1, 0.2, 0.3, 0.4, 0.0, 0.0], [0.0, 1.5, -0.5, 0.0, 0.0, 0.2], [0.0] * V]
SPARSE_IDS, SPARSE_WEIGHTS = [[0, 3, 3], [5, 1, 0], [2, 2, 2]], [[0.5, 0.25, 0.25], [0.9, 0.3, 0.0], [0.1, -0.1, 0.3]]


def sparse_rows() -> list[list[float]]:
    full = [[0.0] * V for _ in SPARSE_IDS]
    for row, ids, weights in zip(full, SPARSE_IDS, SPARSE_WEIGHTS, strict=True):
        for token, weight in zip(ids, weights, strict=True):
            row[token] += weight
    return full


TABLES: dict[str, tuple[Callable[[], RowTable], list[list[float]]]] = {
    "dense": (lambda: DenseTable.of(doubles(DENSE)), DENSE),
    "sparse": (lambda: SparseTable(torch.tensor(SPARSE_IDS), doubles(SPARSE_WEIGHTS), V), sparse_rows()),
    "sets": (
        lambda: SetTable(torch.tensor([[0b101001], [0b10], [0]], dtype=torch.uint8), doubles([3, 1, 0]), V),
        [[1.0, 0, 0, 1, 0, 1], [0.0, 1, 0, 0, 0, 0], [0.0] * V],
    ),
    "similarity": (lambda: SimilarityTable(UNITS, ALL, 0.5), [law(token, 0.5) for token in range(V)]),
    "r^freq": (
        lambda: SimilarityTable(UNITS, mask((0, 1, 2, 3)), 0.5, 0.7, doubles(COUNTS)),
        [law(token, 0.5, 0.7, (0, 1, 2, 3)) for token in range(V)],
    ),
}
INDEX = [[0, 1], [2, 2], [1, 0], [2, 0]]
WEIGHTS = [[0.5, 2.0], [1.0, -0.25], [0.0, 1.0], [0.0, 0.0]]


def summed(rows: list[list[float]], index: list[list[int]], weights: list[list[float]]) -> list[list[float]]:
    return [
        [math.fsum(w * rows[j][v] for j, w in zip(js, ws, strict=True)) for v in range(V)]
        for js, ws in zip(index, weights, strict=True)
    ]


@pytest.mark.parametrize("kind", TABLES)
def test_combine_is_a_weighted_sum_of_rows(kind: str) -> None:
    table, rows = TABLES[kind][0](), TABLES[kind][1]
    assert table.vocab_size == V
    assert table.size == len(rows)
    expected = doubles(summed(rows, INDEX, WEIGHTS))
    torch.testing.assert_close(table.combine(torch.tensor(INDEX), doubles(WEIGHTS)), expected, **EXACT)


def test_rows_that_weigh_nothing_are_not_read() -> None:
    table = DenseTable.of(doubles([[1.0, 2.0], [math.nan, math.inf], [3.0, 5.0]]))
    total = table.combine(torch.tensor([[1, 0, 2], [1, 1, 1], [2, 1, 2]]), doubles([[0, 2, 1], [0, 0, 0], [1, 0, -1]]))
    assert total.tolist() == [[5.0, 9.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("kind", TABLES)
def test_mass_is_the_sum_of_a_row(kind: str) -> None:
    table, rows = TABLES[kind][0](), TABLES[kind][1]
    expected = doubles([[math.fsum(rows[j]) for j in js] for js in INDEX])
    torch.testing.assert_close(table.mass(torch.tensor(INDEX)), expected, **EXACT)


@pytest.mark.parametrize("kind", TABLES)
def test_dot_is_an_inner_product(kind: str) -> None:
    table, rows = TABLES[kind][0](), TABLES[kind][1]
    logits = torch.randn(len(INDEX), V, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    full = summed(rows, INDEX, WEIGHTS)
    expected = [math.fsum(a * b for a, b in zip(q, z, strict=True)) for q, z in zip(full, logits.tolist(), strict=True)]
    torch.testing.assert_close(table.dot(logits, torch.tensor(INDEX), doubles(WEIGHTS)), doubles(expected), **EXACT)


@pytest.mark.parametrize("kind", TABLES)
def test_no_positions(kind: str) -> None:
    table = TABLES[kind][0]()
    index, weights = torch.zeros(0, 2, dtype=torch.long), torch.zeros(0, 2, dtype=torch.float64)
    assert table.combine(index, weights).shape == (0, V)
    assert table.mass(index).shape == (0, 2)
    assert table.dot(torch.zeros(0, V, dtype=torch.float64), index, weights).shape == (0,)


@pytest.mark.parametrize("kind", TABLES)
def test_no_rows_a_position(kind: str) -> None:
    table = TABLES[kind][0]()
    index, weights = torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 0, dtype=torch.float64)
    assert torch.equal(table.combine(index, weights), torch.zeros(2, V, dtype=torch.float64))
    assert table.mass(index).shape == (2, 0)
    assert torch.equal(table.dot(torch.ones(2, V, dtype=torch.float64), index, weights), weights.new_zeros(2))


def test_a_set() -> None:
    """Of tokens 0, 3, 7, 8 and 10, eight bits a byte; a token that is not in it may have a logit of minus infinity."""
    table = SetTable(torch.tensor([[0b10001001, 0b101]], dtype=torch.uint8), torch.tensor([5.0]), 11)
    row = [1.0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1]
    index, weights = torch.zeros(3, 2, dtype=torch.long), doubles([[1.0, 2.0], [0.5, -0.5], [0.0, 0.25]])
    torch.testing.assert_close(table.combine(index, weights), weights.sum(-1, keepdim=True) * doubles(row), **EXACT)
    assert table.size == 1
    assert table.mass(index).tolist() == [[sum(row)] * 2] * 3
    logits = torch.arange(33, dtype=torch.float64).view(3, 11)
    logits[:, 1] = -math.inf
    inside = [sum(zs[token] for token in (0, 3, 7, 8, 10)) for zs in logits.tolist()]
    expected = [sum(ws) * total for ws, total in zip(weights.tolist(), inside, strict=True)]
    torch.testing.assert_close(table.dot(logits, index, weights), doubles(expected), **EXACT)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 64, 1000])
def test_sets_from_lists(size: int) -> None:
    """The last token is in the first set; an id that is not used is whatever fills up a list."""
    ids = torch.tensor([[size - 1, size // 2, 2**62], [0, -100, 2**62], [2**62, -1, 5]])
    used = torch.tensor([[True, size > 1, False], [True, False, False], [False, False, False]])
    table = SetTable.of(ids, used, size)
    expected = torch.zeros(3, size)
    expected[0, [size - 1, size // 2]] = 1
    expected[1, 0] = 1
    assert torch.equal(table.written(expected).values, expected)
    assert table.masses.tolist() == expected.sum(1).tolist()
    assert table.bits.shape == (3, -(-size // 8))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_table_of_one_row(kind: str) -> None:
    row = [0.5, 0.0, 0.25, 0.0, -0.5, 1.0]
    dense = DenseTable.of(doubles([row]))
    table = dense if kind == "dense" else SparseTable(torch.arange(V).view(1, V), doubles([row]), V)
    index, weights = torch.zeros(3, 2, dtype=torch.long), doubles([[1.0, 2.0], [0.5, -0.5], [0.0, 0.25]])
    logits = torch.randn(3, V, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    logits[:, 1] = -math.inf
    expected = [
        sum(w) * math.fsum(q * z for q, z in zip(row, zs, strict=True) if q)
        for w, zs in zip(weights.tolist(), logits.tolist(), strict=True)
    ]
    torch.testing.assert_close(table.dot(logits, index, weights), doubles(expected), **EXACT)
    assert table.mass(index).tolist() == [[1.25, 1.25]] * 3


def test_sparse_rows_as_slots() -> None:
    table = SparseTable(torch.tensor(SPARSE_IDS), doubles(SPARSE_WEIGHTS), V)
    ids, slots = table.gather(torch.tensor(INDEX), doubles(WEIGHTS))
    assert ids.shape == slots.shape == (len(INDEX), 6)
    full = torch.zeros(len(INDEX), V, dtype=torch.float64).scatter_add(-1, ids, slots)
    torch.testing.assert_close(full, doubles(summed(sparse_rows(), INDEX, WEIGHTS)), **EXACT)


def test_sparse_rows_over_any_vocabulary() -> None:
    table = SparseTable(torch.tensor(SPARSE_IDS), doubles(SPARSE_WEIGHTS), None)
    index, weights = torch.tensor(INDEX), doubles(WEIGHTS)
    logits = torch.randn(len(INDEX), V + 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    expected = (doubles(summed(sparse_rows(), INDEX, WEIGHTS)) * logits[:, :V]).sum(-1)
    torch.testing.assert_close(table.dot(logits, index, weights), expected, **EXACT)
    with pytest.raises(ValueError, match=r"^`vocab_size` must be known where rows are written out in full; it is None"):
        table.combine(index, weights)


@pytest.mark.parametrize("silent", [-math.inf, math.inf, math.nan])
def test_a_weight_of_zero_silences_its_logit(silent: float) -> None:
    logits = doubles([2.0, silent, 3.0]).requires_grad_()
    product = masked_dot(doubles([0.5, 0.0, -1.0]), logits)
    assert product.item() == -2.0
    (gradient,) = torch.autograd.grad(product, logits)
    assert gradient.tolist() == [0.5, 0.0, -1.0]


@pytest.mark.parametrize("excluded", [(), (0,), (1, 4), (0, 1, 2, 3, 4)])
def test_uniform_over_the_rest(excluded: tuple[int, ...]) -> None:
    table = UniformTable(V, excluded)
    row = [0.0 if v in excluded else 1 / (V - len(excluded)) for v in range(V)]
    zero = torch.zeros(1, 1, dtype=torch.long)
    torch.testing.assert_close(table.combine(zero, doubles([[1.0]])), doubles([row]), **EXACT)
    assert table.mass(zero).tolist() == [[1.0]]
    logits = torch.linspace(-1, 2, V, dtype=torch.float64).unsqueeze(0)
    expected = 3 * math.fsum(r * z for r, z in zip(row, logits[0].tolist(), strict=True))
    torch.testing.assert_close(table.dot(logits, zero, doubles([[3.0]])), doubles([expected]), **EXACT)
    assert not table.mixed


def test_uniform_over_nothing_is_empty() -> None:
    table = UniformTable(2, (0, 1))
    zero = torch.zeros(1, 1, dtype=torch.long)
    assert table.row(doubles([])).tolist() == [0.0, 0.0]
    assert table.mass(zero).tolist() == [[0.0]]


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("tau", [0.05, 0.5, 7.0])
@pytest.mark.parametrize("known", [tuple(range(V)), (0, 2, 3, 5), (4,), ()], ids=str)
def test_similarity_by_loops(known: tuple[int, ...], tau: float, beta: float) -> None:
    table = SimilarityTable(UNITS, mask(known), tau, beta, doubles(COUNTS))
    expected = doubles([law(token, tau, beta, known) for token in range(V)])
    torch.testing.assert_close(table.rows(torch.arange(V)), expected, **EXACT)


def test_counts_do_nothing_without_beta() -> None:
    tokens = torch.tensor([3, 0, 3])
    plain = SimilarityTable(UNITS, ALL, 0.5).rows(tokens)
    assert torch.equal(SimilarityTable(UNITS, ALL, 0.5, 0.0, doubles(COUNTS)).rows(tokens), plain)


@pytest.mark.parametrize(("elements", "columns"), [(1, 1), (4 * V, 1), (8 * V, 2), (100 * V, 3)])
def test_rows_are_summed_a_few_at_a_time(elements: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = TABLES["r^freq"][0](), TABLES["r^freq"][1]
    index, weights = [[0, 1, 5], [2, 2, 3], [1, 0, 0], [4, 4, 4]], [[0.5, 2.0, 1], [1, -0.25, 3], [0, 1, 1], [1, 2, -3]]
    at_once: list[int] = []
    compute = SimilarityTable.rows

    def counted(self: SimilarityTable, tokens: Tensor) -> Tensor:
        at_once.append(len(tokens))
        return compute(self, tokens)

    monkeypatch.setattr(similarity, "ROW_ELEMENTS", elements)
    monkeypatch.setattr(SimilarityTable, "rows", counted)
    learned = doubles(weights).requires_grad_()
    total = table.combine(torch.tensor(index), learned)
    torch.testing.assert_close(total, doubles(summed(rows, index, weights)), **EXACT)
    assert max(at_once) == 4 * columns
    total[2].sum().backward()
    assert learned.grad is not None
    torch.testing.assert_close(learned.grad, doubles([[0.0] * 3, [0.0] * 3, [1.0] * 3, [0.0] * 3]))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("least", [1, 2, 64])
def test_each_row_is_computed_once_on_a_cpu(least: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that weigh nothing are not computed."""
    table, rows = TABLES["r^freq"][0](), TABLES["r^freq"][1]
    index, weights = [[0, 1, 5], [2, 2, 3], [1, 0, 0], [4, 4, 4]], [[0.5, 2.0, 1], [1, -0.25, 0], [0, 1, 1], [1, 2, -3]]
    index, weights = [row[:columns] for row in index], [row[:columns] for row in weights]
    computed: list[int] = []
    compute = SimilarityTable.law

    def counted(self: SimilarityTable, reward: Tensor, tokens: Tensor, memory: Tensor | None = None) -> Tensor:
        computed.extend(tokens.tolist())
        return compute(self, reward, tokens, memory)

    monkeypatch.setattr(similarity, "LEAST_ROWS", least)
    monkeypatch.setattr(similarity, "CACHED_ELEMENTS", 1)
    monkeypatch.setattr(SimilarityTable, "law", counted)
    expected = doubles(summed(rows, index, weights))
    torch.testing.assert_close(table.combine(torch.tensor(index), doubles(weights)), expected, **EXACT)
    assert computed == ([0, 2, 4] if columns == 1 else [0, 1, 2, 4, 5])


@given(data=st.data())
def test_rows_made_in_blocks(data: st.DataObject) -> None:
    """In fp32, some rows at a time, against loops in double precision."""
    size, width = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    numbers = st.floats(-1, 1, width=32).filter(lambda value: value == 0 or abs(value) > 1e-3)
    vectors = [data.draw(st.lists(numbers, min_size=width, max_size=width)) for _ in range(size)]
    known = [any(vector) and data.draw(st.booleans()) for vector in vectors]
    counts = data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0, 1e6]), min_size=size, max_size=size))
    tau, beta = data.draw(st.sampled_from([0.1, 0.5, 10.0])), data.draw(st.sampled_from([0.0, 0.5, 3.0]))
    tokens = data.draw(st.lists(st.integers(0, size - 1), max_size=20))
    units = F.normalize(torch.tensor(vectors).view(size, width), dim=-1)
    table = SimilarityTable(units, torch.tensor(known), tau, beta, torch.tensor(counts))
    at_once = data.draw(st.integers(1, 8))
    blocks = [(part, rows.clone()) for part, rows in table.blocks(torch.tensor(tokens, dtype=torch.long), at_once)]
    assert [part.start for part, _ in blocks] == list(range(0, len(tokens), at_once))
    listed = torch.cat([torch.zeros(0, size), *[rows for _, rows in blocks]])
    assert listed.shape == (len(tokens), size)
    for token, row in zip(tokens, listed.tolist(), strict=True):
        expected = [float(v == token) for v in range(size)]
        if known[token]:
            scores = [
                math.exp((cosine(vectors[v], vectors[token]) - beta * ratio(counts[v], counts[token])) / tau)
                if known[v]
                else 0.0
                for v in range(size)
            ]
            expected = [score / math.fsum(scores) for score in scores]
        assert row == pytest.approx(expected, rel=3e-5, abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [V, None], ids=["padded", "whole"])
@pytest.mark.parametrize("positions", [0, 3])
def test_rows_in_half_precision_are_summed_in_full(
    positions: int, columns: int | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "WIDENED", 1)
    monkeypatch.setattr(tables, "LEAST_COLUMNS", 4)
    values = torch.tensor(DENSE, dtype=dtype)
    table = DenseTable(F.pad(values, (0, 2)) if columns else values, widen(values).sum(-1), columns=columns)
    index, weights = (
        torch.tensor(INDEX[:positions], dtype=torch.long).view(-1, 2),
        doubles(WEIGHTS[:positions]).float().view(-1, 2),
    )
    expected = doubles(summed(values.tolist(), INDEX[:positions], WEIGHTS[:positions])).float().view(-1, V)
    torch.testing.assert_close(table.combine(index, weights), expected, rtol=1e-6, atol=1e-7)
    learned = weights.clone().requires_grad_()
    torch.testing.assert_close(table.combine(index, learned), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("known", [(0, 1, 2, 3, 4, 5), (0, 2, 3)], ids=str)
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize(("dtype", "tau"), [(torch.float32, 1e-39), (torch.float64, 1e-309)])
def test_a_small_temperature_takes_the_best(
    dtype: torch.dtype, tau: float, beta: float, known: tuple[int, ...]
) -> None:
    rows = SimilarityTable(UNITS.to(dtype), mask(known), tau, beta, doubles(COUNTS).to(dtype)).rows(torch.arange(V))
    expected = doubles([law(token, tau, beta, known) for token in range(V)]).to(dtype)
    assert expected.max(-1).values.tolist() == [1.0] * V
    torch.testing.assert_close(rows, expected, rtol=0, atol=0)


@pytest.mark.parametrize("known", [(0, 1, 2, 3, 4, 5), (0, 2, 3)], ids=str)
@pytest.mark.parametrize("tau", [1e30, math.inf])
def test_a_large_temperature_is_uniform(tau: float, known: tuple[int, ...]) -> None:
    rows = SimilarityTable(UNITS, mask(known), tau).rows(torch.arange(V))
    flat = [1 / len(known) if v in known else 0.0 for v in range(V)]
    expected = [flat if token in known else [float(v == token) for v in range(V)] for token in range(V)]
    torch.testing.assert_close(rows, doubles(expected), **EXACT)


def test_mixed_precision_leaves_the_law_alone() -> None:
    table = SimilarityTable(UNITS.float(), ALL, 0.05)
    index, ones = torch.arange(V).view(V, 1), torch.ones(V, 1)
    expected = table.combine(index, ones)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(table.combine(index, ones), expected)
