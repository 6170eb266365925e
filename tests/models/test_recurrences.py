"""Luong's model, and the layers of RNNsearch, against equations written once more with torch's own cells."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.models import Luong, Model, RNNsearch

V, S, T = 7, 4, 3
SOURCE = torch.tensor([[3, 1, 4, 2], [5, 2, 0, 0]])
TOKENS = torch.tensor([[1, 5, 2], [1, 3, 6]])


def cell_of(words: torch.nn.Linear, matrix: Tensor, units: int) -> torch.nn.LSTMCell:
    """An LSTM of torch that reads [word, more], its weights those of a model."""
    more = matrix.shape[1] - units
    cell = torch.nn.LSTMCell(words.in_features + more, units).double()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([words.weight, matrix[:, units:]], 1))
        cell.weight_hh.copy_(matrix[:, :units])
        cell.bias_ih.copy_(words.bias)
        cell.bias_hh.zero_()
    return cell


@pytest.mark.parametrize("feeding", ["state", "input", "none"])
def test_luong_one_sentence_at_a_time(feeding: str) -> None:
    torch.manual_seed(0)
    model = Luong(6, V, 5, 3, feeding=feeding).double().eval()
    hidden = model((SOURCE,), TOKENS)
    cell = cell_of(model.word_gates, model.recurrent.weight, model.units)
    for item, length in enumerate((4, 2)):
        words = model.source_embedding(SOURCE[item, :length]).unsqueeze(1)
        right, (right_h, right_c) = model.encoder.onward[0](words)
        left, (left_h, left_c) = model.encoder.homeward[0](words.flip(0))
        values = torch.cat([right, left.flip(0)], -1).squeeze(1)
        h = torch.tanh(model.bridge(torch.cat([left_h[0], right_h[0]], -1)))
        c = torch.cat([left_c[0], right_c[0]], -1)
        attended = torch.zeros_like(h)
        for step in range(T):
            word = model.embedding(TOKENS[item, step]).unsqueeze(0)
            before = attended if feeding == "state" and step else h
            h, c = cell(torch.cat([word, attended], -1) if feeding == "input" else word, (before, c))
            energies = torch.stack([h[0] @ model.key.weight @ value for value in values])
            context = energies.softmax(0) @ values
            attended = torch.tanh(model.combine.weight @ torch.cat([context, h[0]])).unsqueeze(0)
            torch.testing.assert_close(hidden[item, step], attended[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Luong(6, V, 2, 1),
        lambda: Luong(6, V, 2, 1, feeding="input", encoder_layers=2),
        lambda: RNNsearch(6, V, 2, 1, 2, layers=2, deep_output=True, input_feeding=True),
        lambda: RNNsearch(6, V, 2, 1, 2, cell="gru", layers=2, encoder_layers=2),
    ],
)
def test_gradients(make: Callable[[], Model]) -> None:
    torch.manual_seed(0)
    model = make().double().eval()
    names = [name for name, _ in model.named_parameters() if not name.startswith(("head", "source"))]

    def run(*values: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), ((SOURCE,), TOKENS))

    values = tuple(model.get_parameter(name).detach().requires_grad_() for name in names)
    assert torch.autograd.gradcheck(run, values)


def test_rnnsearch_two_layers_with_input_feeding() -> None:
    torch.manual_seed(0)
    model = RNNsearch(6, V, 5, 3, 4, layers=2, deep_output=True, input_feeding=True).double().eval()
    hidden = model((SOURCE,), TOKENS)
    memory = model.encode(SOURCE)
    query, recurrence = model.recurrent.weight.split([4, 16])
    reads = torch.cat([recurrence, model.context_gates.weight, model.feed_gates.weight], 1)
    below = cell_of(model.word_gates, reads, 4)
    above = torch.nn.LSTMCell(10, 4).double()
    with torch.no_grad():
        for own, theirs in zip(above.parameters(), model.upper.parameters(), strict=True):
            own.copy_(theirs)
    for item, length in enumerate((4, 2)):
        values, keys = memory.values[item, :length], memory.keys[item, :length]
        (s, top), left = memory.first[item].unsqueeze(1), torch.zeros(1, 5, dtype=torch.float64)
        c, top_c = torch.zeros_like(s), torch.zeros_like(s)
        for step in range(T):
            word = model.embedding(TOKENS[item, step]).unsqueeze(0)
            energies = torch.stack([torch.tanh(query @ s[0] + key) @ model.score for key in keys])
            context = (energies.softmax(0) @ values).unsqueeze(0)
            s, c = below(torch.cat([word, context, left], -1), (s, c))
            top, top_c = above(torch.cat([s, context], -1), (top, top_c))
            left = torch.tanh(F.linear(torch.cat([top, word, context], -1), model.deep.weight, model.deep.bias))
            torch.testing.assert_close(hidden[item, step], left[0], rtol=1e-10, atol=1e-10)
