"""Translation with the attention of Luong et al., as the paper's authors ran it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models import cells
from seqsmooth.models.dropout import Dropout
from seqsmooth.models.encoder import BidirectionalEncoder, read_source
from seqsmooth.models.model import Model, make_embedding, make_head, make_recurrent
from seqsmooth.ops import checks
from seqsmooth.ops.attention import dot_attention
from seqsmooth.ops.products import Linear

Feeding = Literal["state", "input", "none"]
FEEDINGS: tuple[Feeding, ...] = ("state", "input", "none")


class LuongMemory(NamedTuple):
    """An encoded source sentence."""

    values: Tensor  # (B, S, H)
    keys: Tensor  # (B, S, H)
    hidden: Tensor  # (B, H) the decoder's first hidden state
    cell: Tensor  # (B, H) and its first cell
    mask: Tensor  # (B, S) bool


class LuongState(NamedTuple):
    """The state of the decoder."""

    hidden: Tensor  # (B, H) h~ with feeding="state", else h; (B, 2H) [h, h~] with feeding="input"
    cell: Tensor  # (B, H)


class Luong(Model[LuongMemory, LuongState]):
    """Translation with "general" attention after each step, Luong et al. 2015.

    A bidirectional LSTM encodes; an LSTM decodes. With h_t the decoder's state, c_t = attention(h_t) by <h_t, W v>, and
    h~_t = tanh(W [c_t, h_t]) is the hidden state of the model. The paper says Bahdanau's attention; its authors' code
    does this. The decoder starts from the last states and cells of both directions, so it has twice their units.

    Args:
        source_size: size of the source vocabulary.
        vocab_size: V, of the target vocabulary.
        embedding_size: E, of both sides; the authors' 128 for IWSLT, 620 for WMT.
        encoder_units: of each direction; the decoder has H = twice as many. The authors' 128 and 1000.
        encoder_layers: of the encoder; the authors' 1 and 2.
        feeding: where the next step reads h~: "state", in place of h, as in the authors' runs; "input", beside the next
            word, as in Luong et al.; "none", nowhere.
        source_pad: the id of source padding, where no mask is given.
        source_dropout: on the embeddings of source tokens.
        embedding_dropout: on the embeddings of target tokens.
        layer_dropout: between layers of the encoder.
        bridge_dropout: on the decoder's first state, before its tanh.
        output_dropout: on the hidden states that `decode` and `step` return.
        tied: use one matrix for target embedding and head; E must be H.
        vectors: initial values of the target embedding.
        source_vectors: initial values of the source embedding.

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
        self.source_embedding = make_embedding(source_size, embedding_size, source_vectors, source=True)
        self.embedding = make_embedding(vocab_size, embedding_size, vectors)
        self.encoder = BidirectionalEncoder(
            embedding_size, encoder_units, layers=encoder_layers, dropout=layer_dropout, cells=True
        )
        self.bridge = Linear(self.units, self.units)
        nn.init.zeros_(self.bridge.bias)
        self.key = Linear(self.units, self.units, bias=False)
        self.word_gates = make_recurrent(embedding_size, 4 * self.units, self.units, bias=True)
        width = 2 * self.units if feeding == "input" else self.units
        self.recurrent = make_recurrent(width, 4 * self.units, self.units)
        self.combine = Linear(2 * self.units, self.units, bias=False)
        self.head = make_head(self.units, vocab_size, self.embedding if tied else None)
        self.source_dropout = Dropout(checks.fraction("source_dropout", source_dropout))
        self.embedding_dropout = Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.bridge_dropout = Dropout(checks.fraction("bridge_dropout", bridge_dropout))
        self.output_dropout = Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # source ids (B, S), and optionally their mask (B, S) bool, True before padding
    ) -> LuongMemory:
        """Encode the source in both directions."""
        source, mask = read_source(inputs, self.source_pad)
        encoded = self.encoder(self.source_dropout(self.source_embedding(source.t())), mask.t())
        values = encoded.states.transpose(0, 1).contiguous()
        first = torch.cat([encoded.backward, encoded.forward], -1)
        hidden = torch.tanh(self.bridge_dropout(self.bridge(first)))
        return LuongMemory(values, self.key(values), hidden, encoded.cells, mask)

    def start(self, memory: LuongMemory) -> LuongState:
        """The state from the encoder's last states, with h~ of zeros."""
        zeros = torch.zeros_like(memory.hidden)
        hidden = torch.cat([memory.hidden, zeros], -1) if self.feeding == "input" else memory.hidden
        return LuongState(hidden, memory.cell)

    def decode(
        self,
        memory: LuongMemory,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, H)
        """The hidden states after each token."""
        gates = self.word_gates(self.embedding_dropout(self.embedding(tokens.t())))  # (T, B, 4H)
        state, steps = self.start(memory), []
        for step in gates.unbind(0):
            attended, state = self._advance(memory, state, step)
            steps.append(attended)
        hidden: Tensor = self.output_dropout(torch.stack(steps, 1))
        return hidden

    def step(
        self,
        memory: LuongMemory,
        state: LuongState,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, LuongState]:  # (B, H)
        """The hidden state after one more token."""
        gates = self.word_gates(self.embedding_dropout(self.embedding(tokens)))
        attended, state = self._advance(memory, state, gates)
        return self.output_dropout(attended), state

    def _advance(
        self,
        memory: LuongMemory,
        state: LuongState,
        gates: Tensor,  # (B, 4H)
    ) -> tuple[Tensor, LuongState]:  # (B, H) h~
        hidden, cell = cells.lstm(gates + self.recurrent(state.hidden), state.cell)
        context = dot_attention(hidden, memory.keys, memory.values, memory.mask)
        attended = torch.tanh(self.combine(torch.cat([context, hidden.to(context.dtype)], -1)))
        if self.feeding == "input":
            return attended, LuongState(torch.cat([hidden, attended.to(hidden.dtype)], -1), cell)
        return attended, LuongState(attended if self.feeding == "state" else hidden, cell)
