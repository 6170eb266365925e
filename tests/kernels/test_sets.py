"""Pools as sets of bits, which kernels make and the loss kernels read, against plain torch."""

from __future__ import annotations

import pytest
import torch

import seqsmooth as ss
from oracles.kernel_targets import SPECIALS, WORDS, V, assert_same, both, seeded, sentences
from seqsmooth.ops.dispatch import VARIABLE
from seqsmooth.ops.kernels.sorted_target import fitting
from seqsmooth.ops.tables import SetTable


@pytest.mark.parametrize("strength", [{"tau": 0.3}, {"rate": 0.4}])
@pytest.mark.parametrize("specials", SPECIALS)
@pytest.mark.parametrize("samples", [None, 3])
def test_the_pool_of_a_long_batch(
    samples: int | None,
    specials: str,
    strength: dict[str, float],
    kernels: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is a set of bits for the closed form; for samples it is listed with places."""
    batch, steps = (15, 9) if samples is None else (9, 60)  # of two blocks
    targets = sentences(batch, steps, SPECIALS[specials], kernels)
    law = ss.Hamming(**strength, pool="batch", alpha=0.7, samples=samples)
    objective = ss.Objective(law, specials=SPECIALS[specials], vocab_size=V).to(kernels)
    ours, plain = both(monkeypatch, lambda: objective.propose(targets, generator=seeded(kernels)))
    assert_same(ours, plain)
    assert samples is not None or isinstance(ours.target.rows[0].table, SetTable)
    if samples is None and "rate" in strength and specials in ("all", "pad last", "all drawn"):  # for that is slow
        logits = torch.randn(batch, steps, V, generator=torch.Generator().manual_seed(2)).to(kernels)
        monkeypatch.setenv(VARIABLE, "triton")
        loss = objective(logits, ours).total
        monkeypatch.setenv(VARIABLE, "torch")
        torch.testing.assert_close(loss.double(), objective(logits.double(), plain).total, rtol=1e-5, atol=0)


@pytest.mark.parametrize("strength", [{"tau": 0.3}, {"rate": 0.4}])
@pytest.mark.parametrize("token", [None, ss.Uniform(0.1)])
@pytest.mark.parametrize("pool", ["refs", "ids each"])
def test_lists_too_long_for_the_loss_are_sets(
    pool: str,
    token: ss.Uniform | None,
    strength: dict[str, float],
    kernels: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One item has no references, and in one nothing that is to be predicted is among them."""
    targets = sentences(4, 6, WORDS, kernels)
    generator = torch.Generator().manual_seed(3)
    references = torch.randint(4, V, (4, 3, 180), generator=generator).to(kernels)
    references[1] = -100
    references[2] = torch.where(torch.isin(references[2], targets[2]), -100, references[2])
    given = references if pool == "refs" else None
    law = ss.Hamming(**strength, pool="refs" if given is not None else references.flatten(1), alpha=0.7)
    objective = ss.Objective(law, token, specials=WORDS, vocab_size=V).to(kernels)
    ours, plain = both(monkeypatch, lambda: objective.propose(targets, references=given))
    assert_same(ours, plain)
    table = ours.target.rows[-1].table if token is None else ours.target.rows[0].table
    assert isinstance(table, SetTable)
    logits = torch.randn(4, 6, V, generator=generator).to(kernels)
    assert fitting(ours.target) is not None
    monkeypatch.setenv(VARIABLE, "triton")
    loss = objective(logits, ours).total
    monkeypatch.setenv(VARIABLE, "torch")
    torch.testing.assert_close(loss.double(), objective(logits.double(), plain).total, rtol=1e-5, atol=0)


@pytest.mark.parametrize("length", [400, 512, 800])
def test_ids_beyond_the_vocabulary_that_nobody_sees(
    length: int, kernels: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where ids are not looked at: they are in no pool, however long the list."""
    monkeypatch.setattr("seqsmooth.ops.checks.visible", lambda _: False)
    targets = sentences(3, 5, WORDS, kernels)
    generator = torch.Generator().manual_seed(5)
    references = torch.randint(4, 2 * V, (3, 1, length), generator=generator).to(kernels)
    for samples in (None, 8):
        objective = ss.Objective(ss.Hamming(rate=0.5, pool="refs", samples=samples), specials=WORDS, vocab_size=V)
        target = objective.to(kernels).propose(targets, references=references).target
        assert bool((target.ids < V).all())
        mass = target.dense(V).sum(-1)[targets.unsqueeze(1) != 0]
        torch.testing.assert_close(mass, torch.ones_like(mass))


def test_a_batch_without_a_token_to_draw(kernels: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool is empty: all mass stays."""
    objective = ss.Objective(ss.Hamming(rate=0.5, pool="batch"), specials=WORDS, vocab_size=V).to(kernels)
    targets = torch.full((10, 9), 3, device=kernels)
    ours, plain = both(monkeypatch, lambda: objective.propose(targets))
    assert_same(ours, plain)
    assert bool((ours.target.dense(V)[..., 3] == 1).all())
