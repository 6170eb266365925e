"""Identities the losses must satisfy, whatever the numbers."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss

B, T, V, R = 3, 4, 6, 2


def batch(seed: int = 0, size: int = B) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(size, T, V, dtype=torch.float64, generator=generator)
    targets = torch.randint(V, (size, T), generator=generator)
    targets[0, 2:] = -100
    references = torch.randint(V, (size, R, T), generator=generator)
    return logits, targets, references


VECTORS = torch.randn(V, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
COUNTS = torch.arange(1.0, V + 1, dtype=torch.float64)


def token_laws(alpha: float) -> dict[str, ss.smoothing.token_law.TokenLaw]:
    return {
        "uniform": ss.Uniform(alpha),
        "similarity": ss.Similarity(VECTORS, 0.5, alpha=alpha),
        "r^freq": ss.Similarity(VECTORS, 0.5, 0.4, COUNTS, alpha),
        "top-k": ss.Similarity(VECTORS, 0.5, alpha=alpha, mode="top-k", k=2),
        "sampled": ss.Similarity(VECTORS, 0.5, alpha=alpha, mode="sampled", k=2),
    }


def sequence_laws(alpha: float, samples: int | None) -> dict[str, ss.smoothing.sequence_law.SequenceLaw]:
    reward = ss.rewards.Hamming()
    return {
        "vocab": ss.Hamming(tau=0.8, alpha=alpha, samples=samples),
        "batch": ss.Hamming(tau=0.8, pool="batch", alpha=alpha, samples=samples),
        "refs": ss.Hamming(rate=0.5, pool="refs", alpha=alpha, samples=samples),
        "rewarded": ss.Rewarded(reward, ss.Hamming(tau=0.8, pool="refs"), 0.7, samples or 2, alpha),
    }


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("token", [None, *token_laws(0.0)])
@pytest.mark.parametrize("sequence", [None, *sequence_laws(0.0, None)])
def test_alpha_zero_is_cross_entropy(sequence: str | None, token: str | None, reduction: str) -> None:
    logits, targets, references = batch()
    objective = ss.Objective(
        sequence_laws(0.0, None)[sequence] if sequence else None,
        token_laws(0.0)[token] if token else None,
        vocab_size=V,
    )
    candidates = objective.propose(targets, references=references)
    loss = objective(logits, candidates, reduction=reduction)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)
    torch.testing.assert_close(loss.total.flatten(), expected.flatten(), atol=1e-12, rtol=0)
    torch.testing.assert_close(loss.nll.flatten(), expected.flatten(), atol=1e-12, rtol=0)
    assert loss.tokens == (targets != -100).sum()


@pytest.mark.parametrize("samples", [1, 3])
def test_alpha_zero_is_cross_entropy_on_own_prefixes(samples: int) -> None:
    logits, targets, references = batch()
    for sequence in (*sequence_laws(0.0, samples + 1).values(), ss.Edit(1.0, alpha=0.0, samples=samples)):
        objective = ss.Objective(sequence, lazy=False, vocab_size=V)
        candidates = objective.propose(targets, references=references)
        decoded = torch.randn(*candidates.sequences.shape, V, dtype=torch.float64)
        decoded[:, 0, :T] = logits
        expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss = objective(decoded, candidates)
        torch.testing.assert_close(loss.total, expected, atol=1e-12, rtol=0)
        torch.testing.assert_close(loss.nll, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
@pytest.mark.parametrize("tau", [0.2, 0.8, 3.0])
def test_lazy_hamming_over_the_vocabulary_is_label_smoothing(tau: float, alpha: float) -> None:
    """With e = alpha pi V / (V - 1), pi = sigmoid(ln(V - 1) - 1 / tau)."""
    logits, targets, _ = batch()
    flip = 1 / (1 + math.exp(1 / tau) / (V - 1))
    epsilon = alpha * flip * V / (V - 1)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=epsilon)
    torch.testing.assert_close(ss.seq(tau, alpha=alpha)(logits, targets).total, expected, atol=1e-12, rtol=0)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=alpha / 4)
    torch.testing.assert_close(ss.label_smoothing(alpha / 4)(logits, targets).total, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("tau", [1e-300, 1e-5])
def test_a_small_temperature_gives_dirac(tau: float) -> None:
    logits, targets, references = batch()
    expected = ss.mle()(logits, targets).total
    for sequence, token in (
        (ss.Hamming(tau=tau), None),
        (ss.Hamming(tau=tau, pool="refs"), None),
        (None, ss.Similarity(VECTORS, tau)),
        (ss.Hamming(tau=tau), ss.Similarity(VECTORS, tau)),
    ):
        objective = ss.Objective(sequence, token, vocab_size=V)
        total = objective(logits, objective.propose(targets, references=references)).total
        torch.testing.assert_close(total, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("tau", [1e13, math.inf])
def test_a_large_temperature_gives_uniform(tau: float) -> None:
    logits, targets, _ = batch()
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=1.0)
    for objective in (ss.seq(tau), ss.tok(VECTORS, tau, 1.0)):
        torch.testing.assert_close(objective(logits, targets).total, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("token", [None, *token_laws(0.0)])
@pytest.mark.parametrize("sequence", [None, *sequence_laws(0.0, None)])
def test_the_gradient_is_mass_times_softmax_minus_target(sequence: str | None, token: str | None) -> None:
    logits, targets, references = batch()
    objective = ss.Objective(
        sequence_laws(0.7, None)[sequence] if sequence else None,
        token_laws(0.4)[token] if token else None,
        vocab_size=V,
    )
    candidates = objective.propose(targets, references=references)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(objective(logits, candidates, reduction="sum").total, logits)
    target = candidates.target.dense(V).squeeze(1)
    mass = (targets != -100).double().unsqueeze(-1)
    torch.testing.assert_close(target.sum(-1, keepdim=True), mass, atol=1e-12, rtol=0)
    assert (target >= -1e-12).all()
    torch.testing.assert_close(gradient, mass * logits.softmax(-1) - target, atol=1e-12, rtol=0)


@pytest.mark.parametrize("lazy", [True, False])
def test_the_four_terms_of_tok_seq(lazy: bool) -> None:
    """Eq. 17: a1 E[a2 Tok(y) + (1 - a2) MLE(y)] + (1 - a1)(a2 Tok(y*) + (1 - a2) MLE(y*)), on one set of samples."""
    _, targets, references = batch()
    a1, a2, samples = 0.6, 0.7, 3

    def loss(seq_alpha: float, tok_alpha: float) -> Tensor:
        sequence = ss.Hamming(tau=0.8, pool="refs", alpha=seq_alpha, samples=samples, integrate=False)
        objective = ss.Objective(sequence, ss.Similarity(VECTORS, 0.5, alpha=tok_alpha), lazy=lazy)
        candidates = objective.propose(targets, references=references, generator=torch.Generator().manual_seed(3))
        shape = (*candidates.sequences.shape, V)
        decoded = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
        return objective(decoded, candidates).total

    terms = a1 * (a2 * loss(1, 1) + (1 - a2) * loss(1, 0)) + (1 - a1) * (a2 * loss(0, 1) + (1 - a2) * loss(0, 0))
    torch.testing.assert_close(loss(a1, a2), terms, atol=1e-12, rtol=0)


def test_entropy_is_that_of_the_model() -> None:
    logits, targets, _ = batch()
    log_probs = logits.log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)[targets != -100].mean()
    plain, regularised = ss.mle()(logits, targets), ss.mle(entropy=0.3)(logits, targets)
    torch.testing.assert_close(regularised.total, plain.total - 0.3 * entropy, atol=1e-12, rtol=0)
    torch.testing.assert_close(regularised.nll, plain.nll, atol=0, rtol=0)


def test_entropy_on_own_prefixes_is_weighted_like_them() -> None:
    _, targets, references = batch(size=2)
    targets = targets.clone()
    losses = []
    for gamma in (0.0, 0.3):
        sequence = ss.Hamming(0.8, pool="refs", alpha=0.4, samples=2)
        objective = ss.Objective(sequence, lazy=False, entropy=gamma)
        candidates = objective.propose(targets, references=references, generator=torch.Generator().manual_seed(1))
        shape = (*candidates.sequences.shape, V)
        decoded = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        losses.append(objective(decoded, candidates).total)
    log_probs = decoded.log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1) * (targets != -100).unsqueeze(1)
    weighted = (entropy.sum(-1) * torch.tensor([0.6, 0.2, 0.2], dtype=torch.float64)).sum() / (targets != -100).sum()
    torch.testing.assert_close(losses[0] - losses[1], 0.3 * weighted, atol=1e-12, rtol=0)


def splits() -> dict[str, ss.Objective]:
    """Objectives whose items do not look at each other; V_batch and weights="batch" do, by definition."""
    return {
        "mle": ss.mle(entropy=0.1),
        "label smoothing": ss.label_smoothing(0.1, vocab_size=V),
        "tok": ss.tok(VECTORS, 0.5, 0.3),
        "seq vocab": ss.seq(0.8, alpha=0.3, vocab_size=V),
        "tok-seq refs": ss.tok_seq(VECTORS, 0.5, 0.3, 0.8, pool="refs", alpha=0.5),
    }


@pytest.mark.parametrize("name", splits())
def test_micro_batches_change_nothing(name: str) -> None:
    objective = splits()[name]
    logits, targets, references = batch(size=6)
    items = (targets != -100).sum()
    whole = objective(logits.requires_grad_(), objective.propose(targets, references=references))
    (gradient,) = torch.autograd.grad(whole.total, logits)
    parts, gradients = [], []
    for rows in (slice(0, 1), slice(1, 4), slice(4, 6)):
        part = logits.detach()[rows].requires_grad_()
        candidates = objective.propose(targets[rows], references=references[rows])
        loss = objective(part, candidates, num_items=items)
        parts.append(torch.stack([loss.total.detach(), loss.nll]))
        gradients.append(torch.autograd.grad(loss.total, part)[0])
    torch.testing.assert_close(sum(parts), torch.stack([whole.total.detach(), whole.nll]), atol=1e-12, rtol=0)
    torch.testing.assert_close(torch.cat(gradients), gradient, atol=1e-12, rtol=0)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), more=st.integers(1, 3), data=st.data())
def test_permuting_and_padding_change_nothing(seed: int, more: int, data: st.DataObject) -> None:
    logits, targets, references = batch(seed)
    order = torch.tensor(data.draw(st.permutations(range(B))))
    names = ["mle", "label smoothing", "tok", "seq vocab", "tok-seq refs"]
    objectives = splits() | {
        "batch": ss.Objective(ss.Hamming(0.8, pool="batch"), ss.Similarity(VECTORS, 0.5, alpha=0.3))
    }
    for name in (*names, "batch"):
        objective = objectives[name]
        plain = objective(logits, objective.propose(targets, references=references)).total
        candidates = objective.propose(targets[order], references=references[order].flip(1))
        permuted = objective(logits[order], candidates).total
        wider = F.pad(logits, (0, 0, 0, more), value=math.nan)
        candidates = objective.propose(
            F.pad(targets, (0, more), value=-100), references=F.pad(references, (0, more), value=-1)
        )
        padded = objective(wider, candidates).total
        torch.testing.assert_close(torch.stack([permuted, padded]), plain.expand(2), atol=1e-12, rtol=0)


def test_head_equals_call() -> None:
    generator = torch.Generator().manual_seed(5)
    _, targets, references = batch()
    weight = torch.randn(V, 7, dtype=torch.float64, generator=generator, requires_grad=True)
    bias = torch.randn(V, dtype=torch.float64, generator=generator, requires_grad=True)
    for (_, sequence), lazy, chunk in itertools.product(sequence_laws(0.6, 2).items(), (True, False), (1, 5, None)):
        objective = ss.Objective(sequence, ss.Similarity(VECTORS, 0.5, alpha=0.4), lazy=lazy, entropy=0.2)
        candidates = objective.propose(targets, references=references, generator=generator)
        hidden = torch.randn(
            *candidates.sequences.shape, 7, dtype=torch.float64, generator=generator, requires_grad=True
        )
        inputs = (hidden, weight, bias)
        called = objective(hidden @ weight.T + bias, candidates)
        headed = objective.head(hidden, weight, candidates, bias, chunk=chunk)
        for one, other in ((called.total, headed.total), (called.nll, headed.nll)):
            torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
        for one, other in zip(
            torch.autograd.grad(called.total, inputs), torch.autograd.grad(headed.total, inputs), strict=True
        ):
            torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_one_reference_is_enough() -> None:
    """With V_refs over the ground truth alone, and one token, nothing can change."""
    logits, targets, _ = batch()
    objective = ss.Objective(ss.Hamming(0.8, pool="refs"), vocab_size=V)
    alone = objective.propose(targets[:, :1], references=targets[:, None, :1])
    expected = F.cross_entropy(logits[:, 0], targets[:, 0])
    torch.testing.assert_close(objective(logits[:, :1], alone).total, expected, atol=1e-12, rtol=0)
