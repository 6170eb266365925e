from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seqsmooth.ops.kernels import bleu as kernel
from seqsmooth.rewards import Bleu

KINDS = [
    *((name, effective) for name in ("none", "floor", "add-k", "exp") for effective in (False, True)),
    *((name, False) for name in ("coco", "method0", "method1", "method2", "method3", "method4")),
]


def ids(seed: int, *shape: int) -> Tensor:
    """Sequences of few words and of all lengths: n-grams match and repeat, and some sequences are empty."""
    chance = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, 4, shape, generator=chance)
    length = torch.randint(0, shape[-1] + 1, shape[:-1], generator=chance)
    return torch.where(torch.arange(shape[-1]) < length[..., None], drawn * 2**40, -1 - drawn)


def check(device: torch.device, reward: Bleu, ours: Tensor, theirs: Tensor) -> Tensor:
    """Compare with double precision in plain torch, and see that it was the kernel."""
    value = reward.value or None
    double = Bleu(reward.order, reward.smoothing, reward.effective_order, value=value, dtype=torch.float64)
    expected = double(ours, theirs)
    calls: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        real = kernel.bleu
        patch.setattr(kernel, "bleu", lambda *given: calls.append(1) or real(*given))
        got = reward(ours.to(device), theirs.to(device)).cpu()
    assert calls
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), expected, rtol=1e-6, atol=1e-6)
    return expected


@pytest.mark.parametrize(("smoothing", "effective"), KINDS)
def test_it_is_the_plain_score(kernels: torch.device, monkeypatch: pytest.MonkeyPatch, smoothing: str, effective: bool):
    monkeypatch.setattr("seqsmooth.ops.kernels.ngrams._PROGRAMS", 1)  # one an item, for the interpreter is slow
    ours, theirs = ids(1, 2, 8, 7), ids(2, 2, 3, 6)
    theirs[0, 0] = torch.arange(6)
    ours[0, :2] = torch.tensor([[0, 1, 2, 3, 4, -1, -1], [0, 1, 2, 3, 9, 1, 5]])
    assert check(kernels, Bleu(4, smoothing, effective), ours, theirs).max() > 0.6


@pytest.mark.parametrize("order", [1, 2, 3])
def test_lower_orders(kernels: torch.device, order: int):
    assert check(kernels, Bleu(order), ids(1, 1, 3, 7), ids(2, 1, 2, 6)).max() > 0.2


@pytest.mark.parametrize(
    ("shape", "number", "width"), [((1, 1, 1), 1, 1), ((1, 2, 3), 5, 9), ((2, 1, 17), 4, 12), ((1, 2, 5), 2, 33)]
)
def test_odd_shapes(kernels: torch.device, shape: tuple[int, int, int], number: int, width: int):
    ours, theirs = ids(3, *shape), ids(4, shape[0], number, width)
    ours[:, 0, 0] = theirs[:, 0, 0] = 5
    assert check(kernels, Bleu(3, effective_order=True), ours, theirs).max() > 0


@pytest.mark.parametrize(("smoothing", "value"), [("floor", 0.02), ("add-k", 0.3), ("method1", 0.7), ("method4", 2.0)])
def test_the_value(kernels: torch.device, smoothing: str, value: float):
    check(kernels, Bleu(4, smoothing, value=value), ids(5, 2, 3, 6), ids(6, 2, 2, 6))


def test_a_full_tile_of_candidates(kernels: torch.device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("seqsmooth.ops.kernels.ngrams._PROGRAMS", 1)
    monkeypatch.setattr("seqsmooth.ops.kernels.ngrams._COLUMNS", 4)
    check(kernels, Bleu(), ids(7, 2, 9, 6), ids(8, 2, 3, 6))


def test_nothing_in_common_and_nothing_at_all(kernels: torch.device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("seqsmooth.ops.kernels.ngrams._PROGRAMS", 1)
    ours = torch.tensor([[[1, 2, 3, 4, 5], [-1] * 5], [[1, 2, 3, 4, 5], [-1] * 5]], device=kernels)
    theirs = torch.tensor([[[6, 7, 8, 9, 6], [7, -1, -1, -1, -1]], [[-1] * 5, [-1] * 5]], device=kernels)
    for smoothing, effective in KINDS:
        got = Bleu(4, smoothing, effective)(ours, theirs)
        assert got[:, 1].tolist() == [0, 0]
        assert (got[:, 0] < 1e-14).all()


captions = st.lists(st.integers(0, 3), max_size=7)


@settings(deadline=None, max_examples=15)
@given(st.lists(captions, min_size=1, max_size=3), st.lists(captions, min_size=1, max_size=3), st.sampled_from(KINDS))
def test_any_captions(ours: list[list[int]], theirs: list[list[int]], kind: tuple[str, bool]):
    def tensor(rows: list[list[int]]) -> Tensor:
        return torch.tensor([[row + [-1] * (8 - len(row)) for row in rows]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQSMOOTH_KERNELS", "triton")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        check(device, Bleu(4, *kind), tensor(ours), tensor(theirs))


@pytest.mark.parametrize(("order", "smoothing"), [(5, "exp"), (4, "method5"), (4, "method6"), (4, "method7")])
def test_the_rest_is_plain(kernels: torch.device, order: int, smoothing: str):
    ours, theirs = ids(9, 2, 2, 8), ids(10, 2, 2, 8)
    got = Bleu(order, smoothing)(ours.to(kernels), theirs.to(kernels)).cpu()
    expected = Bleu(order, smoothing, dtype=torch.float64)(ours, theirs)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)
