"""The distance to a teacher's best tokens, against whole distributions."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.teachers import V, pair


def dense_target(store: ss.TopK, tail: str) -> Tensor:
    """What a tail makes of a store, a token at a time."""
    shape = store.ids.shape[:-1]
    full = torch.zeros(*shape, V, dtype=torch.double)
    for place in torch.cartesian_prod(*(torch.arange(size) for size in shape)).tolist():
        listed = {
            int(i): math.exp(p) for i, p in zip(store.ids[*place], store.logprobs[*place], strict=True) if p > -50
        }
        total = sum(listed.values())
        for token in range(V):
            if tail == "uniform" and token not in listed:
                full[*place, token] = (1 - total) / (V - len(listed))
            elif token in listed:
                full[*place, token] = listed[token] / (total if tail == "renormalise" else 1)
    return full


def kl(target: Tensor, log_probs: Tensor) -> Tensor:
    return torch.where(target > 0, target * (target.clamp_min(1e-300).log() - log_probs), 0).sum(-1)


@pytest.mark.parametrize("tail", ["zero", "uniform", "renormalise"])
@pytest.mark.parametrize("k", [1, 4, V])
def test_every_tail_is_the_kl_of_the_whole_distribution(tail: str, k: int) -> None:
    student, _, store = pair(k, k)
    student.requires_grad_()
    found = ss.forward_kl(student, store, tail=tail, reduction="none")  # type: ignore[arg-type]
    wanted = kl(dense_target(store, tail), student.log_softmax(-1))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    slopes = [torch.autograd.grad(loss.mean(), student, retain_graph=True)[0] for loss in (found, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-9)


def test_a_list_of_all_tokens_is_torchs_kl_div() -> None:
    student, teacher, store = pair(0, V)
    wanted = F.kl_div(student.log_softmax(-1), teacher, log_target=True, reduction="none").sum(-1)
    for tail in ("zero", "uniform", "renormalise", "bucket"):
        found = ss.forward_kl(student, store, tail=tail, reduction="none")  # type: ignore[arg-type]
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@given(seed=st.integers(0, 10_000), k=st.integers(1, V - 1))
def test_the_bucket_is_the_kl_of_k_plus_one_outcomes_and_never_more_than_the_whole(seed: int, k: int) -> None:
    student, teacher, store = pair(seed, k)
    student.requires_grad_()
    found = ss.forward_kl(student, store, tail="bucket", reduction="none")
    listed = torch.zeros(2, 3, V, dtype=torch.bool).scatter(-1, store.ids, True)
    ours, theirs = (part.exp().masked_fill(listed, 0).sum(-1) for part in (student.log_softmax(-1), teacher))
    wanted = theirs * (theirs / ours).log() + (
        (teacher.exp() * (teacher - student.log_softmax(-1))).masked_fill(~listed, 0).sum(-1)
    )
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)
    slopes = [torch.autograd.grad(loss.sum(), student, retain_graph=True)[0] for loss in (found, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-7)
    whole = F.kl_div(student.log_softmax(-1), teacher, log_target=True, reduction="none").sum(-1)
    assert bool((found <= whole + 1e-7).all())
    assert bool((found >= -1e-7).all())


def test_the_bucket_is_trls() -> None:
    trainer = pytest.importorskip("trl.experimental.server_distillation.server_distillation_trainer")
    student, _, store = pair(3, 4)
    listed = torch.ones_like(store.ids, dtype=torch.bool)
    own, mask = trainer._add_tail_bucket(student.log_softmax(-1).gather(-1, store.ids), listed)
    theirs, _ = trainer._add_tail_bucket(store.logprobs, listed)
    wanted = trainer._jsd_divergence(own, theirs, beta=0.0, support_mask=mask).sum(-1)
    found = ss.forward_kl(student, store, tail="bucket", reduction="none")
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_positions_without_a_teacher_or_outside_the_mask_count_for_nothing() -> None:
    student, _, store = pair(1, 3)
    logprobs = store.logprobs.clone()
    logprobs[0, 1] = -math.inf
    mask = torch.ones(2, 3, dtype=torch.bool)
    mask[1, 2] = False
    student[0, 1], student[1, 2] = math.nan, math.nan
    student.requires_grad_()
    for tail in ("zero", "uniform", "renormalise", "bucket"):
        each = ss.forward_kl(student, ss.TopK(store.ids, logprobs), tail=tail, mask=mask, reduction="none")  # type: ignore[arg-type]
        assert each[0, 1] == 0
        assert each[1, 2] == 0
        mean = ss.forward_kl(student, ss.TopK(store.ids, logprobs), tail=tail, mask=mask)  # type: ignore[arg-type]
        torch.testing.assert_close(mean, each.sum() / 4)
        assert bool(torch.autograd.grad(mean, student)[0].isfinite().all())
    total = ss.forward_kl(student, ss.TopK(store.ids, logprobs), mask=mask, reduction="sum")
    torch.testing.assert_close(ss.forward_kl(student, ss.TopK(store.ids, logprobs), mask=mask, num_items=8), total / 8)


@pytest.mark.parametrize("items", [8, torch.tensor(8), torch.tensor([8]), torch.tensor([[8.0]])])
def test_the_number_of_items_of_any_shape_gives_one_number(items: Any) -> None:
    student, _, store = pair(1, 3)
    total = ss.forward_kl(student, store, reduction="sum")
    torch.testing.assert_close(ss.forward_kl(student, store, num_items=items), total / 8)


def test_padding_in_a_list_does_not_close_a_token_of_the_bucket() -> None:
    student, _, store = pair(2, 2)
    padded = ss.TopK(
        torch.cat([store.ids, torch.full((2, 3, 1), -100)], -1),
        torch.cat([store.logprobs, torch.full((2, 3, 1), -math.inf, dtype=torch.double)], -1),
    )
    torch.testing.assert_close(
        ss.forward_kl(student, padded, tail="bucket"), ss.forward_kl(student, store, tail="bucket")
    )


def test_from_hidden_states_it_is_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 3, 5, generator=generator, dtype=torch.double)
    weight = torch.randn(V, 5, generator=generator, dtype=torch.double)
    _, _, store = pair(0, 4)
    for tail in ("zero", "uniform", "renormalise"):
        found = ss.forward_kl(hidden, store, weight=weight, tail=tail)  # type: ignore[arg-type]
        torch.testing.assert_close(found, ss.forward_kl(hidden @ weight.T, store, tail=tail))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`tail` must be one of 'zero', 'uniform', 'renormalise' with `weight`"):
        ss.forward_kl(hidden, store, weight=weight, tail="bucket")


@pytest.mark.parametrize("tail", ["zero", "uniform", "renormalise"])
def test_the_teacher_of_an_objective_has_the_same_gradient(tail: Any) -> None:
    student, teacher, store = pair(5, 4)
    student.requires_grad_()
    labels = teacher.argmax(-1)
    loss = ss.Objective(token=ss.Teacher(*store, tail=tail))(student, labels)
    ours = torch.autograd.grad(loss.total, student)[0]
    torch.testing.assert_close(ours, torch.autograd.grad(ss.forward_kl(student, store, tail=tail), student)[0])
    entropy = store.entropy(tail=tail, vocab_size=V).mean()
    torch.testing.assert_close(loss.total - entropy, ss.forward_kl(student, store, tail=tail))


@pytest.mark.parametrize("tail", ["zero", "uniform", "renormalise", "bucket"])
def test_a_store_of_nothing_is_no_distance(tail: Any) -> None:
    student = torch.randn(1, 2, V, requires_grad=True)
    loss = ss.forward_kl(student, ss.TopK.from_vllm([[None, None]]), tail=tail)
    loss.backward()
    assert loss == 0
    assert student.grad is not None
    assert not student.grad.any()


@pytest.mark.parametrize("tail", ["zero", "uniform", "renormalise", "bucket"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_masked_does_not_reach_the_gradient(tail: Any, bad: float) -> None:
    student, _, store = pair(0, 3)
    mask = torch.ones(2, 3, dtype=torch.bool)
    mask[0, 1] = False
    clean, dirty = student.clone().requires_grad_(), student.clone()
    dirty[0, 1] = bad
    dirty.requires_grad_()
    for logits in (clean, dirty):
        ss.forward_kl(logits, store, tail=tail, mask=mask).backward()
    assert torch.equal(clean.grad, dirty.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: ss.forward_kl(torch.zeros(1, 2, V), (torch.zeros(1, 2, 1).long(), torch.zeros(1, 2, 1))),  # type: ignore[arg-type]
            "`store` must be a TopK, as TopK(ids, logprobs); it is a tuple.",
        ),
        (
            lambda: ss.forward_kl(torch.tensor(1.0), pair(0, 1)[2]),
            "`logits` must be of shape (..., V); it is a",
        ),
        (
            lambda: ss.forward_kl(torch.zeros(2, 3, 4), pair(0, 1)[2], weight=[1.0]),  # type: ignore[arg-type]
            "`weight` must be a torch.Tensor; it is a list.",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call()
