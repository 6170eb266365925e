"""The objective at the edges: padding, single tokens, empty pools, extreme temperatures."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.every_objective import EOS, EVERY_TOKEN, PAD, REFERENCES, SPECIALS, TARGETS, VECTORS, V, every, run
from seqsmooth.ops.targets import Draws


@pytest.mark.parametrize("lazy", [True, False])
def test_ignored_rows_contribute_nothing(lazy: bool) -> None:
    """An item of padding only changes neither the loss nor any gradient nor the sample size, whatever its logits."""
    for objective in every(lazy):
        targets = torch.cat([TARGETS, torch.full((1, 4), PAD)])
        references = torch.cat([REFERENCES, torch.full((1, 2, 3), PAD)])
        candidates = objective.propose(targets, references=references)
        assert torch.isinf(candidates.ess) or 1 <= candidates.ess <= 2
        mass = candidates.target.dense(V).sum()
        if not isinstance(objective.sequence, ss.Edit):  # whose samples have masses of their own
            assert mass.item() == pytest.approx(5)
        assert not candidates.mask[2].any()
        assert (candidates.sequences[2] == PAD).all()
        logits = torch.randn(*candidates.sequences.shape, V, dtype=torch.float64)
        logits[2] = math.nan
        logits.requires_grad_()
        loss = objective(logits, candidates)
        (gradient,) = torch.autograd.grad(loss.total, logits)
        assert loss.total.isfinite()
        assert loss.nll.isfinite()
        assert not loss.ess.isnan()
        assert (gradient[2] == 0).all()
        assert gradient.isfinite().all()
        assert loss.tokens == 5


@pytest.mark.parametrize("lazy", [True, False])
def test_a_batch_of_padding_costs_nothing(lazy: bool) -> None:
    for objective in every(lazy):
        loss, gradient = run(objective, torch.full((2, 4), PAD), torch.full((2, 1, 3), PAD))
        assert loss.total == 0
        assert loss.nll == 0
        assert loss.tokens == 0
        assert (gradient == 0).all()


@pytest.mark.parametrize("lazy", [True, False])
def test_a_batch_of_one_token(lazy: bool) -> None:
    for objective in every(lazy):
        loss, gradient = run(objective, torch.tensor([[4]]), torch.tensor([[[4]]]))
        assert loss.total.isfinite()
        assert gradient.isfinite().all()
        assert loss.tokens == 1


@pytest.mark.parametrize("lazy", [True, False])
def test_no_items_at_all(lazy: bool) -> None:
    for objective in every(lazy):
        loss, gradient = run(objective, torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 2, 3, dtype=torch.long))
        assert loss.total == 0
        assert gradient.shape[0] == 0


@pytest.mark.parametrize("pool", [torch.tensor([], dtype=torch.long), torch.tensor([PAD, EOS]), "refs"])
def test_an_empty_pool_leaves_the_ground_truth(pool: str | Tensor) -> None:
    references = torch.full((2, 1, 3), EOS)
    for sequence, lazy in (
        (ss.Hamming(0.8, pool=pool), True),
        (ss.Hamming(0.8, pool=pool, samples=3), True),
        (ss.Hamming(0.8, pool=pool, samples=3), False),
        (ss.Hamming(rate=1.0, pool=pool, samples=3, integrate=False), False),
        (ss.Rewarded(ss.rewards.Constant(), ss.Hamming(0.8, pool=pool), 1.0, 2), True),
    ):
        objective = ss.Objective(sequence, lazy=lazy, specials=SPECIALS, vocab_size=V)
        candidates = objective.propose(TARGETS, references=references)
        assert torch.equal(candidates.sequences, TARGETS.unsqueeze(1).expand_as(candidates.sequences))
        logits = torch.randn(2, 1, 4, V, dtype=torch.float64)
        expected = F.cross_entropy(logits.flatten(0, 2), TARGETS.flatten(), ignore_index=PAD)
        total = objective(logits.expand(*candidates.sequences.shape, V), candidates).total
        torch.testing.assert_close(total, expected, atol=1e-12, rtol=0)


def test_edit_with_an_empty_pool_only_deletes() -> None:
    objective = ss.Objective(ss.Edit(5.0, torch.tensor([EOS]), samples=50), lazy=False, specials=SPECIALS, vocab_size=V)
    for sentence in objective.propose(TARGETS).sequences[0].tolist():
        words = [word for word in sentence if word != PAD]
        assert words in ([4, 5, EOS], [4, EOS], [5, EOS], [EOS])


def test_extreme_temperatures_give_numbers() -> None:
    logits = torch.randn(2, 4, V)
    narrow = ss.Similarity(VECTORS.float(), tau=1e-50)
    assert ss.Objective(token=narrow, specials=SPECIALS)(logits, TARGETS).total.isfinite()
    for kind in ("tilted", "literal", "batch"):
        sequence = ss.Rewarded(ss.rewards.Hamming(), ss.Hamming(0.8), 1e-320, 3, weights=kind, against="target")
        candidates = ss.Objective(sequence, specials=SPECIALS, vocab_size=V).propose(TARGETS)
        assert candidates.target.weights.isfinite().all()
        assert candidates.ess.isfinite()


def test_a_padding_item_does_not_weigh_in_the_batch() -> None:
    """weights="batch" compares items; one without a position is none of them."""

    class Given(ss.Hamming):
        def draw(self, truth, count, generator):  # type: ignore[no-untyped-def]
            return Draws(truth.tokens.unsqueeze(1), truth.mask.unsqueeze(1), None)

    def lengths(candidates: Tensor, references: Tensor) -> Tensor:
        return (candidates >= 0).sum(-1).double()

    sequence = ss.Rewarded(lengths, Given(0.8), 0.5, 1, weights="batch", against="target")
    objective = ss.Objective(sequence, specials=SPECIALS, vocab_size=V)
    padded = torch.cat([TARGETS, torch.full((2, 4), PAD)])
    alone, beside = objective.propose(TARGETS), objective.propose(padded)
    torch.testing.assert_close(beside.target.weights[:2], alone.target.weights, atol=1e-12, rtol=0)
    torch.testing.assert_close(beside.ess, alone.ess, atol=1e-12, rtol=0)
    cold = ss.Rewarded(lambda c, r: -lengths(c, r), Given(0.8), 1e-320, 1, weights="batch", against="target")
    target = ss.Objective(cold, specials=SPECIALS, vocab_size=V).propose(padded).target
    assert target.weights[:2, 0, 0, 1].tolist() == pytest.approx([0, 2])  # the shortest real item takes all
    other = ss.Rewarded(lengths, ss.Hamming(0.8, samples=None), 0.5, 3)
    flat = ss.Objective(other, specials=SPECIALS, vocab_size=V).propose(padded, references=padded.unsqueeze(1))
    assert flat.ess.item() == pytest.approx(3)  # equal scores; items without a position are not averaged over


@pytest.mark.parametrize("token", list(EVERY_TOKEN))
def test_a_sample_that_has_ended_says_nothing_more(token: str) -> None:
    """The mass of a position is that of the sequences which reach it, whatever law spreads it."""

    class Shorter(ss.Hamming):
        def draw(self, truth, count, generator):  # type: ignore[no-untyped-def]
            tokens, mask = (part.unsqueeze(1).expand(-1, count, -1) for part in (truth.tokens, truth.mask))
            return Draws(tokens, mask & (torch.arange(mask.shape[-1]) < 1), None)

    sequence = ss.Rewarded(ss.rewards.Constant(), Shorter(0.8), 1.0, 2, alpha=0.6, against="target")
    target = ss.Objective(sequence, EVERY_TOKEN[token](), specials=SPECIALS, vocab_size=V).propose(TARGETS).target
    masses = [[1, 0.4, 0.4, 0], [1, 0.4, 0, 0]]
    torch.testing.assert_close(target.dense(V).sum(-1)[:, 0], torch.tensor(masses, dtype=torch.float64))


def test_a_single_item_has_all_its_samples() -> None:
    for kind, count in (("tilted", 3), ("literal", 3), ("batch", 3), ("batch", 1)):
        proposal = ss.Hamming(rate=0.0)  # so that all samples are alike
        sequence = ss.Rewarded(ss.rewards.Constant(), proposal, 1.0, count, weights=kind, against="target")
        candidates = ss.Objective(sequence, specials=SPECIALS, vocab_size=V).propose(TARGETS[:1])
        assert candidates.ess.item() == pytest.approx(count)
