"""The head in chunks against the same logits in one piece."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import seqsmooth as ss
from seqsmooth.ops import cpu, head
from seqsmooth.ops.cross_entropy import Job, Reduction, as_target, losses
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, SparseTable

N, D, V = 7, 6, 11
EMPTY = -100
EXACT = {"rtol": 1e-12, "atol": 1e-12}
LABELS = torch.tensor([0, 10, EMPTY, 4, 4, EMPTY, 7])


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def mixed_target() -> ss.SoftTarget:
    index = torch.tensor([[0, 1], [2, -1], [-1, -1], [1, 1], [2, 0], [-1, 0], [1, -1]])
    weights = random(N, 2, seed=1)
    units = F.normalize(random(V, 4, seed=2), dim=-1)
    tables = (
        DenseTable.of(random(3, V, seed=3).softmax(-1)),
        DenseTable.of(random(1, V, seed=4).softmax(-1)),
        SparseTable(torch.tensor([[0, 1], [9, 9], [5, 10]]), random(3, 2, seed=5), V),
        SimilarityTable(units, torch.ones(V, dtype=torch.bool), 0.4),
    )
    rows = tuple(Rows(table, index.clamp_max(0) if k == 1 else index, weights) for k, table in enumerate(tables))
    return ss.SoftTarget(LABELS.unsqueeze(-1), random(N, 1, seed=6), rows)


TARGETS: dict[str, Callable[[], ss.SoftTarget | Tensor]] = {
    "labels": lambda: LABELS,
    "dense": lambda: ss.SoftTarget.from_dense(random(N, V, seed=7).softmax(-1)),
    "mixed": mixed_target,
}


def leaves(bias: bool) -> list[Tensor]:
    made = [random(N, D), random(V, D, seed=8), *([random(V, seed=9)] if bias else [])]
    return [leaf.requires_grad_() for leaf in made]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("chunk", [1, 3, N, N + 4, None])
@pytest.mark.parametrize("kind", TARGETS)
def test_chunks_change_nothing(kind: str, chunk: int | None, bias: bool, reduction: str) -> None:
    target, inputs = TARGETS[kind](), leaves(bias)
    hidden, weight, *offset = inputs
    logits = hidden @ weight.T + (offset[0] if bias else 0)
    expected = ss.cross_entropy(logits, target, reduction=reduction)
    loss = ss.linear_cross_entropy(
        hidden, weight, target, bias=offset[0] if bias else None, reduction=reduction, chunk=chunk
    )
    assert loss.shape == expected.shape
    torch.testing.assert_close(loss, expected, **EXACT)
    slopes = torch.arange(1.0, loss.numel() + 1, dtype=torch.float64).view(loss.shape)
    gradients = torch.autograd.grad(loss, inputs, slopes)
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected, inputs, slopes), strict=True):
        torch.testing.assert_close(gradient, wanted, **EXACT)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 1, 2)])
@pytest.mark.parametrize("chunk", [1, 2, None])
def test_any_leading_shape(shape: tuple[int, ...], chunk: int | None) -> None:
    hidden, weight = random(*shape, D), random(V, D, seed=1)
    labels = torch.randint(V, shape, generator=torch.Generator().manual_seed(2))
    loss = ss.linear_cross_entropy(hidden, weight, labels, reduction="none", chunk=chunk)
    assert loss.shape == shape
    expected = F.cross_entropy((hidden @ weight.T).reshape(-1, V), labels.reshape(-1), reduction="none")
    torch.testing.assert_close(loss.reshape(-1), expected, **EXACT)


class Logits(TorchDispatchMode):
    """Records the most elements of any result whose rows are over the vocabulary, the head's own matrix left out."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dim() == 2 and result.shape[-1] == V and result.shape != (D, V):
            self.most = max(self.most, result.numel())
        return result


