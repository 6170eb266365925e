from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seqsmooth.ops.kernels import cider as kernel
from seqsmooth.rewards import Cider, DocumentFrequencies

LABELS = torch.tensor([0, 1, 7, 2**16, 2**31, 2**32 - 1])


def ids(seed: int, *shape: int, words: int = 6) -> Tensor:
    """Sequences of all lengths, so that n-grams repeat and some rows are empty."""
    chance = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, words, shape, generator=chance)
    length = torch.randint(0, shape[-1] + 1, shape[:-1], generator=chance)
    return torch.where(torch.arange(shape[-1]) < length[..., None], LABELS[drawn], -1 - drawn)


DOCUMENTS = ids(0, 20, 3, 9, words=5)  # the last word is in no document


def check(kernels: torch.device, ours: Tensor, theirs: Tensor, order: int = 4, sigma: float = 6.0) -> Tensor:
    """Compare with double precision in plain torch, and see that it was the kernel."""
    frequencies = DocumentFrequencies.build(DOCUMENTS.tolist())
    expected = Cider(frequencies, order, sigma, dtype=torch.float64)(ours, theirs)
    calls: list[int] = []
    single = Cider(frequencies, order, sigma).to(kernels)
    with pytest.MonkeyPatch.context() as patch:
        real = kernel.cider
        patch.setattr(kernel, "cider", lambda *given: calls.append(1) or real(*given))
        got = single(ours.to(kernels), theirs.to(kernels)).cpu()
    assert calls
    assert got.dtype == torch.float32
    assert ((got - expected).abs() <= 1e-6 * expected.clamp(min=1)).all()
    return expected


@pytest.mark.parametrize(
    ("shape", "number", "width"),
    [
        ((2, 3, 7), 3, 6),
        ((1, 1, 1), 1, 1),
        ((1, 2, 3), 5, 9),
        ((3, 1, 17), 4, 12),
        ((1, 2, 5), 2, 33),
        ((1, 9, 4), 1, 5),
    ],
)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_the_plain_score(kernels, monkeypatch, shape: tuple[int, int, int], number: int, width: int, order: int):
    monkeypatch.setattr("seqsmooth.ops.kernels.ngrams._PROGRAMS", order)  # few, for the interpreter is slow
    ours, theirs = ids(order, *shape), ids(order + 4, shape[0], number, width)
    theirs[:, :1, : min(3, width)] = LABELS[[1, 2, 1]][:width]  # something to find, and something twice
    ours[:, :1, : min(3, shape[2])] = LABELS[[1, 2, 1]][: shape[2]]
    ours[:, :1, 3:], theirs[:, :1, 3:] = -1, -1
    assert check(kernels, ours, theirs, order).max() > 1


@pytest.mark.parametrize("sigma", [0.5, math.inf])
def test_the_width_of_the_penalty(kernels: torch.device, sigma: float):
    assert check(kernels, ids(1, 2, 2, 6), ids(2, 2, 2, 8), sigma=sigma).max() > 0.01


def test_a_full_tile_of_candidates(kernels: torch.device, monkeypatch: pytest.MonkeyPatch):
    # As if the device were full: many candidates share a program, and the last program of an item is not full.
    monkeypatch.setattr("seqsmooth.ops.kernels.ngrams._PROGRAMS", 1)
    monkeypatch.setattr("seqsmooth.ops.kernels.ngrams._COLUMNS", 8)
    assert check(kernels, ids(3, 2, 11, 6), ids(4, 2, 3, 6)).max() > 1


captions = st.lists(st.integers(0, 5), max_size=7)


@settings(deadline=None, max_examples=15)
@given(st.lists(captions, min_size=1, max_size=3), st.lists(captions, min_size=1, max_size=3))
def test_any_captions(ours: list[list[int]], theirs: list[list[int]]):
    def tensor(rows: list[list[int]]) -> Tensor:
        return torch.tensor([[[*(LABELS[word].item() for word in row), *[-1] * (8 - len(row))] for row in rows]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQSMOOTH_KERNELS", "triton")
        check(torch.device("cuda" if torch.cuda.is_available() else "cpu"), tensor(ours), tensor(theirs))


def test_ids_beyond_32_bits_are_strangers_or_plain(kernels: torch.device):
    # Strangers to the frequencies: they match each other, and not the words that they equal in 32 bits.
    ours, theirs = torch.tensor([[[1, 2**40 + 1, 2**32, 7]]]), torch.tensor([[[1, 2**40 + 1, 2**32, 0], [1, 1, 0, 0]]])
    assert check(kernels, ours, theirs).item() > 1
    # Words of the frequencies: too long for a key of the table.
    frequencies = DocumentFrequencies.build([[[1, 2**40]], [[5]]])
    ours, theirs = torch.tensor([[[1, 2**40]]]), torch.tensor([[[1, 2**40, 3]]])
    expected = Cider(frequencies, dtype=torch.float64)(ours, theirs)
    got = Cider(frequencies).to(kernels)(ours.to(kernels), theirs.to(kernels)).cpu().double()
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    assert got.item() > 1


def test_a_word_of_all_documents_weighs_exactly_nothing(kernels: torch.device):
    reward = Cider(DocumentFrequencies.build([[[1, 2 + row]] for row in range(7)])).to(kernels)
    one = torch.tensor([[[1]]], device=kernels)
    assert reward(one, one).item() == 0


def test_what_the_kernel_has_no_room_for_is_plain(kernels: torch.device):
    frequencies = DocumentFrequencies.build(DOCUMENTS.tolist(), 5)
    double = Cider(frequencies, 5, dtype=torch.float64)
    ours, theirs = ids(5, 2, 2, 6), ids(6, 2, 2, 6)
    got = Cider(frequencies, 5).to(kernels)(ours.to(kernels), theirs.to(kernels)).cpu()  # fifth order
    torch.testing.assert_close(got.double(), double(ours, theirs), rtol=1e-5, atol=1e-5)
    ours, theirs = ids(7, 1, 1, 3), ids(8, 1, 2, 5000)
    got = Cider(frequencies).to(kernels)(ours.to(kernels), theirs.to(kernels)).cpu()  # too long
    torch.testing.assert_close(
        got.double(), Cider(frequencies, dtype=torch.float64)(ours, theirs), rtol=1e-5, atol=1e-5
    )
    assert Cider(frequencies).to(kernels)(ours[:0].to(kernels), theirs[:0].to(kernels)).shape == (0, 1)


def test_a_slice_and_a_change_of_precision(kernels: torch.device):
    frequencies = DocumentFrequencies.build(DOCUMENTS.tolist())
    ours, theirs = ids(9, 2, 4, 9).to(kernels), ids(10, 2, 3, 8).to(kernels)
    reward = Cider(frequencies).to(kernels)
    expected = reward(ours[:, ::2, 1:].contiguous(), theirs)
    around = torch.nn.ModuleList([reward]).to(torch.bfloat16)
    assert torch.equal(reward(ours[:, ::2, 1:], theirs), expected)
    assert around.state_dict() == {}


def test_the_table_is_there_before_the_first_call_where_kernels_run(monkeypatch: pytest.MonkeyPatch):
    frequencies = DocumentFrequencies.build(DOCUMENTS.tolist())
    monkeypatch.setenv("SEQSMOOTH_KERNELS", "triton")
    reward = Cider(frequencies)
    assert reward.table is not None
    assert reward.signature() == Cider(frequencies, dtype=torch.float64).signature()
    assert Cider(frequencies, dtype=torch.float64).table is None
    monkeypatch.setenv("SEQSMOOTH_KERNELS", "torch")
    assert Cider(frequencies).table is None
