"""Translation with the attention of Luong et al., as the paper's authors ran it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models import cells
from seqsmooth.models.encoder import BidirectionalEncoder, read_source
from seqsmooth.models.model import Model, embedding, output, recurrent
from seqsmooth.ops import checks
from seqsmooth.ops.attention import dot_attention

Feeding = Literal["state", "input", "none"]
FEEDINGS: tuple[Feeding, ...] = ("state", "input", "none")


class Annotations(NamedTuple):
    """A source sentence."""

    values: Tensor  # (B, S, H)
    keys: Tensor  # (B, S, H)
    hidden: Tensor  # (B, H) the decoder's first hidden state
    cell: Tensor  # (B, H) and its first cell
    mask: Tensor  # (B, S) bool


class Attentional(NamedTuple):
    """The state of the decoder."""

    hidden: Tensor  # (B, H) what the recurrence reads: h~ where it is the state, else h; (B, 2H) [h, h~] where fed
    cell: Tensor  # (B, H)


class Luong(Model[Annotations, Attentional]):
    """A bidirectional LSTM reads; an LSTM writes, and looks after it has read each word ("general", Luong et al. 2015).

    With h_t the LSTM's state, c_t = attention(h_t) by <h_t, W v>, and h~_t = tanh(W [c_t, h_t]) leaves. The paper says
    Bahdanau's attention; its authors' code does this. The decoder starts from the last states of both directions, its
    cell from their cells, so it has twice their units.

    Args:
        source_size: size of the source vocabulary.
        vocab_size: V, of the target vocabulary.
        embedding_size: E, of both sides; the authors' 128 for IWSLT, 620 for WMT.
        encoder_units: of each direction; the decoder has H = twice as many. The authors' 128 and 1000.
        encoder_layers: of the encoder; the authors' 1 and 2.
        feeding: where h~ goes: "state" in the place of h, as the authors ran it; "input" beside the next word, as Luong
            et al. have it; "none" for nowhere.
        source_pad: the id of padding on the source side, where no mask is given.
        source_dropout: of the source words read.
        embedding_dropout: of the target words read.
        layer_dropout: of what a layer of the encoder says to the next.
        bridge_dropout: of the decoder's first state, before its tanh.
        output_dropout: of the hidden states that leave.
        tied: one matrix reads and writes target words; E must be H.
        vectors: where the target embedding starts from.
        source_vectors: where the source embedding starts from.

    Examples:
        >>> model = Luong(source_size=90, vocab_size=50, embedding_size=16, encoder_units=8)
        >>> sources = torch.tensor([[4, 5, 6], [7, 8, 0]])  # 0 is padding
        >>> model((sources,), torch.tensor([[1, 9], [1, 10]])).shape
        torch.Size([2, 2, 16])
    """

    kind = "luong"

    def __init__(
        self,
        source_size: int,
        vocab_size: int,
        embedding_size: int = 128,
        encoder_units: int = 128,
        *,
        encoder_layers: int = 1,
        feeding: Feeding = "state",
        source_pad: int = 0,
        source_dropout: float = 0.2,
        embedding_dropout: float = 0.2,
        layer_dropout: float = 0.0,
        bridge_dropout: float = 0.2,
        output_dropout: float = 0.0,
        tied: bool = False,
        vectors: Tensor | None = None,  # (V, E)
        source_vectors: Tensor | None = None,  # (source_size, E)
    ) -> None:
        super().__init__()
        checks.one_of("feeding", feeding, FEEDINGS)
        checks.flag("tied", tied)
        self.feeding: Feeding = feeding
        self.units = 2 * checks.at_least("encoder_units", encoder_units, 1)
        self.source_pad = checks.at_least("source_pad", source_pad, 0)
        checks.at_least("encoder_layers", encoder_layers, 1)
        checks.fraction("layer_dropout", layer_dropout)
        self.source_embedding = embedding(source_size, embedding_size, source_vectors, source=True)
        self.embedding = embedding(vocab_size, embedding_size, vectors)
        self.encoder = BidirectionalEncoder(
            embedding_size, encoder_units, layers=encoder_layers, dropout=layer_dropout, cells=True
        )
        self.bridge = nn.Linear(self.units, self.units)
        nn.init.zeros_(self.bridge.bias)
        self.key = nn.Linear(self.units, self.units, bias=False)
        self.word_gates = recurrent(embedding_size, 4 * self.units, self.units, bias=True)
        read = 2 * self.units if feeding == "input" else self.units
        self.recurrent = recurrent(read, 4 * self.units, self.units)
        self.combine = nn.Linear(2 * self.units, self.units, bias=False)
        self.head = output(self.units, vocab_size, self.embedding if tied else None)
        self.source_dropout = nn.Dropout(checks.fraction("source_dropout", source_dropout))
        self.embedding_dropout = nn.Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.bridge_dropout = nn.Dropout(checks.fraction("bridge_dropout", bridge_dropout))
        self.output_dropout = nn.Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # source ids (B, S), and if PAD does not tell it their mask (B, S) bool, True before padding
    ) -> Annotations:
        """Read the source both ways."""
        source, mask = read_source(inputs, self.source_pad)
        read = self.encoder(self.source_dropout(self.source_embedding(source.t())), mask.t())
        values = read.states.transpose(0, 1).contiguous()
        first = torch.cat([read.backward, read.forward], -1)
        hidden = torch.tanh(self.bridge_dropout(self.bridge(first)))
        return Annotations(values, self.key(values), hidden, read.cells, mask)

    def start(self, memory: Annotations) -> Attentional:
        """From the encoder's last states; nothing has left yet."""
        nothing = torch.zeros_like(memory.hidden)
        hidden = torch.cat([memory.hidden, nothing], -1) if self.feeding == "input" else memory.hidden
        return Attentional(hidden, memory.cell)

    def decode(
        self,
        memory: Annotations,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, H)
        """The hidden states after each of the tokens."""
        gates = self.word_gates(self.embedding_dropout(self.embedding(tokens.t())))  # (T, B, 4H)
        state, steps = self.start(memory), []
        for step in gates.unbind(0):
            attended, state = self._advance(memory, state, step)
            steps.append(attended)
        leaving: Tensor = self.output_dropout(torch.stack(steps, 1))
        return leaving

    def step(
        self,
        memory: Annotations,
        state: Attentional,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, Attentional]:  # (B, H)
        """The hidden state after one more token."""
        gates = self.word_gates(self.embedding_dropout(self.embedding(tokens)))
        attended, state = self._advance(memory, state, gates)
        return self.output_dropout(attended), state

    def _advance(
        self,
        memory: Annotations,
        state: Attentional,
        gates: Tensor,  # (B, 4H)
    ) -> tuple[Tensor, Attentional]:  # (B, H) h~
        hidden, cell = cells.lstm(gates + self.recurrent(state.hidden), state.cell)
        context = dot_attention(hidden, memory.keys, memory.values, memory.mask)
        attended = torch.tanh(self.combine(torch.cat([context, hidden.to(context.dtype)], -1)))
        if self.feeding == "input":
            return attended, Attentional(torch.cat([hidden, attended.to(hidden.dtype)], -1), cell)
        return attended, Attentional(attended if self.feeding == "state" else hidden, cell)
