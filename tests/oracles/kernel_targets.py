"""Batches to make targets of, by kernels and by plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.ops.candidates import Candidates
from seqsmooth.ops.dispatch import VARIABLE

V = 23
WORDS = ss.Specials(0, 1, 2, 3)
SPECIALS = {
    "none": ss.Specials(),
    "all": WORDS,
    "pad last": ss.Specials(pad=V - 1, bos=4, eos=0, unk=11),
    "nothing frozen": ss.Specials(0, 1, 2, 3, frozen=()),
    "all frozen": ss.Specials(0, 1, 2, 3, frozen=("bos", "eos", "unk", "pad")),
    "some drawn": ss.Specials(0, 1, 2, 3, undrawn=("bos",)),
    "all drawn": ss.Specials(0, 1, 2, 3, undrawn=()),
    "two names": ss.Specials(pad=0, bos=2, eos=2),
}
SHAPES = [(1, 1, 1), (3, 5, 2), (2, 17, 5), (5, 4, 40)]  # B, T, L


def seeded(device: torch.device, seed: int = 0) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def sentences(batch: int, steps: int, specials: ss.Specials, device: torch.device, size: int = V) -> Tensor:
    """Targets of all lengths, the last of none, with specials inside."""
    generator = torch.Generator().manual_seed(batch * 100 + steps)
    tokens = torch.randint(size, (batch, steps), generator=generator)
    lengths = torch.arange(batch).flip(0).minimum(torch.tensor(steps)) if batch > 1 else torch.tensor([steps])
    lengths = torch.where(torch.arange(batch) == 0, steps, lengths)
    end = specials.filler if specials.pad is not None else -100
    return torch.where(torch.arange(steps) < lengths.unsqueeze(1), tokens, end).to(device)


def listed(batch: int, device: torch.device, size: int = V) -> Tensor:
    """References, some absent and one item with none at all."""
    generator = torch.Generator().manual_seed(batch)
    tokens = torch.randint(size, (batch, 3, 6), generator=generator)
    tokens[:, 2, 1:] = -1
    tokens[-1] = -1
    if batch > 1:
        tokens[0] = 5  # a pool of one token
    return tokens.to(device)


def both(monkeypatch: pytest.MonkeyPatch, make) -> tuple:  # type: ignore[no-untyped-def]
    results = []
    for path in ("triton", "torch"):
        monkeypatch.setenv(VARIABLE, path)
        results.append(make())
    return tuple(results)


def assert_same(ours: Candidates, plain: Candidates) -> None:
    """All that training reads: ids one by one, weights of single precision."""
    for name in ("sequences", "mask", "labels", "count", *(["inputs"] if plain.bos is not None else [])):
        assert torch.equal(getattr(ours, name), getattr(plain, name)), name
    for name in ("weights", "ess"):
        torch.testing.assert_close(getattr(ours, name).double(), getattr(plain, name).double(), rtol=1e-6, atol=1e-6)
    assert torch.equal(ours.target.ids, plain.target.ids)
    kept = plain.target.ids != -100
    torch.testing.assert_close(
        ours.target.weights.double()[kept], plain.target.weights.double()[kept], rtol=1e-6, atol=1e-7
    )
    assert len(ours.target.rows) == len(plain.target.rows)
    for row, other in zip(ours.target.rows, plain.target.rows, strict=True):
        assert torch.equal(row.index, other.index)
    torch.testing.assert_close(ours.target.dense(V).double(), plain.target.dense(V).double(), rtol=1e-5, atol=1e-7)


def pool_of(name: str, batch: int, device: torch.device) -> object:
    if name == "ids":
        return torch.tensor([9, 3, 3, -1, 20, 4], device=device)
    if name == "ids each":
        return torch.randint(-1, V, (batch, 7), generator=torch.Generator().manual_seed(3)).to(device)
    return name