@pytest.mark.parametrize("grad", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("chunk", [1, 3, N, N + 4])
@pytest.mark.parametrize("kind", ["labels", "dense"])
def test_no_more_than_a_chunk_of_logits(kind: str, chunk: int, grad: bool) -> None:
    target, inputs = TARGETS[kind](), leaves(bias=True)
    with Logits() as seen, torch.set_grad_enabled(grad):
        loss = ss.linear_cross_entropy(inputs[0], inputs[1], target, bias=inputs[2], chunk=chunk)
        if grad:
            torch.autograd.grad(loss, inputs)
    kept = int(as_target(target).kept().sum())
    pieces = -(-kept // chunk)
    assert seen.most == -(-kept // pieces) * V <= chunk * V


@pytest.mark.parametrize("chunk", [1, 3, N, N + 4])
def test_no_more_than_a_chunk_where_it_is_computed_again(chunk: int) -> None:
    inputs = leaves(bias=True)
    with Logits() as seen:
        loss = ss.linear_cross_entropy(inputs[0], inputs[1], LABELS, bias=inputs[2], chunk=chunk, reduction="none")
        torch.autograd.grad(loss.sum(), inputs)
    assert seen.most == min(chunk, N) * V


@pytest.mark.parametrize(("module", "reduction"), [(cpu, "mean"), (head, "none")])
def test_the_default_chunk_is_a_number_of_logits(
    module: ModuleType, reduction: Reduction, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = LABELS.clamp_min(0)
    monkeypatch.setattr(cpu, "LEAST_ROWS", 1)
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 2 * V + 1)
    with Logits() as seen:
        ss.linear_cross_entropy(random(N, D), random(V, D), labels, reduction=reduction)
    assert seen.most == 2 * V
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", V - 1)
    with Logits() as seen:
        ss.linear_cross_entropy(random(N, D), random(V, D), labels, reduction=reduction)
    assert seen.most == V


def test_enough_rows_for_a_good_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "CHUNK_ELEMENTS", V)
    monkeypatch.setattr(cpu, "LEAST_ROWS", 3)
    with Logits() as seen:
        ss.linear_cross_entropy(random(6, D), random(V, D), torch.zeros(6, dtype=torch.int64))
    assert seen.most == 3 * V


@contextmanager
def saved_for_backward() -> Iterator[list[Tensor]]:
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved


def test_no_logits_wait_for_the_backward_pass() -> None:
    hidden, weight = leaves(bias=False)
    with saved_for_backward() as saved:
        ss.linear_cross_entropy(hidden, weight, LABELS, reduction="none")
    assert any(tensor.shape[-1:] == (V,) for tensor in saved)
    with saved_for_backward() as saved:
        ss.linear_cross_entropy(hidden, weight, LABELS)
        ss.linear_cross_entropy(hidden, weight, LABELS, chunk=2, reduction="none")
    assert not any(tensor.shape[-1:] == (V,) for tensor in saved)


@pytest.mark.parametrize("needed", [0, 1, 2])
def test_only_the_gradients_asked_for(needed: int) -> None:
    inputs = [leaf.detach() for leaf in leaves(bias=True)]
    inputs[needed].requires_grad_()
    loss = ss.linear_cross_entropy(inputs[0], inputs[1], LABELS, bias=inputs[2], chunk=2)
    (gradient,) = torch.autograd.grad(loss, inputs[needed])
    expected = F.cross_entropy(F.linear(*inputs), LABELS)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, inputs[needed])[0], **EXACT)


def test_no_gradient_is_needed() -> None:
    hidden, weight = random(N, D), random(V, D, seed=1)
    loss = ss.linear_cross_entropy(hidden, weight, LABELS, chunk=2)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, F.cross_entropy(hidden @ weight.T, LABELS), **EXACT)


@pytest.mark.parametrize("ignore_index", [EMPTY, -1, 3])
@pytest.mark.parametrize("junk", [math.nan, math.inf])
@pytest.mark.parametrize("chunk", [1, 3, None])
def test_ignored_rows_contribute_nothing(chunk: int | None, junk: float, ignore_index: int) -> None:
    inputs, kept = leaves(bias=True), LABELS != EMPTY
    labels = LABELS.where(kept, ignore_index)
    spoiled = torch.where(kept.unsqueeze(-1), inputs[0].detach(), junk).requires_grad_()
    loss = ss.linear_cross_entropy(spoiled, inputs[1], labels, bias=inputs[2], ignore_index=ignore_index, chunk=chunk)
    expected = F.cross_entropy(F.linear(inputs[0][kept], *inputs[1:]), LABELS[kept])
    torch.testing.assert_close(loss, expected, **EXACT)
    gradients = torch.autograd.grad(loss, [spoiled, *inputs[1:]])
    wanted = torch.autograd.grad(expected, inputs)
    assert torch.equal(gradients[0][~kept], torch.zeros(2, D, dtype=torch.float64))
    for gradient, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, want, **EXACT)


@pytest.mark.parametrize("chunk", [1, 2, None])
def test_an_impossible_token_without_mass(chunk: int | None) -> None:
    hidden, weight = leaves(bias=False)
    bias = torch.zeros(V, dtype=torch.float64)
    bias[3] = -math.inf
    loss = ss.linear_cross_entropy(hidden, weight, LABELS, bias=bias, chunk=chunk)
    expected = F.cross_entropy(hidden @ weight.T + bias, LABELS)
    torch.testing.assert_close(loss, expected, **EXACT)
    gradients = torch.autograd.grad(loss, [hidden, weight])
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected, [hidden, weight]), strict=True):
        torch.testing.assert_close(gradient, wanted, **EXACT)


@pytest.mark.parametrize("chunk", [1, 4, None])
def test_other_ignored_ids(chunk: int | None) -> None:
    hidden, weight = random(N, D), random(V, D, seed=1)
    loss = ss.linear_cross_entropy(hidden, weight, LABELS.clamp_min(-1), ignore_index=-1, chunk=chunk)
    torch.testing.assert_close(loss, F.cross_entropy(hidden @ weight.T, LABELS), **EXACT)


