"""Sets from lists by kernels, against Python's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.ops.dispatch import VARIABLE
from seqsmooth.ops.pools import NO_TOKEN, TokenSets
from seqsmooth.ops.tables import SetTable
from seqsmooth.ops.targets import Source

kernel = pytest.importorskip("seqsmooth.ops.kernels.pools")

EXCLUDED = (0, 2, 3, 7, 11)


def lists(groups: int, length: int, size: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(groups * 1000 + length)
    return torch.randint(-2, size, (groups, length), generator=generator).to(device)


def row_of(targets: Tensor, excluded: tuple[int, ...], size: int) -> SetTable:
    from seqsmooth.ops.kernels.targets import batch_expectation

    pool = TokenSets(targets.reshape(1, -1), excluded, size, whole_batch=True)
    candidates = batch_expectation(Source(targets, (-100,), 0, None, (), (), -1), pool, ss.Hamming(rate=0.5), 0.5)
    assert torch.equal(candidates.labels.squeeze(1), targets)  # of every block, whichever program has read it
    table = candidates.target.rows[0].table
    assert isinstance(table, SetTable)
    return table


def check(pool: TokenSets, listed: Tensor, excluded: tuple[int, ...], tolerance: float) -> None:
    for g, row in enumerate(listed.tolist()):
        expected = sorted(token for token in set(row) if token >= 0 and token not in excluded)
        size, empty = len(expected), len(row) - len(expected)
        assert int(pool.sizes[g]) == size
        assert pool.distinct.ids[g].tolist() == expected + [NO_TOKEN] * empty
        assert pool.table.ids[g].tolist() == expected + [0] * empty
        shares = torch.tensor([1 / max(size, 1)] * size + [0.0] * empty, dtype=torch.float64)
        assert pool.table.distinct
        torch.testing.assert_close(pool.table.weights[g].double().cpu(), shares, rtol=tolerance, atol=0)


@pytest.mark.parametrize("path", ["triton", "torch"])
@pytest.mark.parametrize("excluded", [(), (4,), EXCLUDED])
@pytest.mark.parametrize(
    ("groups", "length", "size"),
    [
        (1, 1, 20),
        (3, 1, 5),
        (2, 7, 9),
        (4, 85, 60),
        (2, 130, 1000),
        (2, 512, 300),
        (1, 128, 50),
        (1, 129, 50),
        (1, 850, 9000),
        (1, 40, 9000),
        (1, 9000, 20),
        (1, 513, 1024),
        (1, 600, 40000),
    ],
)
def test_distinct_tokens(
    groups: int,
    length: int,
    size: int,
    excluded: tuple[int, ...],
    path: str,
    kernels: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = lists(groups, length, size, kernels)
    monkeypatch.setenv(VARIABLE, path)
    pool = TokenSets(listed, excluded, size)
    assert pool.table.weights.dtype == (torch.float32 if path == "triton" else torch.float64)
    check(pool, listed, excluded, 1e-7)


@pytest.mark.parametrize(("length", "size"), [(1, 1), (600, 50), (600, 1024), (700, 1025), (5000, 16385), (900, 70001)])
def test_places_of_a_long_list_and_row_of_a_batch(length: int, size: int, kernels: torch.device) -> None:
    """Written by many programs: each counts what is before its own part, or all by itself."""
    listed = lists(1, length, size, kernels)
    listed[0, -1] = size - 1
    expected = sorted(token for token in set(listed[0].tolist()) if token >= 0 and token not in EXCLUDED)
    row = row_of(listed, EXCLUDED, size)
    assert row.bits.shape == (1, -(-size // 8))
    assert row.written(torch.empty(0)).values[0].nonzero().flatten().tolist() == expected
    assert row.masses.tolist() == [len(expected)]
    if length > kernel.MOST_SORTED:
        places = TokenSets(listed, EXCLUDED, size).distinct.places
        assert places is not None
        assert places.tolist() == [expected.index(token) if token in expected else -1 for token in range(size)]


def test_ids_that_no_vocabulary_has(kernels: torch.device) -> None:
    """Wide ids are told apart where V is not known, and where it is, those beyond it are in no set."""
    listed = torch.tensor([[2**40 + 1, 5, 1, 2**40 + 1, 2**33 + 5, -(2**40)]], device=kernels)
    assert kernel.distinct(listed, (5,), None).ids.tolist() == [[1, 2**33 + 5, 2**40 + 1, *[NO_TOKEN] * 3]]
    assert kernel.distinct(listed, (1,), 6).ids.tolist() == [[5, *[NO_TOKEN] * 5]]
    long = listed.repeat(1, 200)
    assert kernel.distinct(long, (1,), 6).ids[0, :2].tolist() == [5, NO_TOKEN]
    assert row_of(long, (), 6).bits.tolist() == [[0b100010]]
    assert row_of(long.view(6, 200).t(), (), 6).bits.tolist() == [[0b100010]]


def test_lists_of_any_stride(kernels: torch.device) -> None:
    for groups, length in ((2, 7), (1, 600)):
        listed = lists(groups, 3 * length, 50, kernels)[:, ::3]
        assert listed.stride(1) == 3
        check(TokenSets(listed, EXCLUDED, 50), listed, EXCLUDED, 1e-7)


@pytest.mark.parametrize(("groups", "length"), [(2, 600), (1, 600)])
def test_lists_too_long_to_compare_and_no_vocabulary(groups: int, length: int, kernels: torch.device) -> None:
    """These go by plain torch, whose shares are doubles."""
    listed = lists(groups, length, 50, kernels)
    pool = TokenSets(listed, EXCLUDED, None if groups == 1 else 50)
    assert pool.table.weights.dtype == torch.float64
    check(pool, listed, EXCLUDED, 1e-15)


def test_empty_lists(kernels: torch.device) -> None:
    pool = TokenSets(torch.empty(2, 0, dtype=torch.long, device=kernels), (), 5)
    assert pool.sizes.tolist() == [0, 0]
    only_padding = TokenSets(torch.full((2, 3), -1, device=kernels), (), 5)
    assert only_padding.sizes.tolist() == [0, 0]
    assert not only_padding.table.weights.any()
