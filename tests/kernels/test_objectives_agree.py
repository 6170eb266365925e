"""Any objective, with the kernels and in plain torch: the same candidates from the same random numbers, the same loss.

Other tests here take the kernels one by one, with targets made for them. This one draws whole objectives, so that it
finds what nobody thought of: that a token is the padding of a table, too, that a pool is empty, that nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import seqsmooth as ss

pytest.importorskip("triton")
CASES = 50


@dataclass
class Case:
    """An objective and what it is asked; or why there is none."""

    objective: ss.Objective | str
    vocab_size: int
    targets: Tensor  # (B, T)
    references: Tensor  # (B, R, S)
    seed: int


def some_case(seed: int, device: torch.device) -> Case:
    chance, source = Random(seed), torch.Generator().manual_seed(seed)
    size = chance.choice([2, 3, 9, 17, 70])
    batch, steps, number, width = (chance.randint(1, most) for most in (3, 4, 3, 5))
    ignored = chance.choice([-100, -1])
    targets = torch.randint(size, (batch, steps), generator=source)
    lengths = torch.randint(steps + 1, (batch, 1), generator=source)
    targets = torch.where(torch.arange(steps) < lengths, targets, ignored)
    few = chance.randint(1, size)  # so that references say some words again and again
    references = torch.randint(few, (batch, number, width), generator=source)
    references = torch.where(torch.rand(references.shape, generator=source) < 0.2, ignored, references)
    settings: dict[str, Any] = {"vocab_size": size, "ignore_index": ignored, "entropy": chance.choice([0, 0, 0, 0.1])}
    if size >= 9 and chance.random() < 0.5:
        settings["specials"] = ss.Specials(*chance.sample(range(size), 4))
    try:
        settings |= some_sequence_law(chance, batch, size) | some_token_law(chance, size, source)
        objective: ss.Objective | str = ss.Objective(**settings).to(device)
    except ValueError as error:
        objective = str(error)
    return Case(objective, size, targets.to(device), references.to(device), seed)


def some_sequence_law(chance: Random, batch: int, size: int) -> dict[str, Any]:
    kind = chance.choice(["none", "closed form", "closed form", "samples", "samples", "reward"])
    if kind == "none":
        return {}
    pool: Any = chance.choice(["vocab", "batch", "refs", "listed"])
    if pool == "listed":
        pool = torch.tensor([[chance.randrange(size) for _ in range(3)] for _ in range(batch)])
    alpha, number = chance.choice([0.3, 1.0]), chance.choice([1, 2])
    strength: dict[str, Any] = chance.choice([{"rate": 0.3}, {"rate": 1.0}, {"tau": 0.2}, {"tau": 1.0}])
    if kind == "closed form":
        return {"sequence": ss.Hamming(pool=pool, alpha=alpha, samples=None, **strength), "lazy": True}
    lazy = chance.random() < 0.5
    if kind == "samples":
        return {"sequence": ss.Hamming(pool=pool, alpha=alpha, samples=number, **strength), "lazy": lazy}
    reward = chance.choice([ss.rewards.Bleu(), ss.rewards.Hamming(), ss.rewards.Constant()])
    weights: Any = chance.choice(["tilted", "literal"])
    proposal = ss.Hamming(pool=pool, **strength)
    law = ss.Rewarded(reward, proposal, tau=0.5, samples=number + 1, alpha=alpha, weights=weights)
    return {"sequence": law, "lazy": lazy}


def some_token_law(chance: Random, size: int, source: torch.Generator) -> dict[str, Any]:
    kind = chance.choice(["none", "none", "uniform", "full", "top-k", "sampled"])
    if kind == "none":
        return {}
    if kind == "uniform":
        return {"token": ss.Uniform(chance.choice([0.1, 1.0]))}
    vectors, counts = torch.randn(size, 5, generator=source), torch.randint(9, (size,), generator=source)
    more: dict[str, Any] = chance.choice([{}, {"beta": 0.2, "counts": counts}])
    how = {"stored": chance.random() < 0.5} if kind == "full" else {"mode": kind, "k": chance.randint(1, min(size, 6))}
    return {"token": ss.Similarity(vectors, 0.3, alpha=chance.choice([0.5, 1.0]), **more, **how)}


def proposed(case: Case) -> ss.Candidates | str:
    """What is proposed, or why nothing is."""
    assert isinstance(case.objective, ss.Objective)
    source = ss.Philox(case.seed, case.targets.device)
    try:
        return case.objective.propose(case.targets, references=case.references, generator=source)
    except ValueError as error:
        return str(error)


def results(case: Case, candidates: ss.Candidates, dtype: torch.dtype) -> list[Tensor]:
    """Losses and gradients, of given logits and of a head."""
    assert isinstance(case.objective, ss.Objective)
    source, shape = torch.Generator().manual_seed(case.seed), candidates.sequences.shape
    sizes = [(*shape, case.vocab_size), (*shape, 6), (case.vocab_size, 6)]
    drawn = [torch.randn(size, generator=source).to(case.targets.device, dtype) for size in sizes]
    logits, hidden, weight = (value.requires_grad_() for value in drawn)
    direct = case.objective(logits, candidates)
    head = case.objective.head(hidden, weight, candidates, chunk=5)
    slopes = torch.autograd.grad(direct.total + head.total, (logits, hidden, weight))
    return [value.detach().double() for value in (direct.total, direct.nll, head.total, head.nll, *slopes)]


@pytest.mark.parametrize("seed", range(CASES))
def test_kernels_and_plain_torch(kernels: torch.device, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = some_case(seed, kernels)
    if isinstance(case.objective, str):
        pytest.skip(case.objective)
    fused = proposed(case)
    monkeypatch.setenv("SEQSMOOTH_KERNELS", "torch")
    plain = proposed(case)
    if isinstance(plain, str) or isinstance(fused, str):
        assert plain == fused
        return
    for name in ("sequences", "mask", "labels", "count", "weights"):
        ours, theirs = getattr(fused, name).double(), getattr(plain, name).double()
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, msg=f"{name}: {ours}, not {theirs}")
    ours, theirs = (made.target.dense(case.vocab_size).double() for made in (fused, plain))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    expected = results(case, fused, torch.float64)
    monkeypatch.setenv("SEQSMOOTH_KERNELS", "triton")
    for ours, theirs in zip(results(case, fused, torch.float32), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5 * max(1.0, float(theirs.abs().max())))
