"""Draws against their laws. Every chi-square test here has a false-alarm rate of 1e-4, with a fixed generator."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from oracles.chi_square import assert_follows
from seqsmooth.ops import sampling
from seqsmooth.ops.sampling import categorical, uniforms

DRAWS = 20_000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


ROWS = {
    "flat": [1.0] * 8,
    "skewed": [0.5, 0.25, 0.125, 0.0625, 0.0625],
    "unnormalised": [3.0, 4.0, 13.0],
    "zeros inside": [0.0, 0.3, 0.0, 0.0, 0.6, 0.1, 0.0],
    "zeros first": [0.0, 0.0, 0.5, 0.5],
    "tiny total": [1e-30, 3e-30],
    "wide range": [1e-12, 1.0, 1.0, 1e-12],
    "long": [0.0] * 20 + [1.0] * 11 + [0.0] * 33 + [0.5, 0.0, 2.0],
    "long and sloping": [1 / (token + 1) for token in range(50)],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ROWS)
def test_draws_follow_their_row(name: str, dtype: torch.dtype) -> None:
    row = ROWS[name]
    law = {token: weight / math.fsum(row) for token, weight in enumerate(row)}
    drawn = categorical(torch.tensor([row], dtype=dtype), DRAWS, seeded())
    assert drawn.shape == (1, DRAWS)
    assert drawn.dtype == torch.int64
    assert_follows(drawn[0].tolist(), law)


def test_rows_are_drawn_apart() -> None:
    rows = torch.tensor([[0.2, 0.8, 0.0], [0.0, 0.1, 0.9], [0.5, 0.0, 0.5]], dtype=torch.float64)
    drawn = categorical(rows, DRAWS, seeded(1))
    law = {(a, b, c): float(rows[0, a] * rows[1, b] * rows[2, c]) for a in range(3) for b in range(3) for c in range(3)}
    assert_follows([tuple(column) for column in drawn.T.tolist()], law)


def test_draws_of_a_row_are_independent() -> None:
    row = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    pairs = categorical(row.expand(DRAWS, 3), 2, seeded(2))
    law = {(a, b): float(row[0, a] * row[0, b]) for a in range(3) for b in range(3)}
    assert_follows([tuple(pair) for pair in pairs.tolist()], law)


def test_a_row_may_be_asked_for_again() -> None:
    rows = torch.tensor([[0.2, 0.8, 0.0], [0.0, 0.1, 0.9]], dtype=torch.float64)
    drawn = categorical(rows, DRAWS, seeded(3), torch.tensor([1, 0, 1]))
    law = {(a, b, c): float(rows[1, a] * rows[0, b] * rows[1, c]) for a in range(3) for b in range(3) for c in range(3)}
    assert_follows([tuple(column) for column in drawn.T.tolist()], law)


@pytest.mark.parametrize("point", [0.0, 0.5, 1 - 2**-53, 1.0])
@pytest.mark.parametrize(
    "row",
    [
        [0.3, 0.7, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 1e-300],
        [0.1] * 10 + [0.0] * 3,
        [1 / 3, 1 / 3, 1 / 3, 0],
        [0.0] * 17 + [0.1] * 20 + [0.0] * 40,
    ],
    ids=str,
)
def test_no_uniform_draws_a_token_without_mass(row: list[float], point: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def constant(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
        return torch.full(shape, point, dtype=torch.float64)

    monkeypatch.setattr(sampling, "uniforms", constant)
    token = int(categorical(torch.tensor([row], dtype=torch.float64), 1, None))
    assert row[token] > 0
    if point == 0.0:
        assert token == next(v for v, weight in enumerate(row) if weight > 0)
    if point >= 1 - 2**-53:
        assert token == max(v for v, weight in enumerate(row) if weight > 0)


def test_the_cumulative_sums_are_inverted(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.tensor([[0.0, 0.24, 0.25, 0.74, 0.75, 0.99]], dtype=torch.float64)
    monkeypatch.setattr(sampling, "uniforms", lambda shape, like, generator: points.expand(shape))
    drawn = categorical(torch.tensor([[1.0, 2.0, 1.0], [0.0, 0.0, 5.0]], dtype=torch.float64), 6, None)
    assert drawn.tolist() == [[0, 0, 1, 1, 2, 2], [2] * 6]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_large_vocabulary_is_reached_to_its_end(dtype: torch.dtype) -> None:
    drawn = categorical(torch.ones(1, 200_000, dtype=dtype), DRAWS, seeded(3))
    assert_follows((drawn[0] // 20_000).tolist(), {part: 0.1 for part in range(10)})


@pytest.mark.parametrize(("rows", "count"), [(0, 3), (2, 0), (0, 0)])
def test_nothing_to_draw(rows: int, count: int) -> None:
    assert categorical(torch.ones(rows, 4), count, None).shape == (rows, count)


def test_a_row_of_zeros_gives_some_token() -> None:
    drawn = categorical(torch.zeros(2, 5), 3, seeded())
    assert drawn.shape == (2, 3)
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < 5


def test_one_token() -> None:
    assert categorical(torch.tensor([[0.7]]), 4, None).tolist() == [[0, 0, 0, 0]]


def test_the_generator_decides() -> None:
    rows = torch.rand(3, 50, generator=seeded())
    state = torch.get_rng_state()
    first, again, other = (categorical(rows, 20, seeded(seed)) for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_generator_the_global_one_decides() -> None:
    rows = torch.rand(3, 50, generator=seeded())
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first = categorical(rows, 20, None)
        second = categorical(rows, 20, None)
        torch.manual_seed(5)
        assert torch.equal(categorical(rows, 20, None), first)
    assert not torch.equal(first, second)


def test_uniform_numbers_are_fine_and_below_one() -> None:
    points = uniforms((1000, 100), torch.zeros(1), seeded())
    assert points.dtype == torch.float64
    assert points.shape == (1000, 100)
    assert 0 <= float(points.min()) <= float(points.max()) < 1
    # Numbers of 24 bits are multiples of 2**-24; of finer ones hardly any are.
    assert float(((points * 2**24) % 1 == 0).double().mean()) < 0.01
    assert_follows((points.flatten() * 20).long().tolist(), {part: 0.05 for part in range(20)})


def test_a_generator_of_another_device() -> None:
    with pytest.raises(ValueError, match=r"^`generator` must be on the device of the targets, meta; it is cpu\.$"):
        uniforms((2,), torch.zeros(1, device="meta"), torch.Generator())
