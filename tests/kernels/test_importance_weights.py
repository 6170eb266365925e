"""Kernels that weigh samples, against plain torch on the same scores."""

from __future__ import annotations

import math

import pytest
import torch

import seqsmooth as ss
from oracles.kernel_targets import WORDS, V, assert_same, both, seeded, sentences


@pytest.mark.parametrize("scale", [1.0, 1e-320, math.inf])
@pytest.mark.parametrize("kind", ["tilted", "literal", "batch"])
@pytest.mark.parametrize("shape", [(1, 1, 2), (4, 6, 3), (9, 3, 33)])
def test_importance_weights(
    shape: tuple[int, int, int], kind: str, scale: float, kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, steps, count = shape
    scores = torch.randn(batch, count, generator=torch.Generator().manual_seed(4), dtype=torch.float64).to(kernels)
    targets = sentences(batch, steps, WORDS, kernels)
    law = ss.Rewarded(
        lambda candidates, references: scores, ss.Hamming(0.4), scale, count, 0.6, weights=kind, against="target"
    )
    objective = ss.Objective(law, specials=WORDS, vocab_size=V).to(kernels)
    assert_same(*both(monkeypatch, lambda: objective.propose(targets, generator=seeded(kernels))))


@pytest.mark.parametrize("kind", ["tilted", "batch"])
def test_importance_weights_of_nothing(kind: str, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of padding: no item has a position."""
    law = ss.Rewarded(ss.rewards.Constant(), ss.Hamming(0.4), 1.0, 2, weights=kind, against="target")
    objective = ss.Objective(law, specials=WORDS, vocab_size=V).to(kernels)
    targets = torch.zeros(3, 2, dtype=torch.long, device=kernels)
    ours, plain = both(monkeypatch, lambda: objective.propose(targets, generator=seeded(kernels)))
    assert torch.equal(ours.target.ids, plain.target.ids)
    assert ours.target.weights.isfinite().all()
    assert float(ours.ess) == float(plain.ess)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_scores_of_any_type(dtype: torch.dtype, kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.tensor([[1, 2, 4], [3, 0, 1]], device=kernels).to(dtype)
    law = ss.Rewarded(lambda candidates, references: scores, ss.Hamming(0.4), 0.9, 3, against="target")
    objective = ss.Objective(law, specials=WORDS, vocab_size=V).to(kernels)
    targets = sentences(2, 3, WORDS, kernels)
    assert_same(*both(monkeypatch, lambda: objective.propose(targets, generator=seeded(kernels))))