@pytest.mark.parametrize("chunk", [1, None])
@pytest.mark.parametrize("rows", [0, 3], ids=["no rows", "all ignored"])
def test_nothing_costs_nothing(rows: int, chunk: int | None) -> None:
    hidden, weight = random(rows, D).requires_grad_(), random(V, D).requires_grad_()
    loss = ss.linear_cross_entropy(hidden, weight, torch.full((rows,), EMPTY), chunk=chunk)
    gradients = torch.autograd.grad(loss, [hidden, weight])
    assert loss == 0
    assert torch.equal(gradients[0], torch.zeros_like(hidden))
    assert torch.equal(gradients[1], torch.zeros_like(weight))


@pytest.mark.parametrize("items", [3, torch.tensor(9.5)])
def test_micro_batches_sum_to_the_whole(items: float | Tensor) -> None:
    hidden, weight = leaves(bias=False)
    target = mixed_target()
    whole = ss.linear_cross_entropy(hidden, weight, target, num_items=items, chunk=2)
    total = ss.cross_entropy(hidden @ weight.T, target, reduction="sum")
    torch.testing.assert_close(whole, total / float(items), **EXACT)
    parts = [
        ss.linear_cross_entropy(hidden[part], weight, target[part], num_items=items, chunk=2)
        for part in (slice(0, 3), slice(3, 4), slice(4, N))
    ]
    torch.testing.assert_close(sum(parts), whole, **EXACT)


@pytest.mark.parametrize("chunk", [2, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_types(dtype: torch.dtype, chunk: int | None) -> None:
    inputs = [leaf.detach().to(dtype).requires_grad_() for leaf in leaves(bias=True)]
    loss = ss.linear_cross_entropy(inputs[0], inputs[1], LABELS, bias=inputs[2], chunk=chunk)
    expected = F.cross_entropy(F.linear(*inputs).float(), LABELS)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    gradients = torch.autograd.grad(loss, inputs)
    near = 4 * torch.finfo(dtype).eps
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected, inputs), strict=True):
        assert gradient.dtype == dtype
        torch.testing.assert_close(gradient, wanted, rtol=near, atol=near)


def test_mixed_precision() -> None:
    hidden, weight, bias = (leaf.detach().float() for leaf in leaves(bias=True))
    hidden = hidden.bfloat16()
    inputs = [leaf.requires_grad_() for leaf in (hidden, weight, bias)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = ss.linear_cross_entropy(hidden, weight, LABELS, bias=bias, chunk=2)
        expected = F.cross_entropy(F.linear(hidden, weight, bias).float(), LABELS)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    near = 4 * torch.finfo(torch.bfloat16).eps
    for gradient, wanted in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs), strict=True):
        assert gradient.dtype == wanted.dtype
        torch.testing.assert_close(gradient, wanted, rtol=near, atol=near)


def test_mixed_precision_leaves_doubles_alone() -> None:
    """As `F.linear` does."""
    hidden, weight, bias = leaves(bias=True)
    assert hidden.dtype == torch.float64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = ss.linear_cross_entropy(hidden, weight, LABELS, bias=bias, chunk=2)
        expected = F.cross_entropy(F.linear(hidden, weight, bias), LABELS)
    torch.testing.assert_close(loss, expected, **EXACT)


@pytest.mark.parametrize("chunk", [2, None])
def test_derivatives(chunk: int | None) -> None:
    target, inputs = mixed_target(), leaves(bias=True)

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return ss.linear_cross_entropy(hidden, weight, target, bias=bias, chunk=chunk)

    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(loss, inputs, fast_mode=True)


def test_functional_transforms_in_one_chunk() -> None:
    hidden, weight = leaves(bias=False)
    gradient = torch.func.grad(lambda states: ss.linear_cross_entropy(states, weight.detach(), LABELS))(hidden.detach())
    (expected,) = torch.autograd.grad(F.cross_entropy(hidden @ weight.T, LABELS), hidden)
    torch.testing.assert_close(gradient, expected, **EXACT)


@pytest.mark.parametrize("chunk", [1, 3, N])
def test_entropy_and_likelihood(chunk: int) -> None:
    hidden, weight = random(N, D), random(V, D, seed=1)
    target, weights = mixed_target(), random(N, seed=2).abs()
    labels = LABELS.where(target.kept(), EMPTY)
    parts = head.Head(hidden, weight, None, chunk).losses(Job(target, labels, weights))
    whole = losses(hidden @ weight.T, Job(target, labels, weights))
    torch.testing.assert_close(parts.smoothed, whole.smoothed, **EXACT)
    torch.testing.assert_close(parts.nll, whole.nll, **EXACT)
    assert float(parts.nll.abs().max()) > 0


@pytest.mark.parametrize("size", [1, 2])
def test_tiny_vocabularies(size: int) -> None:
    hidden, weight, labels = random(N, D), random(size, D, seed=1), torch.arange(N) % size
    loss = ss.linear_cross_entropy(hidden, weight, labels, chunk=2)
    torch.testing.assert_close(loss, F.cross_entropy(hidden @ weight.T, labels), **EXACT)
