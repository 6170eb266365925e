"""A bidirectional encoder that never asks the host for a length."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqsmooth.models.model import check_number
from seqsmooth.ops import checks
from seqsmooth.ops.dispatch import widen

Kind = Literal["lstm", "gru"]
KINDS: tuple[Kind, ...] = ("lstm", "gru")
CONCURRENT = True
"""Whether the two directions run side by side on a GPU."""


class Encoded(NamedTuple):
    """The states of both directions; the last state of a direction is that where its own sequence ends."""

    states: Tensor  # (S, B, 2H)
    forward: Tensor  # (B, H) the last state of the forward direction: at the last word
    backward: Tensor  # (B, H) the last state of the backward direction: at the first word
    cells: Tensor | None  # (B, 2H) the last cells, of the backward direction first; only where asked for


class BidirectionalEncoder(nn.Module):
    """Recurrent networks in pairs, one of them over the reversed sequences; each pair reads what that below it says.

    A packed sequence would need lengths on the host. Instead each sequence is reversed in its place, so that its
    padding stays at the end where neither direction has met it yet; each direction is one call of cuDNN on a GPU.

    Args:
        size: E, of what is read.
        units: H of each direction.
        kind: "lstm" or "gru".
        layers: how many pairs.
        dropout: of what a pair says to the next.
        cells: whether the last cells are wanted, of LSTMs only.

    Examples:
        >>> encoder = BidirectionalEncoder(size=4, units=3, kind="gru")
        >>> mask = torch.tensor([[True, True], [True, False]])  # (S, B): the second sequence has one word
        >>> read = encoder(torch.randn(2, 2, 4), mask)
        >>> read.states.shape, torch.equal(read.forward[1], read.states[0, 1, :3])  # its last state is that of its word
        (torch.Size([2, 2, 6]), True)
    """

    def __init__(
        self,
        size: int,
        units: int,
        kind: Kind = "lstm",
        *,
        layers: int = 1,
        dropout: float = 0.0,
        cells: bool = False,
    ) -> None:
        super().__init__()
        checks.one_of("kind", kind, KINDS)
        checks.must(not cells or kind == "lstm", "kind", "'lstm' where cells are wanted", repr(kind))
        make = nn.LSTM if kind == "lstm" else nn.GRU
        sizes = [size] + [2 * units] * (checks.at_least("layers", layers, 1) - 1)
        # The names are those of weights in checkpoints: `forward` is taken by `nn.Module`.
        self.onward = nn.ModuleList(make(width, units) for width in sizes)
        self.homeward = nn.ModuleList(make(width, units) for width in sizes)
        self.dropout = nn.Dropout(checks.fraction("dropout", dropout))
        self.cells = cells

    def forward(
        self,
        sequences: Tensor,  # (S, B, E)
        mask: Tensor,  # (S, B) bool, True before the padding
    ) -> Encoded:
        """The states at each place, and the last ones of both directions."""
        turn = reversal(mask).unsqueeze(-1)
        ends = (mask.sum(0) - 1).clamp_min(0)[None, :, None]  # (1, B, 1)
        states = sequences
        for number, (right, left) in enumerate(zip(self.onward, self.homeward, strict=True)):
            read = self.dropout(states) if number else states
            turned = read.gather(0, turn.expand_as(read))
            forward, reversed_ = _side_by_side(right, left, read, turned)
            backward = reversed_.gather(0, turn.expand_as(reversed_))
            states = torch.cat([forward, backward], -1)
        last = forward.gather(0, ends.expand(-1, -1, forward.shape[-1])).squeeze(0)
        cells = None
        if self.cells:
            both = last_cell(left, turned, reversed_, mask), last_cell(right, read, forward, mask)
            cells = torch.cat(both, -1)
        return Encoded(states, last, backward[0], cells)


def read_source(
    inputs: tuple[Tensor, ...],  # ids (B, S), and if PAD does not tell it their mask (B, S) bool, True before padding
    pad: int,
) -> tuple[Tensor, Tensor]:  # (B, S) ids, (B, S) mask
    """Check what a model of translation is given."""
    check_number(inputs, 2, "ids (B, S), and if PAD does not tell it their mask (B, S)")
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
    """Map the places of the reversed sequences to those of the sequences themselves, and the other way round."""
    places = torch.arange(mask.shape[0], device=mask.device).unsqueeze(-1)
    return torch.where(mask, mask.sum(0) - 1 - places, places)


def last_cell(
    lstm: nn.Module,  # an `nn.LSTM` of one layer and one direction
    read: Tensor,  # (S, B, E)
    states: Tensor,  # (S, B, H) what it says to that
    mask: Tensor,  # (S, B) bool, True before the padding
) -> Tensor:  # (B, H)
    """The cell of an LSTM at the last place before the padding.

    `nn.LSTM` gives the cell at the end of the padding only. But its hidden states are known, so all gates are one
    product more, and the cell is c = sum_k i_k g_k prod_{j > k} f_j: no loop, and the padding has no terms.
    """
    before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
    inward, recurrent, bias, other_bias = lstm.parameters()
    gates = F.linear(read, inward, bias) + F.linear(before, recurrent, other_bias)
    i, f, g, _ = widen(gates).chunk(4, -1)
    kept = F.logsigmoid(f).masked_fill(~mask.unsqueeze(-1), 0)
    after = kept.flip(0).cumsum(0).flip(0) - kept
    written = (i.sigmoid() * g.tanh()).masked_fill(~mask.unsqueeze(-1), 0)
    return (written * after.exp()).sum(0).to(gates.dtype)


def _side_by_side(right: nn.Module, left: nn.Module, read: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
    """Run both directions of a pair.

    Each is a chain of small kernels that leaves most of a GPU idle, so there they run on two streams; autograd runs the
    way back on the same streams. Either waits for the other at both ends, so memory passes safely.
    """
    here, aside = _streams(read.device)
    if here is not None and aside is not None:
        aside.wait_stream(here)
    with torch.cuda.stream(aside):
        backward, _ = left(turned)
    forward, _ = right(read)
    if here is not None and aside is not None:
        here.wait_stream(aside)
    return forward, backward


def _streams(device: torch.device) -> tuple[torch.cuda.Stream | None, torch.cuda.Stream | None]:
    """The current stream and another one to work beside it; none where there is no CUDA."""
    if device.type != "cuda" or not CONCURRENT:
        return None, None
    return torch.cuda.current_stream(device), _aside(device)


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
