"""The recurrences of the attention decoders in few kernel launches, with backward passes by hand.

A decoder of a few hundred units is bound by launches, not by arithmetic. So steps write into large buffers in place,
matrix products accumulate there, pointwise parts and attention are one kernel each, and the gradient of a weight is one
product over all steps. On the CPU the kernels are functions in C, where the native library is there. The oracle is the
loop over `step` in plain torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.ops import dispatch
from seqsmooth.ops.products import linear, multiply, multiply_into

PLACES = 1024
"""The largest number of positions to attend to that the kernels support."""


def runs(
    gates: Tensor,  # (T, B, 4H)
    keys: Tensor,  # (B, R, A)
) -> bool:
    """Whether these loops support the sizes, and kernels or the native library are in use."""
    if gates.numel() == 0 or keys.numel() == 0:
        return False
    if dispatch.uses_kernels(gates, keys):
        return keys.shape[1] <= PLACES
    return dispatch.uses_native(gates, keys)


def apply(
    recurrence: type[
        torch.autograd.Function
    ],  # `SearchLoop` or `TopDownLoop`, whose `forward` says what the tensors are
    gates: Tensor,  # (T, B, G)
    mask: Tensor,  # (B, R) bool
    *tensors: Tensor,
) -> Any:
    """Run a recurrence over all steps, in the type of its gates whatever autocast says."""
    alike = [tensor.to(gates.dtype).contiguous() for tensor in tensors]
    with torch.autocast(gates.device.type, enabled=False):
        return recurrence.apply(gates.contiguous(), mask, *alike)  # type: ignore[no-untyped-call]


def run_layer(
    layer: nn.Module,  # an `nn.GRU` of one layer and one direction, or an `nn.LSTM`
    inputs: Tensor,  # (T, B, E)
) -> Tensor:  # (T, B, H)
    """The states of a recurrent layer; those of a GRU by `GRULoop` on the CPU, where torch has a fused LSTM only."""
    if isinstance(layer, nn.GRU) and inputs.numel() > 0 and not torch.is_autocast_enabled("cpu"):
        weights: list[Tensor] = list(layer.parameters())
        if dispatch.uses_native(inputs, *weights):
            inward, recurrent, bias, other_bias = weights
            gates = linear(inputs, inward, bias)
            states: Tensor = GRULoop.apply(gates, recurrent, other_bias)  # type: ignore[no-untyped-call]
            return states
    states, _ = layer(inputs)
    return states


class GRULoop(torch.autograd.Function):
    """A GRU from a state of zeros: s = cell(gates, recurrent s + bias, s)."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,  # (T, B, 3H) share of the inputs in the gates
        recurrent: Tensor,  # (3H, H)
        bias: Tensor,  # (3H,)
    ) -> Tensor:  # (T, B, H)
        """The hidden states of all steps."""
        _, cell, _ = ctx.kernels = _kernels(gates)
        (steps, items, _), units = gates.shape, recurrent.shape[1]
        hidden = gates.new_empty(steps + 1, items, units)
        hidden[0] = 0
        acts, nothing = torch.empty_like(gates), gates.new_zeros(1, 3 * units).expand(items, -1)
        memories = torch.empty_like(gates)
        acts[:], memories[:] = gates, bias
        for t in range(steps):
            multiply_into(memories[t], hidden[t], recurrent.t(), add=True)
            cell.forward(acts[t], nothing, memories[t], hidden[t], hidden[t + 1])
        ctx.save_for_backward(recurrent, hidden, acts, memories)
        return hidden[1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any,
        grad: Tensor,  # (T, B, H)
    ) -> tuple[Tensor, ...]:
        """The gradients of the tensors."""
        _, cell, _ = ctx.kernels
        recurrent, hidden, acts, memories = ctx.saved_tensors
        hidden_grads = torch.empty_like(hidden)
        hidden_grads[0], hidden_grads[1:] = 0, grad
        read_grads, memory_grads = torch.empty_like(acts), torch.empty_like(acts)
        for t in reversed(range(acts.shape[0])):
            cell.backward(
                acts[t], memories[t], hidden[t], hidden_grads[t + 1], hidden_grads[t], read_grads[t], memory_grads[t]
            )
            multiply_into(hidden_grads[t], memory_grads[t], recurrent, add=True)
        return read_grads, _weight_grad(memory_grads, hidden[:-1]), memory_grads.sum((0, 1))


