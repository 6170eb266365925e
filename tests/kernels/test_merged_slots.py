"""Slots of one token all know its whole mass: they all write its gradient, and any of them may be the last to."""

from __future__ import annotations

import pytest
import torch

from seqsmooth.ops.cross_entropy import cross_entropy
from seqsmooth.ops.soft_target import Rows, SoftTarget
from seqsmooth.ops.tables import SparseTable, UniformTable

triton = pytest.importorskip("triton")
tl = triton.language
parts = pytest.importorskip("seqsmooth.ops.kernels.target_parts")
SLOTS, IGNORED = 16, -100
joined = parts.joined


@triton.jit
def masses(ids, tokens, weights, filled, result, K: tl.constexpr, SLOTS: tl.constexpr):
    slot = tl.arange(0, SLOTS)
    used = tl.load(filled + slot) != 0
    total = joined(ids, 0, 1, tl.load(tokens + slot), tl.load(weights + slot), used, 0, -100, K, SLOTS)
    tl.store(result + slot, total)


@pytest.mark.parametrize("own", [[3], [3, 3], [3, 7, 3], [IGNORED, 5], [11, 12]])
def test_every_slot_has_the_mass_of_its_token(kernels: torch.device, own: list[int]) -> None:
    listed = [7, 3, 9, 5, 0]  # all different
    tokens = [max(token, 0) for token in own] + listed
    filled = [token != IGNORED for token in own] + [True] * len(listed)
    weights = [0.1 * (2 + place) for place in range(len(tokens))]
    weights = [weight if there else 0.0 for weight, there in zip(weights, filled, strict=True)]
    spare = [0] * (SLOTS - len(tokens))
    result = torch.empty(SLOTS, device=kernels)
    masses[(1,)](
        torch.tensor(own, device=kernels), torch.tensor(tokens + spare, dtype=torch.int32, device=kernels),
        torch.tensor(weights + spare, dtype=torch.float32, device=kernels),
        torch.tensor(filled + spare, dtype=torch.uint8, device=kernels), result, K=len(own), SLOTS=SLOTS,
    )  # fmt: skip
    for place, (token, there) in enumerate(zip(tokens, filled, strict=True)):
        same = [weights[i] for i in range(len(tokens)) if filled[i] and tokens[i] == token]
        if there:
            assert float(result[place]) == pytest.approx(sum(same), rel=1e-6)


@pytest.mark.parametrize(
    ("ids", "weights"),
    [([[3, 3], [4, 5], [7, IGNORED]], [[0.3, 0.7], [0.5, 0.5], [1.0, 0.0]]), ([[3], [4]], [[1], [2]])],
)
def test_few_slots_without_a_table(kernels: torch.device, ids: list[list[int]], weights: list[list[float]]) -> None:
    given, masses = torch.tensor(ids, device=kernels), torch.tensor(weights, dtype=torch.float32, device=kernels)
    logits = torch.randn(len(ids), 40, device=kernels, requires_grad=True)
    cross_entropy(logits, SoftTarget(given, masses), reduction="sum").backward()
    q = torch.zeros(len(ids), 40, dtype=torch.float64)
    q.scatter_add_(1, given.cpu().clamp_min(0), masses.cpu().double())
    expected = q.sum(-1, keepdim=True) * logits.detach().double().cpu().softmax(-1) - q
    torch.testing.assert_close(logits.grad.double().cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("own", [3, 5])
def test_a_slot_and_a_background_without_its_token(kernels: torch.device, own: int) -> None:
    first = torch.zeros(1, 1, dtype=torch.long, device=kernels)
    row = Rows(UniformTable(12, (5,)), first, torch.full((1, 1), 0.4, device=kernels))
    for slots in (1, 0):
        target = SoftTarget(first[:, :slots] + own, torch.full((1, slots), 0.6, device=kernels), (row,))
        logits = torch.randn(1, 12, device=kernels, requires_grad=True)
        cross_entropy(logits, target).backward()
        q = torch.full((1, 12), 0.4 / 11, dtype=torch.float64)
        q[:, 5] = 0
        q[:, own] += 0.6 * slots
        expected = q.sum() * logits.detach().double().cpu().softmax(-1) - q
        torch.testing.assert_close(logits.grad.double().cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("own", [0, 4, 9])
def test_padding_of_a_set_does_not_overwrite_its_token(kernels: torch.device, own: int) -> None:
    listed = torch.tensor([[0, 4, 7, 0, 0, 0]], device=kernels)  # a set of three, the first of them as padding is
    shares = torch.tensor([[0.25, 0.25, 0.5, 0, 0, 0]], device=kernels)
    table, first = SparseTable(listed, shares, 12, distinct=True), torch.zeros(1, 1, dtype=torch.long, device=kernels)
    row = Rows(table, first, torch.ones(1, 1, device=kernels))
    target = SoftTarget(torch.tensor([[own]], device=kernels), torch.tensor([[0.3]], device=kernels), (row,))
    logits = torch.randn(1, 12, device=kernels, requires_grad=True)
    cross_entropy(logits, target).backward()
    q = torch.zeros(12, dtype=torch.float64)
    for token, mass in [(own, 0.3), (0, 0.25), (4, 0.25), (7, 0.5)]:
        q[token] += mass
    expected = 1.3 * logits.detach().double().cpu().softmax(-1) - q
    torch.testing.assert_close(logits.grad.double().cpu(), expected, rtol=1e-5, atol=1e-5)
