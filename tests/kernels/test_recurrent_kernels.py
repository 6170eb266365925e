"""The kernels of the attention decoders, one by one, against plain torch in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seqsmooth.ops.attention import additive_attention

SHAPES = [(3, 5, 7, 6), (1, 1, 1, 1), (2, 36, 33, 20), (4, 70, 16, 130)]  # B, R, A, D


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def apart(value: Tensor) -> Tensor:
    """The same rows inside wider ones."""
    return torch.cat([value, torch.full_like(value, torch.nan)], -1)[..., : value.shape[-1]]


@pytest.mark.parametrize(("items", "places", "size", "width"), SHAPES)
def test_attention(items: int, places: int, size: int, width: int, kernels: torch.device) -> None:
    from seqsmooth.ops.kernels import attention

    steps = 3
    query, keys, score = normal(steps, items, size), normal(items, places, size), normal(size)
    values, along = normal(items, places, width), normal(steps, items, width, seed=1)
    mask = torch.arange(places) <= torch.arange(items).unsqueeze(1) * places // items
    mask[0] = False  # an item without any place
    leaves = [value.requires_grad_() for value in (query, keys, score, values)]
    expected = torch.stack([additive_attention(step, keys, score, values, mask) for step in query])
    expected_grads = torch.autograd.grad((expected * along).sum(), leaves)

    def here(value: Tensor) -> Tensor:
        return value.detach().float().to(kernels)

    q, g = apart(here(query)), apart(here(along))
    k, v, s, m = here(keys), here(values), here(score), mask.to(kernels).view(torch.uint8)
    context, weights = torch.empty_like(g), torch.empty(steps, items, places, device=kernels)
    query_grad, energy_grad = torch.empty_like(q), torch.empty_like(weights)
    for t in range(steps):
        attention.forward(q[t], k, s, v, m, context[t], weights[t])
        attention.backward(g[t], q[t], k, s, v, m, weights[t], query_grad[t], energy_grad[t])
    keys_grad, score_grad = attention.keys_backward(q, k, s, energy_grad)
    values_grad = torch.einsum("tbr,tbd->brd", weights, g)
    torch.testing.assert_close(context.cpu().double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    ours = query_grad, keys_grad, score_grad, values_grad
    for our, their in zip(ours, expected_grads, strict=True):
        torch.testing.assert_close(our.cpu().double(), their, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(("items", "units"), [(3, 5), (1, 1), (4, 130)])
def test_lstm(items: int, units: int, copied: bool, kernels: torch.device) -> None:
    from seqsmooth.ops.kernels import lstm

    gates, more, before = normal(items, 4 * units), normal(items, 4 * units, seed=1), normal(items, units)
    leaves = [value.requires_grad_() for value in (gates, before)]
    identity, zero = torch.eye(4 * units, dtype=torch.float64), gates.new_zeros(4 * units, units)
    # torch's own cell, its matrices set so that the gates come through as they are.
    hidden, cell = torch.lstm_cell(gates + more, (torch.zeros_like(before), before), identity, zero)
    hidden_along, cell_along = normal(items, units, seed=2), normal(items, units, seed=3)
    objective = (hidden * hidden_along).sum() * (2 if copied else 1) + (cell * cell_along).sum()
    expected_grads = torch.autograd.grad(objective, leaves)

    def here(value: Tensor) -> Tensor:
        return value.detach().float().to(kernels)

    acts, c, h = apart(here(gates)), here(cell), apart(here(hidden))
    c.fill_(torch.nan), h.fill_(torch.nan)
    copy = torch.full_like(here(hidden), torch.nan) if copied else None
    lstm.forward(acts, here(more), here(before), c, h, copy)
    torch.testing.assert_close(h.cpu().double(), hidden.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(c.cpu().double(), cell.detach(), rtol=1e-5, atol=1e-5)
    if copy is not None:
        assert torch.equal(copy, h)
    gates_grad, cell_grad = torch.empty_like(acts), here(cell_along)
    along = apart(here(hidden_along))
    lstm.backward(acts, here(before), c, along, along if copied else None, cell_grad, gates_grad)
    torch.testing.assert_close(gates_grad.cpu().double(), expected_grads[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(cell_grad.cpu().double(), expected_grads[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("items", "units"), [(3, 5), (1, 1), (4, 130)])
def test_gru(items: int, units: int, kernels: torch.device) -> None:
    from seqsmooth.ops.kernels import gru

    reads, more, memories = (normal(items, 3 * units, seed=seed) for seed in range(3))
    before, along, start = (normal(items, units, seed=seed) for seed in range(3))
    leaves = [value.requires_grad_() for value in (reads, memories, before)]
    (x_r, x_z, x_n), (m_r, m_z, m_n) = (reads + more).split(units, -1), memories.split(units, -1)
    r, z = torch.sigmoid(x_r + m_r), torch.sigmoid(x_z + m_z)
    n = torch.tanh(x_n + r * m_n)
    hidden = (1 - z) * n + z * before
    expected_grads = torch.autograd.grad((hidden * along).sum(), leaves)

    def here(value: Tensor) -> Tensor:
        return value.detach().float().to(kernels)

    acts, past, h = here(reads), apart(here(memories)), apart(here(torch.zeros_like(hidden)))
    gru.forward(acts, here(more), past, here(before), h)
    torch.testing.assert_close(h.cpu().double(), hidden.detach(), rtol=1e-5, atol=1e-5)
    before_grad, reads_grad, memories_grad = here(start), torch.empty_like(acts), torch.empty_like(past)
    gru.backward(acts, past, here(before), apart(here(along)), before_grad, reads_grad, memories_grad)
    ours = reads_grad, memories_grad, before_grad - here(start)
    for our, their in zip(ours, expected_grads, strict=True):
        torch.testing.assert_close(our.cpu().double(), their, rtol=1e-4, atol=1e-5)


def test_one_row_may_serve_all(kernels: torch.device) -> None:
    from seqsmooth.ops.kernels import lstm

    gates, bias = torch.zeros(3, 8, device=kernels), torch.arange(8.0, device=kernels)
    cells = torch.zeros(2, 3, 2, device=kernels)
    hidden = torch.empty(3, 2, device=kernels)
    lstm.forward(gates, bias.expand(3, -1), cells[0], cells[1], hidden)
    torch.testing.assert_close(gates[2, :4], bias[:4].sigmoid())
    assert torch.equal(hidden[0], hidden[2])


def test_masked_places_get_nothing() -> None:
    keys, values = torch.randn(2, 3, 4), torch.randn(2, 3, 5)
    mask = torch.tensor([[True, False, False], [False, False, False]])
    context = additive_attention(torch.randn(2, 4), keys, torch.randn(4), values, mask)
    torch.testing.assert_close(context[0], values[0, 0])
    torch.testing.assert_close(context[1], values[1].mean(0))