class SearchLoop(torch.autograd.Function):
    """RNNsearch: q, g = recurrent s; c = attention(q); s = cell(gates + inward c, g, s)."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,  # (T, B, G) share of the words in the gates; G is 4H for an LSTM, 3H for a GRU
        mask: Tensor,  # (B, R) bool
        keys: Tensor,  # (B, R, A)
        values: Tensor,  # (B, R, C)
        first: Tensor,  # (B, H)
        score: Tensor,  # (A,)
        recurrent: Tensor,  # (A + G, H)
        inward: Tensor,  # (G, C)
    ) -> tuple[Tensor, Tensor]:  # (T, B, H), (T, B, C)
        """The hidden states and the contexts of all steps."""
        attention, gru, lstm = ctx.kernels = _kernels(gates)
        (steps, items, _), (_, places, size), units = gates.shape, keys.shape, first.shape[1]
        mask = mask.contiguous().view(torch.uint8)
        hidden = gates.new_empty(steps + 1, items, units)
        hidden[0] = first
        both = gates.new_empty(steps, items, recurrent.shape[0])  # query and gates
        queries, acts = both[..., :size], both[..., size:]
        contexts = gates.new_empty(steps, items, values.shape[-1])
        weights = _floats(gates, steps, items, places)
        # The backward pass also needs the cells of an LSTM, or the gates of a GRU by its inputs alone.
        is_gru = gates.shape[-1] == 3 * units
        saved = torch.empty_like(gates) if is_gru else _floats(gates, steps + 1, items, units)
        if not is_gru:
            saved[0] = 0
        for t in range(steps):
            multiply_into(both[t], hidden[t], recurrent.t())
            attention.forward(queries[t], keys, score, values, mask, contexts[t], weights[t])
            if is_gru:
                multiply_into(saved[t], contexts[t], inward.t())
                gru.forward(saved[t], gates[t], acts[t], hidden[t], hidden[t + 1])
            else:
                multiply_into(acts[t], contexts[t], inward.t(), add=True)
                lstm.forward(acts[t], gates[t], saved[t], saved[t + 1], hidden[t + 1])
        ctx.is_gru = is_gru
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(mask, keys, values, score, recurrent, inward, hidden, saved, both, contexts, weights)
        return hidden[1:], contexts

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any,
        hidden_grad: Tensor | None,  # (T, B, H)
        context_grad: Tensor | None,  # (T, B, C)
    ) -> tuple[Tensor | None, ...]:
        """The gradients of the tensors."""
        attention, gru, lstm = ctx.kernels
        mask, keys, values, score, recurrent, inward, hidden, saved, both, contexts, weights = ctx.saved_tensors
        steps, size = both.shape[0], keys.shape[-1]
        queries, acts = both[..., :size], both[..., size:]
        hidden_grads = torch.empty_like(hidden)
        hidden_grads[0] = 0
        hidden_grads[1:] = 0 if hidden_grad is None else hidden_grad
        context_grads = torch.empty_like(contexts)
        context_grads[:] = 0 if context_grad is None else context_grad
        both_grads, energy_grads = torch.empty_like(both), torch.empty_like(weights)
        query_grads, gate_grads = both_grads[..., :size], both_grads[..., size:]
        # An LSTM adds the gates by its inputs to those by its hidden state, so both have one gradient.
        read_grads = torch.empty_like(saved) if ctx.is_gru else gate_grads
        cell_grad = None if ctx.is_gru else torch.zeros_like(saved[0])
        for t in reversed(range(steps)):
            if cell_grad is None:
                gru.backward(
                    saved[t], acts[t], hidden[t], hidden_grads[t + 1], hidden_grads[t], read_grads[t], gate_grads[t]
                )
            else:
                lstm.backward(acts[t], saved[t], saved[t + 1], hidden_grads[t + 1], None, cell_grad, gate_grads[t])
            multiply_into(context_grads[t], read_grads[t], inward, add=True)
            attention.backward(
                context_grads[t], queries[t], keys, score, values, mask, weights[t], query_grads[t], energy_grads[t]
            )
            multiply_into(hidden_grads[t], both_grads[t], recurrent, add=True)
        keys_grad, score_grad = attention.keys_backward(queries, keys, score, energy_grads)
        return (
            read_grads,
            None,
            keys_grad,
            _values_grad(weights, context_grads),
            hidden_grads[0],
            score_grad,
            _weight_grad(both_grads, hidden[:-1]),
            _weight_grad(read_grads, contexts),
        )


class TopDownLoop(torch.autograd.Function):
    """Top-Down: a = lstm(gates + attention [a, l]); c = attention(query a); l = lstm(language [c, a, l] + bias)."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,  # (T, B, 4H) share of words and image in the gates of the attention LSTM
        mask: Tensor,  # (B, R) bool
        keys: Tensor,  # (B, R, A)
        values: Tensor,  # (B, R, C)
        query: Tensor,  # (A, H)
        score: Tensor,  # (A,)
        attention_matrix: Tensor,  # (4H, 2H)
        language: Tensor,  # (4H, C + 2H)
        bias: Tensor,  # (4H,)
    ) -> Tensor:  # (T, B, H)
        """The hidden states of the language LSTM."""
        attention, _, lstm = ctx.kernels = _kernels(gates)
        (steps, items, _), (_, places, size), units = gates.shape, keys.shape, query.shape[1]
        width = values.shape[-1]
        mask = mask.contiguous().view(torch.uint8)
        hidden = gates.new_empty(steps + 1, items, 2 * units)  # both hidden states, the attention LSTM's first
        hidden[0] = 0
        reads = gates.new_empty(steps + 1, items, width + 2 * units)  # inputs and hidden state of the language LSTM
        reads[0, :, width + units :] = 0
        looking, looking_read = hidden[..., :units], reads[..., width : width + units]
        writing, writing_read = hidden[..., units:], reads[..., width + units :]
        cells = _floats(gates, 2, steps + 1, items, units)
        cells[:, 0] = 0
        acts = torch.empty_like(gates), torch.empty_like(gates)
        queries = gates.new_empty(steps, items, size)
        weights = _floats(gates, steps, items, places)
        offset = bias.expand(items, -1)
        for t in range(steps):
            multiply_into(acts[0][t], hidden[t], attention_matrix.t())
            lstm.forward(acts[0][t], gates[t], cells[0, t], cells[0, t + 1], looking[t + 1], looking_read[t])
            multiply_into(queries[t], looking[t + 1], query.t())
            attention.forward(queries[t], keys, score, values, mask, reads[t, :, :width], weights[t])
            multiply_into(acts[1][t], reads[t], language.t())
            lstm.forward(acts[1][t], offset, cells[1, t], cells[1, t + 1], writing[t + 1], writing_read[t + 1])
        ctx.save_for_backward(
            mask, keys, values, query, score, attention_matrix, language, hidden, reads, cells, *acts, queries, weights
        )
        return writing[1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any,
        grad: Tensor,  # (T, B, H)
    ) -> tuple[Tensor | None, ...]:
        """The gradients of the tensors."""
        attention, _, lstm = ctx.kernels
        mask, keys, values, query, score, attention_matrix, language, hidden, reads, cells, *rest = ctx.saved_tensors
        looking_acts, writing_acts, queries, weights = rest
        steps, units, width = queries.shape[0], query.shape[1], values.shape[-1]
        hidden_grads = torch.empty_like(hidden)
        hidden_grads[..., :units] = 0
        hidden_grads[0, :, units:] = 0
        hidden_grads[1:, :, units:] = grad
        reads_grads = torch.empty_like(reads[:-1])
        looking_grads, looking_read_grads = hidden_grads[..., :units], reads_grads[..., width : width + units]
        writing_grads, writing_read_grads = hidden_grads[..., units:], reads_grads[..., width + units :]
        cell_grads = torch.zeros_like(cells[:, 0])
        looking_gates, writing_gates = torch.empty_like(looking_acts), torch.empty_like(writing_acts)
        query_grads, energy_grads = torch.empty_like(queries), torch.empty_like(weights)
        for t in reversed(range(steps)):
            later = writing_read_grads[t + 1] if t + 1 < steps else None
            lstm.backward(
                writing_acts[t],
                cells[1, t],
                cells[1, t + 1],
                writing_grads[t + 1],
                later,
                cell_grads[1],
                writing_gates[t],
            )
            multiply_into(reads_grads[t], writing_gates[t], language)
            attention.backward(
                reads_grads[t, :, :width],
                queries[t],
                keys,
                score,
                values,
                mask,
                weights[t],
                query_grads[t],
                energy_grads[t],
            )
            multiply_into(looking_grads[t + 1], query_grads[t], query, add=True)
            lstm.backward(
                looking_acts[t],
                cells[0, t],
                cells[0, t + 1],
                looking_grads[t + 1],
                looking_read_grads[t],
                cell_grads[0],
                looking_gates[t],
            )
            multiply_into(hidden_grads[t], looking_gates[t], attention_matrix, add=True)
        keys_grad, score_grad = attention.keys_backward(queries, keys, score, energy_grads)
        return (
            looking_gates,
            None,
            keys_grad,
            _values_grad(weights, reads_grads[..., :width]),
            _weight_grad(query_grads, hidden[1:, :, :units]),
            score_grad,
            _weight_grad(looking_gates, hidden[:-1]),
            _weight_grad(writing_gates, reads[:-1]),
            writing_gates.sum((0, 1)),
        )


def _kernels(like: Tensor) -> tuple[Any, Any, Any]:
    """The modules `attention`, `gru` and `lstm` for such tensors."""
    room = "kernels" if dispatch.uses_kernels(like) else "native"
    attention, gru, lstm = (import_module(f"seqsmooth.ops.{room}.{name}") for name in ("attention", "gru", "lstm"))
    return attention, gru, lstm


def _floats(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _weight_grad(
    gradients: Tensor,  # (T, B, N)
    inputs: Tensor,  # (T, B, K)
) -> Tensor:  # (N, K)
    """The gradient of a matrix over all steps at once."""
    return multiply(gradients.flatten(0, 1).t(), inputs.flatten(0, 1))


def _values_grad(
    weights: Tensor,  # (T, B, R)
    gradients: Tensor,  # (T, B, C)
) -> Tensor:  # (B, R, C)
    return torch.bmm(weights.to(gradients.dtype).permute(1, 2, 0), gradients.transpose(0, 1))
