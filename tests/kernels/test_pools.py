"""Sets from lists by kernels, against Python's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seqsmooth.ops.dispatch import VARIABLE
from seqsmooth.smoothing.pools import NO_TOKEN, Listed, _distinct

EXCLUDED = (0, 2, 3, 7, 11)


def lists(groups: int, length: int, size: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(groups * 1000 + length)
    return torch.randint(-2, size, (groups, length), generator=generator).to(device)


def check(pool: Listed, listed: Tensor, excluded: tuple[int, ...], tolerance: float) -> None:
    for g, row in enumerate(listed.tolist()):
        expected = sorted(token for token in set(row) if token >= 0 and token not in excluded)
        size, empty = len(expected), len(row) - len(expected)
        assert int(pool.sizes[g]) == size
        assert pool.ids[g].tolist() == expected + [NO_TOKEN] * empty
        assert pool.table.ids[g].tolist() == expected + [0] * empty
        shares = torch.tensor([1 / max(size, 1)] * size + [0.0] * empty, dtype=torch.float64)
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
    pool = _distinct(listed, excluded, size)
    assert pool.table.weights.dtype == (torch.float32 if path == "triton" else torch.float64)
    check(pool, listed, excluded, 1e-7)


@pytest.mark.parametrize(("groups", "length"), [(2, 600), (1, 600)])
def test_lists_too_long_to_compare_and_no_vocabulary(groups: int, length: int, kernels: torch.device) -> None:
    """These go by plain torch, whose shares are doubles."""
    listed = lists(groups, length, 50, kernels)
    pool = _distinct(listed, EXCLUDED, None if groups == 1 else 50)
    assert pool.table.weights.dtype == torch.float64
    check(pool, listed, EXCLUDED, 1e-15)


def test_empty_lists(kernels: torch.device) -> None:
    pool = _distinct(torch.empty(2, 0, dtype=torch.long, device=kernels), (), 5)
    assert pool.sizes.tolist() == [0, 0]
    only_padding = _distinct(torch.full((2, 3), -1, device=kernels), (), 5)
    assert only_padding.sizes.tolist() == [0, 0]
    assert not only_padding.table.weights.any()
