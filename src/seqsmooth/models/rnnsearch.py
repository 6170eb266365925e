"""RNNsearch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models import cells, loops
from seqsmooth.models.encoder import BidirectionalEncoder, Kind
from seqsmooth.models.model import Model, embedding, output, recurrent
from seqsmooth.ops import checks
from seqsmooth.ops.attention import additive_attention


class Source(NamedTuple):
    """A source sentence."""

    values: Tensor  # (B, S, C)
    keys: Tensor  # (B, S, A)
    first: Tensor  # (B, H) the decoder's first hidden state
    mask: Tensor  # (B, S) bool


class Decoder(NamedTuple):
    """The state of the decoder."""

    hidden: Tensor  # (B, H)
    cell: Tensor  # (B, H); unused with a GRU


class RNNsearch(Model[Source, Decoder]):
    """RNNsearch, Bahdanau et al. 2015: a bidirectional encoder, and a decoder that looks before it reads each word.

    With s the decoder's state, c_t = attention(s_{t-1}), s_t = cell(s_{t-1}, [y_{t-1}, c_t]). The deep output is
    tanh(W [s_t, y_{t-1}, c_t]), of the size of the words, so that it can be tied; without, s_t leaves as it is.

    Args:
        source_size: size of the source vocabulary.
        vocab_size: V, of the target vocabulary.
        embedding_size: E, of both sides; the paper's 128 for IWSLT.
        encoder_units: of each direction.
        units: H of the decoder.
        attention_size: A; as `units` by default.
        cell: "lstm" or "gru", on both sides.
        source_pad: the id of padding on the source side, where no mask is given.
        deep_output: see above.
        source_dropout: of the source words read.
        embedding_dropout: of the target words read.
        output_dropout: of the hidden states that leave.
        tied: one matrix reads and writes target words.
        vectors: where the target embedding starts from.
    """

    def __init__(
        self,
        source_size: int,
        vocab_size: int,
        embedding_size: int = 128,
        encoder_units: int = 128,
        units: int = 256,
        attention_size: int | None = None,
        *,
        cell: Kind = "lstm",
        source_pad: int = 0,
        deep_output: bool = False,
        source_dropout: float = 0.2,
        embedding_dropout: float = 0.2,
        output_dropout: float = 0.2,
        tied: bool = False,
        vectors: Tensor | None = None,  # (V, E)
    ) -> None:
        super().__init__()
        self.units = checks.at_least("units", units, 1)
        self.attention_size = units if attention_size is None else checks.at_least("attention_size", attention_size, 1)
        self.source_pad = checks.at_least("source_pad", source_pad, 0)
        self.kind: Kind = cell
        gates, context = (4 if cell == "lstm" else 3) * units, 2 * encoder_units
        self.source_embedding = embedding(source_size, embedding_size, None)
        self.encoder = BidirectionalEncoder(embedding_size, encoder_units, cell)
        self.key = nn.Linear(context, self.attention_size)
        self.bridge = nn.Linear(encoder_units, units)
        self.embedding = embedding(vocab_size, embedding_size, vectors)
        self.score = nn.Parameter(
            torch.empty(self.attention_size).uniform_(-(self.attention_size**-0.5), self.attention_size**-0.5)
        )
        self.word_gates = recurrent(embedding_size, gates, units, bias=True)
        self.context_gates = recurrent(context, gates, units)
        self.recurrent = recurrent(units, self.attention_size + gates, units)  # the query, then the gates
        size = embedding_size if deep_output else units
        self.deep = nn.Linear(units + embedding_size + context, size) if deep_output else None
        self.head = output(size, vocab_size, self.embedding if tied else None)
        self.source_dropout = nn.Dropout(checks.fraction("source_dropout", source_dropout))
        self.embedding_dropout = nn.Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.output_dropout = nn.Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # source ids (B, S), and if PAD does not tell it their mask (B, S) bool, True before padding
    ) -> Source:
        """Read the source both ways."""
        source = inputs[0]
        checks.integers("source", source)
        checks.shape("source", source, None, None, letters="(B, S)")
        mask = inputs[1] if len(inputs) > 1 else source != self.source_pad
        checks.shape("mask", mask, *source.shape, letters="(B, S)")
        checks.must(mask.dtype == torch.bool, "mask", "of type torch.bool", mask.dtype)
        states, last = self.encoder(self.source_dropout(self.source_embedding(source.t())), mask.t())
        values = states.transpose(0, 1).contiguous()
        return Source(values, self.key(values), torch.tanh(self.bridge(last)), mask)

    def start(self, memory: Source) -> Decoder:
        """From the encoder's last state, the cell empty."""
        return Decoder(memory.first, torch.zeros_like(memory.first))

    def decode(
        self,
        memory: Source,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, D)
        """The hidden states after each of the tokens."""
        words = self.embedding_dropout(self.embedding(tokens.t()))
        gates = self.word_gates(words)  # (T, B, G)
        if loops.runs(gates, memory.keys):
            hidden, contexts = loops.search(
                gates,
                memory.keys,
                memory.values,
                memory.mask,
                memory.first,
                self.score,
                self.recurrent.weight,
                self.context_gates.weight,
            )
        else:
            state, steps = self.start(memory), []
            for step in gates.unbind(0):
                context, state = self._advance(memory, state, step)
                steps.append((state.hidden, context))
            hidden, contexts = (torch.stack(parts) for parts in zip(*steps, strict=True))
        return self._leave(hidden, words, contexts).transpose(0, 1)

    def step(
        self,
        memory: Source,
        state: Decoder,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, Decoder]:  # (B, D)
        """The hidden state after one more token."""
        words = self.embedding_dropout(self.embedding(tokens))
        context, state = self._advance(memory, state, self.word_gates(words))
        return self._leave(state.hidden, words, context), state

    def _advance(
        self,
        memory: Source,
        state: Decoder,
        gates: Tensor,  # (B, G)
    ) -> tuple[Tensor, Decoder]:  # (B, C) context
        query, memories = self.recurrent(state.hidden).tensor_split([self.attention_size], -1)
        context = additive_attention(query, memory.keys, self.score, memory.values, memory.mask)
        read = gates + self.context_gates(context)
        if self.kind == "gru":
            return context, Decoder(cells.gru(read, memories, state.hidden), state.cell)
        return context, Decoder(*cells.lstm(read + memories, state.cell))

    def _leave(
        self,
        hidden: Tensor,  # (..., B, H)
        words: Tensor,  # (..., B, E)
        contexts: Tensor,  # (..., B, C)
    ) -> Tensor:  # (..., B, D)
        if self.deep is not None:
            kinds = hidden.dtype
            hidden = torch.tanh(self.deep(torch.cat([hidden, words.to(kinds), contexts.to(kinds)], -1)))
        leaving: Tensor = self.output_dropout(hidden)
        return leaving
