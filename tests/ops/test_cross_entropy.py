"""The heart against loops over tokens and against torch's own loss on dense targets."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from oracles.known_mass import (
    ADD,
    EMPTY,
    EXACT,
    REDUCTIONS,
    N,
    V,
    doubles,
    oracle_gradient,
    oracle_loss,
    part_of,
    random_logits,
    with_gradient,
)
from seqsmooth.ops.cross_entropy import reduced_job
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("ignore_index", [-100, -1, 3])
@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (3, 1, 4), (1, 1, 1, 2)])
def test_labels_are_those_of_torch(shape: tuple[int, ...], ignore_index: int, reduction: str) -> None:
    logits = random_logits(*shape, V, seed=len(shape))
    labels = torch.randint(V, shape, generator=torch.Generator().manual_seed(1)).reshape(-1)
    labels[labels == 3] = 4
    labels[1::2] = ignore_index
    leaf = logits.clone().requires_grad_()
    expected = F.cross_entropy(leaf.reshape(-1, V), labels, ignore_index=ignore_index, reduction=reduction)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), leaf)
    loss, gradient = with_gradient(logits, labels.reshape(shape), ignore_index=ignore_index, reduction=reduction)
    assert loss.shape == (shape if reduction == "none" else ())
    torch.testing.assert_close(loss.reshape(-1), expected.detach().reshape(-1), **EXACT)
    torch.testing.assert_close(gradient, expected_gradient, **EXACT)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_any_whole_type(dtype: torch.dtype) -> None:
    logits, labels = random_logits(3, 200), torch.tensor([0, 156, 199])
    torch.testing.assert_close(ss.cross_entropy(logits, labels.to(dtype)), F.cross_entropy(logits, labels), **EXACT)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_dense_probabilities_are_those_of_torch(shape: tuple[int, ...], reduction: str) -> None:
    logits = random_logits(*shape, V)
    probabilities = random_logits(*shape, V, seed=1).softmax(-1)
    leaf = logits.clone().requires_grad_()
    expected = F.cross_entropy(leaf.reshape(-1, V), probabilities.reshape(-1, V), reduction=reduction)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), leaf)
    loss, gradient = with_gradient(logits, ss.SoftTarget.from_dense(probabilities), reduction=reduction)
    assert loss.shape == (shape if reduction == "none" else ())
    torch.testing.assert_close(loss.reshape(-1), expected.detach().reshape(-1), **EXACT)
    torch.testing.assert_close(gradient, expected_gradient, **EXACT)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_label_smoothing_is_that_of_torch(epsilon: float, reduction: str) -> None:
    logits, labels = random_logits(2, 3, V), torch.tensor([[0, EMPTY, 6], [3, 3, EMPTY]])
    uniform = DenseTable.of(torch.full((1, V), 1 / V, dtype=torch.float64))
    index = torch.zeros(2, 3, 1, dtype=torch.long)
    background = Rows(uniform, index, torch.full((2, 3, 1), epsilon, dtype=torch.float64))
    slots = torch.full((2, 3, 1), 1 - epsilon, dtype=torch.float64)
    target = ss.SoftTarget(labels.unsqueeze(-1), slots, (background,)).where(labels != EMPTY)
    expected = F.cross_entropy(logits.view(-1, V), labels.view(-1), reduction=reduction, label_smoothing=epsilon)
    loss = ss.cross_entropy(logits, target, reduction=reduction)
    torch.testing.assert_close(loss.reshape(-1), expected.reshape(-1), **EXACT)


@pytest.mark.parametrize("kind", [*ADD, "all"])
def test_any_target_is_its_dense_mass(kind: str) -> None:
    logits, part = random_logits(N, V), part_of(kind)
    loss, gradient = with_gradient(logits, part.target(), reduction="none")
    expected = [oracle_loss(row, mass) for row, mass in zip(logits.tolist(), part.mass, strict=True)]
    slopes = [oracle_gradient(row, mass) for row, mass in zip(logits.tolist(), part.mass, strict=True)]
    torch.testing.assert_close(loss, doubles(expected), **EXACT)
    torch.testing.assert_close(gradient, doubles(slopes), **EXACT)


@pytest.mark.parametrize("kind", [*ADD, "all"])
def test_reductions_agree(kind: str) -> None:
    logits, target = random_logits(N, V), part_of(kind).target().where(torch.arange(N) != 1)
    rows = ss.cross_entropy(logits, target, reduction="none").tolist()
    assert rows[1] == 0
    torch.testing.assert_close(ss.cross_entropy(logits, target, reduction="sum"), doubles(math.fsum(rows)), **EXACT)
    torch.testing.assert_close(ss.cross_entropy(logits, target), doubles(math.fsum(rows) / (N - 1)), **EXACT)


def test_many_leading_dimensions() -> None:
    part = part_of("all")
    flat, logits = part.target(), random_logits(N, V)

    def shaped(values: Tensor) -> Tensor:
        return values.reshape(1, N, 1, values.shape[-1])

    rows = tuple(Rows(row.table, shaped(row.index), shaped(row.weights)) for row in flat.rows)
    target = ss.SoftTarget(shaped(flat.ids), shaped(flat.weights), rows)
    loss = ss.cross_entropy(shaped(logits), target, reduction="none")
    assert loss.shape == (1, N, 1)
    torch.testing.assert_close(loss.view(N), ss.cross_entropy(logits, flat, reduction="none"), **EXACT)


def test_strides_do_not_matter() -> None:
    logits, labels = random_logits(V, 4, 3), torch.randint(V, (3, 4), generator=torch.Generator().manual_seed(2))
    turned = logits.permute(2, 1, 0)
    assert not turned.is_contiguous()
    torch.testing.assert_close(
        ss.cross_entropy(turned, labels), F.cross_entropy(turned.reshape(-1, V), labels.view(-1)), **EXACT
    )


def test_nothing_is_mutated() -> None:
    logits, target = random_logits(N, V), part_of("all").target()
    tensors = [logits, target.ids, target.weights, *(t for row in target.rows for t in (row.index, row.weights))]
    before = [tensor.clone() for tensor in tensors]
    with_gradient(logits, target)
    for tensor, old in zip(tensors, before, strict=True):
        torch.testing.assert_close(tensor, old, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("items", [3, 7.5, torch.tensor(11), torch.tensor(2.5), torch.tensor([4])])
def test_num_items_is_the_divisor(items: float | Tensor) -> None:
    logits, target = random_logits(N, V), part_of("all").target()
    total = ss.cross_entropy(logits, target, reduction="sum")
    torch.testing.assert_close(ss.cross_entropy(logits, target, num_items=items), total / float(items), **EXACT)


def test_num_items_may_be_counted_elsewhere() -> None:
    """As on the host, for logits of a GPU, whose kernels read it; no device but "meta" is sure to be another one."""
    target = ss.SoftTarget.from_labels(torch.zeros(3, dtype=torch.long, device="meta"))
    items = reduced_job(target, "mean", torch.tensor([7])).items
    assert items is not None
    assert items.device == target.ids.device
    assert items.shape == ()


@pytest.mark.parametrize("sizes", [[2, 3], [1, 1, 1, 1, 1], [0, 5], [4, 1]])
def test_micro_batches_sum_to_the_whole(sizes: list[int]) -> None:
    logits = random_logits(N, V)
    target = part_of("all").target().where(torch.tensor([True, True, False, True, True]))
    whole, gradient = with_gradient(logits, target)
    losses, gradients, start = [], [], 0
    for size in sizes:
        part = slice(start, start + size)
        loss, slope = with_gradient(logits[part], target[part], num_items=4)
        losses.append(loss)
        gradients.append(slope)
        start += size
    torch.testing.assert_close(torch.stack(losses).sum(), whole, **EXACT)
    torch.testing.assert_close(torch.cat(gradients), gradient, **EXACT)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_two_tokens_are_logistic(share: float) -> None:
    gaps = [-30.0, -1.0, 0.0, 2.5, 40.0]
    logits = doubles([[1.0, 1.0 + gap] for gap in gaps])
    target = ss.SoftTarget.from_dense(doubles([[1 - share, share]] * len(gaps)))
    expected = [(1 - share) * math.log1p(math.exp(gap)) + share * math.log1p(math.exp(-gap)) for gap in gaps]
    torch.testing.assert_close(ss.cross_entropy(logits, target, reduction="none"), doubles(expected), **EXACT)
