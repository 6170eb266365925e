"""The heart in half precision: what is summed is wide."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import seqsmooth as ss
from oracles.known_mass import ADD, EMPTY, N, V, doubles, oracle_gradient, oracle_loss, part_of, random_logits
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, SparseTable


@pytest.mark.parametrize("kind", ["labels", *ADD, "all"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_sums_are_wide(dtype: torch.dtype, kind: str) -> None:
    logits = (random_logits(N, V) + 40).to(dtype)
    labels = torch.tensor([0, 2, EMPTY, 6, 1])
    target = labels if kind == "labels" else part_of(kind).target()
    mass = F.one_hot(labels.clamp_min(0), V).double() * (labels >= 0).unsqueeze(-1)
    mass = mass if kind == "labels" else doubles(part_of(kind).mass)
    leaf = logits.clone().requires_grad_()
    loss = ss.cross_entropy(leaf, target, reduction="none")
    loss.sum().backward()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert leaf.grad is not None
    assert leaf.grad.dtype == dtype
    rows = list(zip(logits.double().tolist(), mass.tolist(), strict=True))
    near = 1e-12 if dtype == torch.float64 else 1e-6
    losses = doubles([oracle_loss(row, q) for row, q in rows])
    # c * lse - <q, z> subtracts numbers of the size of the logits, here 40, so that is what rounding is relative to.
    torch.testing.assert_close(loss.double(), losses, rtol=near, atol=40 * near)
    slopes = doubles([oracle_gradient(row, q) for row, q in rows])
    torch.testing.assert_close(leaf.grad.double(), slopes, rtol=torch.finfo(dtype).eps, atol=10 * near)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_equal_singles_on_the_rounded_logits(dtype: torch.dtype) -> None:
    logits, labels = random_logits(4, 300).to(dtype), torch.tensor([0, 299, 5, 17])
    loss = ss.cross_entropy(logits, labels)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, F.cross_entropy(logits.float(), labels), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", ["dense", "one row", "sparse", "slots"])
def test_targets_in_half_precision_lose_nothing_more(form: str, dtype: torch.dtype) -> None:
    size = 300
    mass = random_logits(2, size, seed=3).softmax(-1).to(dtype)
    tokens, empty = torch.arange(size).expand(2, size), torch.full((2, 1), EMPTY)
    pair = torch.tensor([[0.3, 0.4037], [0.1, 0.7]]).to(dtype)
    index = torch.zeros(2, 2, dtype=torch.long) if form == "one row" else torch.tensor([[0, 1], [1, 1]])
    if form == "slots":
        target, full = ss.SoftTarget(tokens, mass), mass.double()
    else:
        table = (
            SparseTable(tokens, mass, size)
            if form == "sparse"
            else DenseTable.of(mass[: 1 if form == "one row" else 2])
        )
        target = ss.SoftTarget(empty, torch.ones(2, 1, dtype=dtype), (Rows(table, index, pair),))
        full = (pair.double().unsqueeze(-1) * mass.double()[index]).sum(1)
    logits = random_logits(2, size).float()
    loss = ss.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(loss.double(), -(full * logits.double().log_softmax(-1)).sum(-1), rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_in_half_precision(dtype: torch.dtype) -> None:
    logits, probabilities = (
        random_logits(4, 300).float(),
        (0.7037 * random_logits(4, 300, seed=3).softmax(-1)).to(dtype),
    )
    expected = F.cross_entropy(logits.double(), probabilities.double())
    loss = ss.cross_entropy(logits, ss.SoftTarget.from_dense(probabilities))
    torch.testing.assert_close(loss.double(), expected, rtol=2e-6, atol=0)
