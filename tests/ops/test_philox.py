"""Random numbers by counting, against the published answers and against their law."""

from __future__ import annotations

import pytest
import torch

import seqsmooth as ss
from seqsmooth.ops.philox import philox

# Of the Random123 library, kat_vectors: counter, key, answer of philox4x32-10.
ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> list[torch.Tensor]:
    return [torch.tensor(int(word, 16)) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), ANSWERS)
def test_the_published_answers(counter: str, key: str, answer: str) -> None:
    first, second = words(key)
    assert list(philox(tuple(words(counter)), (first, second))) == words(answer)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 700), (2, 3, 171)])
@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**40 + 12345, 2**63 - 1])
def test_the_kernel_draws_the_same(kernels: torch.device, monkeypatch, shape: tuple[int, ...], seed: int) -> None:
    theirs = ss.Philox(seed, kernels)
    found = [theirs.uniforms(shape) for _ in range(3)]
    monkeypatch.setenv("SEQSMOOTH_KERNELS", "torch")
    ours = ss.Philox(seed)
    for draw in found:
        assert torch.equal(draw.cpu(), ours.uniforms(shape))
    assert torch.equal(theirs.get_state().cpu(), ours.get_state())


def test_numbers_are_uniform_and_independent() -> None:
    """Two tests at 1e-4 each: of the law, and of pairs of draws on a grid."""
    stats = pytest.importorskip("scipy.stats")
    source = ss.Philox(5)
    one, other = source.uniforms((40_000,)), source.uniforms((40_000,))
    assert float(one.min()) >= 0
    assert float(one.max()) < 1
    assert stats.kstest(one.numpy(), "uniform").pvalue > 1e-4
    cells = torch.bincount((one * 16).long() * 16 + (other * 16).long(), minlength=256)
    assert stats.chisquare(cells.numpy()).pvalue > 1e-4


def test_a_state_comes_back() -> None:
    source = ss.Philox(5)
    source.uniforms((3,))
    state = source.get_state()
    first = source.uniforms((4,))
    source.set_state(state)
    assert torch.equal(source.uniforms((4,)), first)
    assert not torch.equal(source.uniforms((4,)), first)


def test_objectives_draw_from_it() -> None:
    objective = ss.Objective(ss.Hamming(0.3, samples=4), lazy=False, vocab_size=50)
    targets = torch.randint(50, (3, 6), generator=torch.Generator().manual_seed(0))
    one, same, other = (objective.propose(targets, generator=ss.Philox(seed)).sequences for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("seed", "is_"), [(-1, "-1"), (2**63, str(2**63))])
def test_seeds_that_cannot_be(seed: int, is_: str) -> None:
    with pytest.raises(ValueError, match=f"`seed` must be .*; it is {is_}"):
        ss.Philox(seed)


def test_a_state_of_floats_would_be_another() -> None:
    """Beyond 2**53 they are rounded, and so would be a seed."""
    with pytest.raises(ValueError, match=r"^`state` must be a tensor of whole numbers; it is torch\.float64"):
        ss.Philox(2**60 + 1).set_state(torch.tensor([2**60 + 1, 0, 0], dtype=torch.double))
