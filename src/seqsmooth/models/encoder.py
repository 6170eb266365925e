"""A bidirectional encoder that never asks the host for a length."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqsmooth.models import loops
from seqsmooth.models.dropout import Dropout
from seqsmooth.models.model import check_number
from seqsmooth.ops import checks
from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.products import linear

Kind = Literal["lstm", "gru"]
KINDS: tuple[Kind, ...] = ("lstm", "gru")
CONCURRENT = True
"""Whether the two directions run side by side on a GPU."""


class Encoded(NamedTuple):
    """The states of both directions; the last state of a direction is at the end of its own sequence."""

    states: Tensor  # (S, B, 2H)
    forward: Tensor  # (B, H) the last state of the forward direction: at the last word
    backward: Tensor  # (B, H) the last state of the backward direction: at the first word
    cells: Tensor | None  # (B, 2H) the last cells, of the backward direction first; None unless `cells` is set


class BidirectionalEncoder(nn.Module):
    """A bidirectional LSTM or GRU of one or more layers, for padded sequences.

    A packed sequence would need lengths on the host. Instead each sequence is reversed in place, so its padding stays
    at the end, after all words in both directions. Each direction is one call of cuDNN on a GPU.

    Args:
        size: E, of the inputs.
        units: H of each direction.
        kind: "lstm" or "gru".
        layers: number of layers, each of two directions.
        dropout: between layers.
        cells: whether to return the last cells; of LSTMs only.

    Examples:
        >>> encoder = BidirectionalEncoder(size=4, units=3, kind="gru")
        >>> mask = torch.tensor([[True, True], [True, False]])  # (S, B): the second sequence has one word
        >>> encoded = encoder(torch.randn(2, 2, 4), mask)
        >>> encoded.states.shape, torch.equal(encoded.forward[1], encoded.states[0, 1, :3])  # the state of its word
        (torch.Size([2, 2, 6]), True)
    """

    def __init__(
        self, size: int, units: int, kind: Kind = "lstm", *, layers: int = 1, dropout: float = 0.0, cells: bool = False
    ) -> None:
        super().__init__()
        checks.one_of("kind", kind, KINDS)
        checks.must(not cells or kind == "lstm", "kind", "'lstm' where cells are wanted", repr(kind))
        layer = nn.LSTM if kind == "lstm" else nn.GRU
        sizes = [size] + [2 * units] * (checks.at_least("layers", layers, 1) - 1)
        # The forward and the backward direction; checkpoints hold their weights under these names.
        self.onward = nn.ModuleList(layer(width, units) for width in sizes)
        self.homeward = nn.ModuleList(layer(width, units) for width in sizes)
        self.dropout = Dropout(checks.fraction("dropout", dropout))
        self.cells = cells

    def forward(
        self,
        sequences: Tensor,  # (S, B, E)
        mask: Tensor,  # (S, B) bool, True before the padding
    ) -> Encoded:
        """The states at each position, and the last ones of both directions."""
        order = reversal(mask).unsqueeze(-1)
        ends = (mask.sum(0) - 1).clamp_min(0)[None, :, None]  # (1, B, 1)
        states = sequences
        for number, (onward, homeward) in enumerate(zip(self.onward, self.homeward, strict=True)):
            inputs = self.dropout(states) if number else states
            reversed_inputs = inputs.gather(0, order.expand_as(inputs))
            forward, reversed_states = _side_by_side(onward, homeward, inputs, reversed_inputs)
            backward = reversed_states.gather(0, order.expand_as(reversed_states))
            states = torch.cat([forward, backward], -1)
        last = forward.gather(0, ends.expand(-1, -1, forward.shape[-1])).squeeze(0)
        cells = None
        if self.cells:
            last_backward = last_cell(homeward, reversed_inputs, reversed_states, mask)
            cells = torch.cat([last_backward, last_cell(onward, inputs, forward, mask)], -1)
        return Encoded(states, last, backward[0], cells)


def read_source(
    inputs: tuple[Tensor, ...],  # ids (B, S), and optionally their mask (B, S) bool, True before padding
    pad: int,
) -> tuple[Tensor, Tensor]:  # (B, S) ids, (B, S) mask
    """The source ids and their mask from the inputs of a translation model, checked."""
    check_number(inputs, 2, "ids (B, S), and optionally their mask (B, S)")
    source = inputs[0]
    checks.integers("source", source)
    checks.shape("source", source, None, None, letters="(B, S)")
    mask = inputs[1] if len(inputs) > 1 else source != pad
    checks.shape("mask", mask, *source.shape, letters="(B, S)")
    checks.must(mask.dtype == torch.bool, "mask", "of type torch.bool", mask.dtype)
    return source, mask


def reversal(
    mask: Tensor,  # (S, B) bool, True before the padding
) -> Tensor:  # (S, B) int64
    """The indices that reverse each sequence and leave its padding; they also undo it."""
    places = torch.arange(mask.shape[0], device=mask.device).unsqueeze(-1)
    return torch.where(mask, mask.sum(0) - 1 - places, places)


def last_cell(
    lstm: nn.Module,  # an `nn.LSTM` of one layer and one direction
    inputs: Tensor,  # (S, B, E)
    states: Tensor,  # (S, B, H) its outputs
    mask: Tensor,  # (S, B) bool, True before the padding
) -> Tensor:  # (B, H)
    """The cell of an LSTM at the last position before the padding.

    `nn.LSTM` returns the cell at the end of the padding only. Its hidden states are known, so one more product gives
    all gates, and the cell is c = sum_k i_k g_k prod_{j > k} f_j: no loop, and the padding adds nothing.
    """
    before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
    inward, recurrent, bias, other_bias = lstm.parameters()
    gates = linear(inputs, inward, bias) + linear(before, recurrent, other_bias)
    i, f, g, _ = widen(gates).chunk(4, -1)
    log_forget = F.logsigmoid(f).masked_fill(~mask.unsqueeze(-1), 0)
    log_share = log_forget.flip(0).cumsum(0).flip(0) - log_forget  # of a step's input that is left at the end
    added = (i.sigmoid() * g.tanh()).masked_fill(~mask.unsqueeze(-1), 0)
    return (added * log_share.exp()).sum(0).to(gates.dtype)


def _side_by_side(
    onward: nn.Module, homeward: nn.Module, inputs: Tensor, reversed_inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """Run both directions of a layer, on a GPU at the same time.

    Each is a chain of small kernels that leaves most of a GPU idle, so they run on two streams, and autograd runs their
    backward passes on the same streams. Each stream waits for the other at both ends, so memory is passed on safely.
    """
    if inputs.device.type != "cuda" or not CONCURRENT:
        return loops.run_layer(onward, inputs), loops.run_layer(homeward, reversed_inputs)
    here, aside = torch.cuda.current_stream(inputs.device), _aside(inputs.device)
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        backward, _ = homeward(reversed_inputs)
    forward, _ = onward(inputs)
    here.wait_stream(aside)
    return forward, backward


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
