from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seqsmooth.ops.compaction import compact
from seqsmooth.ops.kernels import compaction as kernel

rows = st.lists(st.lists(st.tuples(st.integers(-2, 6), st.booleans()), min_size=5, max_size=5), min_size=1, max_size=4)


def expected(tokens: Tensor, mask: Tensor, dropped: tuple[int, ...]) -> Tensor:
    """By lists."""
    moved = []
    for row, here in zip(tokens.flatten(0, -2).tolist(), mask.flatten(0, -2).tolist(), strict=True):
        kept = [token for token, stays in zip(row, here, strict=True) if stays and token not in dropped]
        moved.append(kept + [-1] * (len(row) - len(kept)))
    return torch.tensor(moved, dtype=tokens.dtype).view(tokens.shape)


@settings(deadline=None, max_examples=40)
@given(rows, st.sets(st.integers(0, 6), max_size=4), st.booleans())
def test_what_stays_moves_to_the_left(rows: list[list[tuple[int, bool]]], dropped: set[int], forced: bool):
    pairs = torch.tensor(rows)
    tokens, mask, listed = pairs[..., 0], pairs[..., 1].bool(), tuple(sorted(dropped))
    device = torch.device("cuda" if forced and torch.cuda.is_available() else "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQSMOOTH_KERNELS", "triton" if forced else "torch")
        got = compact(tokens.to(device), mask.to(device), listed).cpu()
    assert torch.equal(got, expected(tokens, mask, listed))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 5), (1100, 2), (3, 130), (7,)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_the_kernel_does_any_shape(kernels: torch.device, shape: tuple[int, ...], dtype: torch.dtype):
    chance = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 6, shape, generator=chance).to(dtype)
    mask = torch.rand(shape, generator=chance) < 0.7
    assert kernel.fit(tokens, mask, (0, 2))
    got = compact(tokens.to(kernels), mask.to(kernels), (0, 2)).cpu()
    assert got.dtype == dtype
    assert torch.equal(got, expected(tokens.view(-1, shape[-1]), mask.view(-1, shape[-1]), (0, 2)).view(shape))


def test_a_view_is_read_as_it_is(kernels: torch.device):
    tokens, mask = torch.arange(24).view(4, 6).t(), (torch.arange(24) % 3 > 0).view(4, 6).t()
    assert torch.equal(compact(tokens.to(kernels), mask.to(kernels), (7,)).cpu(), expected(tokens, mask, (7,)))


def test_what_the_kernel_cannot_do_is_plain(kernels: torch.device):
    tokens = torch.arange(5000, device=kernels)[None]
    assert not kernel.fit(tokens, tokens > 2, ())
    assert compact(tokens, tokens > 2)[0, :2].tolist() == [3, 4]
    four = torch.arange(6, device=kernels)[None]
    assert compact(four, four > 0, (1, 2, 3, 4)).tolist() == [[5, -1, -1, -1, -1, -1]]
    assert compact(four[:0], four[:0] > 0).shape == (0, 6)
    assert compact(four[:, :0], four[:, :0] > 0).shape == (1, 0)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_trace_moves_tokens_that_stood_still_when_it_was_made():
    traced = torch.jit.trace(lambda ids: compact(ids, None), torch.tensor([[1, 2, -1]]))
    assert traced(torch.tensor([[1, -1, 2]])).tolist() == [[1, 2, -1]]
