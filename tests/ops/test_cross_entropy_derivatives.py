"""Derivatives of the heart, and the entropy and the likelihood that it finds beside the loss."""

from __future__ import annotations

import math

import pytest
import torch

import seqsmooth as ss
from oracles.known_mass import ADD, EMPTY, EXACT, N, V, doubles, part_of, random_logits, with_gradient
from seqsmooth.ops.cross_entropy import Job, losses


@pytest.mark.parametrize("kind", [*ADD, "all"])
def test_derivatives(kind: str) -> None:
    target = part_of(kind).target().where(torch.arange(N) != 3)
    leaf = random_logits(N, V).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: ss.cross_entropy(z, target), (leaf,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda z: ss.cross_entropy(z, target), (leaf,))


@pytest.mark.parametrize("kind", ["labels", "all"])
def test_functional_transforms(kind: str) -> None:
    target = torch.tensor([0, EMPTY, 6, 2, 2]) if kind == "labels" else part_of(kind).target()
    logits = random_logits(3, N, V)
    each = [with_gradient(logits[k], target)[1] for k in range(3)]
    torch.testing.assert_close(torch.func.grad(lambda z: ss.cross_entropy(z, target))(logits[0]), each[0], **EXACT)
    mapped = torch.func.vmap(torch.func.grad(lambda z: ss.cross_entropy(z, target)))(logits)
    torch.testing.assert_close(mapped, torch.stack(each), **EXACT)
    jacobian = torch.func.jacrev(lambda z: ss.cross_entropy(z, target, reduction="none"))(logits[0])
    _, slopes = with_gradient(logits[0], target, reduction="none")
    expected = torch.zeros(N, N, V, dtype=torch.float64)
    expected[range(N), range(N)] = slopes
    torch.testing.assert_close(jacobian, expected, **EXACT)


def test_the_hessian_is_that_of_log_sum_exp() -> None:
    logits = random_logits(1, V)
    target = ss.SoftTarget(torch.tensor([[1, 2]]), doubles([[0.4, 1.1]]))
    p = logits[0].softmax(-1)
    hessian = torch.func.hessian(lambda z: ss.cross_entropy(z, target))(logits).view(V, V)
    torch.testing.assert_close(hessian, 1.5 * (p.diag() - torch.outer(p, p)), **EXACT)


def test_entropy_and_likelihood_of_each_row() -> None:
    logits = random_logits(N, V)
    logits[0, 3] = -math.inf
    labels, weights = torch.tensor([1, EMPTY, 6, EMPTY, 0]), doubles([0.5, 2.0, 0.0, 1.0, 3.0])
    target = ss.SoftTarget.from_labels(torch.tensor([1, 5, 2, EMPTY, 0]), dtype=torch.float64)
    leaf = logits.clone().requires_grad_()
    found = losses(leaf, Job(target, labels, weights))
    assert not found.nll.requires_grad
    for n, row in enumerate(logits.tolist()):
        top = max(row)
        total = math.fsum(math.exp(z - top) for z in row)
        logs = [z - top - math.log(total) for z in row]
        entropy = -math.fsum(math.exp(log) * log for log in logs if log > -math.inf)
        label, own = int(labels[n]), int(target.ids[n])
        plain = -logs[own] - float(weights[n]) * entropy if own != EMPTY else 0.0
        torch.testing.assert_close(found.smoothed[n].detach(), doubles(plain), **EXACT)
        torch.testing.assert_close(found.nll[n], doubles(0.0 if label == EMPTY else -logs[label]), **EXACT)
    (gradient,) = torch.autograd.grad(found.smoothed.sum(), leaf)
    assert bool(gradient.isfinite().all())
    assert torch.autograd.gradcheck(
        lambda z: losses(z, Job(target, entropy_weights=weights)).smoothed, (random_logits(N, V).requires_grad_(),)
    )
