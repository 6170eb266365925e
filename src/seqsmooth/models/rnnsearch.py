"""RNNsearch: translation with attention before each step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models import cells, loops
from seqsmooth.models.dropout import Dropout
from seqsmooth.models.encoder import KINDS, BidirectionalEncoder, Kind, read_source
from seqsmooth.models.model import Model, make_embedding, make_head, make_recurrent
from seqsmooth.ops import checks
from seqsmooth.ops.attention import additive_attention
from seqsmooth.ops.products import Linear


class SourceMemory(NamedTuple):
    """An encoded source sentence."""

    values: Tensor  # (B, S, C)
    keys: Tensor  # (B, S, A)
    first: Tensor  # (B, L, H) the decoder's first hidden states
    mask: Tensor  # (B, S) bool


class RNNsearchState(NamedTuple):
    """The state of the decoder; parts that it does not use are empty."""

    hidden: Tensor  # (B, L, H)
    cell: Tensor  # (B, L, H); (B, 0, H) with a GRU
    fed: Tensor  # (B, D) the deep output of the last step; (B, 0) without input feeding


class RNNsearch(Model[SourceMemory, RNNsearchState]):
    """RNNsearch, Bahdanau et al. 2015: a bidirectional encoder, and a decoder that attends before each step.

    With s the state of the decoder's first layer, c_t = attention(s_{t-1}), s_t = cell(s_{t-1}, [y_{t-1}, c_t]). Layers
    above it read [s_t, c_t]. The deep output is tanh(W [s_t, y_{t-1}, c_t]) with s_t of the last layer; it has the size
    of the embedding, so the head can be tied. Without it, s_t is the hidden state of the model. With input feeding
    (Luong et al. 2015) the first layer also reads the deep output of the step before.

    Args:
        source_size: size of the source vocabulary.
        vocab_size: V, of the target vocabulary.
        embedding_size: E, of both sides; the paper's 128 for IWSLT.
        encoder_units: of each direction.
        units: H of the decoder.
        attention_size: A; `units` by default.
        cell: "lstm" or "gru", on both sides.
        encoder_layers: of the encoder; 2 in the authors' runs on WMT.
        layers: L, of the decoder.
        source_pad: the id of source padding, where no mask is given.
        deep_output: see above.
        input_feeding: see above; it needs the deep output.
        source_dropout: on the embeddings of source tokens.
        embedding_dropout: on the embeddings of target tokens.
        layer_dropout: between layers, on both sides.
        output_dropout: on the hidden states that `decode` and `step` return.
        tied: use one matrix for target embedding and head.
        vectors: initial values of the target embedding.
        source_vectors: initial values of the source embedding.

    Examples:
        >>> model = RNNsearch(source_size=90, vocab_size=50, embedding_size=16, encoder_units=8, units=12)
        >>> sources = torch.tensor([[4, 5, 6], [7, 8, 0]])  # 0 is padding
        >>> hidden = model((sources,), torch.tensor([[1, 9], [1, 10]]))
        >>> hidden.shape, model.logits(hidden).shape
        (torch.Size([2, 2, 12]), torch.Size([2, 2, 50]))
    """

    kind = "rnnsearch"

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
        encoder_layers: int = 1,
        layers: int = 1,
        source_pad: int = 0,
        deep_output: bool = False,
        input_feeding: bool = False,
        source_dropout: float = 0.2,
        embedding_dropout: float = 0.2,
        layer_dropout: float = 0.0,
        output_dropout: float = 0.2,
        tied: bool = False,
        vectors: Tensor | None = None,  # (V, E)
        source_vectors: Tensor | None = None,  # (source_size, E)
    ) -> None:
        super().__init__()
        self.units = checks.at_least("units", units, 1)
        self.layers = checks.at_least("layers", layers, 1)
        self.attention_size = units if attention_size is None else checks.at_least("attention_size", attention_size, 1)
        self.source_pad = checks.at_least("source_pad", source_pad, 0)
        checks.at_least("encoder_layers", encoder_layers, 1)
        for name, flag in (("deep_output", deep_output), ("input_feeding", input_feeding), ("tied", tied)):
            checks.flag(name, flag)
        checks.must(deep_output or not input_feeding, "deep_output", "True where `input_feeding` is", deep_output)
        checks.one_of("cell", cell, KINDS)
        self.cell: Kind = cell
        checks.fraction("layer_dropout", layer_dropout)
        gates, context = (4 if cell == "lstm" else 3) * units, 2 * checks.at_least("encoder_units", encoder_units, 1)
        self.source_embedding = make_embedding(source_size, embedding_size, source_vectors, source=True)
        self.encoder = BidirectionalEncoder(
            embedding_size, encoder_units, cell, layers=encoder_layers, dropout=layer_dropout
        )
        self.key = Linear(context, self.attention_size)
        self.bridge = Linear(encoder_units, layers * units)
        self.embedding = make_embedding(vocab_size, embedding_size, vectors)
        self.score = nn.Parameter(
            torch.empty(self.attention_size).uniform_(-(self.attention_size**-0.5), self.attention_size**-0.5)
        )
        self.word_gates = make_recurrent(embedding_size, gates, units, bias=True)
        self.context_gates = make_recurrent(context, gates, units)
        self.recurrent = make_recurrent(units, self.attention_size + gates, units)  # the query, then the gates
        layer, above = nn.LSTM if cell == "lstm" else nn.GRU, layers - 1
        between = layer_dropout if layers > 2 else 0.0
        self.upper = layer(units + context, units, above, dropout=between) if above else None
        size = embedding_size if deep_output else units
        self.deep = Linear(units + embedding_size + context, size) if deep_output else None
        self.feed_gates = make_recurrent(size, gates, units) if input_feeding else None
        self.head = make_head(size, vocab_size, self.embedding if tied else None)
        self.source_dropout = Dropout(checks.fraction("source_dropout", source_dropout))
        self.embedding_dropout = Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.layer_dropout = Dropout(layer_dropout)
        self.output_dropout = Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # source ids (B, S), and optionally their mask (B, S) bool, True before padding
    ) -> SourceMemory:
        """Encode the source in both directions."""
        source, mask = read_source(inputs, self.source_pad)
        encoded = self.encoder(self.source_dropout(self.source_embedding(source.t())), mask.t())
        values = encoded.states.transpose(0, 1).contiguous()
        first = torch.tanh(self.bridge(encoded.backward)).view(-1, self.layers, self.units)
        return SourceMemory(values, self.key(values), first, mask)

    def start(self, memory: SourceMemory) -> RNNsearchState:
        """The state from the encoder's last state, with cells of zeros."""
        first, size = memory.first, 0 if self.feed_gates is None else self.head.in_features
        cell = torch.zeros_like(first if self.cell == "lstm" else first[:, :0])
        return RNNsearchState(first, cell, first.new_zeros(first.shape[0], size))

    def decode(
        self,
        memory: SourceMemory,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, D)
        """The hidden states after each token."""
        words = self.embedding_dropout(self.embedding(tokens.t()))
        gates, state = self.word_gates(words), self.start(memory)  # (T, B, G)
        if self.feed_gates is not None:  # the deep output is part of the recurrence
            fed = []
            for step, word in zip(gates.unbind(0), words.unbind(0), strict=True):
                output, state = self._advance(memory, state, step, word)
                fed.append(output)
            return self.output_dropout(torch.stack(fed, 1))  # type: ignore[no-any-return]
        if loops.runs(gates, memory.keys):
            hidden, contexts = loops.apply(
                loops.SearchLoop,
                gates,
                memory.mask,
                memory.keys,
                memory.values,
                memory.first[:, 0],
                self.score,
                self.recurrent.weight,
                self.context_gates.weight,
            )
        else:
            first_layer, steps = state, []
            for step in gates.unbind(0):
                context, first_layer = self._attend(memory, first_layer, step)
                steps.append((first_layer.hidden[:, 0], context))
            hidden, contexts = (torch.stack(parts) for parts in zip(*steps, strict=True))
        if self.upper is not None:
            hidden, _ = self._upper_layers(hidden, contexts, state)
        outputs: Tensor = self.output_dropout(self._output(hidden, words, contexts))
        return outputs.transpose(0, 1)

    def step(
        self,
        memory: SourceMemory,
        state: RNNsearchState,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, RNNsearchState]:  # (B, D)
        """The hidden state after one more token."""
        words = self.embedding_dropout(self.embedding(tokens))
        output, state = self._advance(memory, state, self.word_gates(words), words)
        return self.output_dropout(output), state

    def _advance(
        self,
        memory: SourceMemory,
        state: RNNsearchState,
        gates: Tensor,  # (B, G)
        words: Tensor,  # (B, E)
    ) -> tuple[Tensor, RNNsearchState]:  # (B, D)
        """Advance all layers by one step."""
        if self.feed_gates is not None:
            gates = gates + self.feed_gates(state.fed)
        context, after = self._attend(memory, state, gates)
        hidden = after.hidden[:, 0]
        if self.upper is not None:
            tops, above = self._upper_layers(hidden.unsqueeze(0), context.unsqueeze(0), state)
            hidden = tops[0]
            after = RNNsearchState(
                torch.cat([after.hidden, above.hidden], 1), torch.cat([after.cell, above.cell], 1), state.fed
            )
        output = self._output(hidden, words, context)
        return output, after if self.feed_gates is None else after._replace(fed=output)

    def _attend(
        self,
        memory: SourceMemory,
        state: RNNsearchState,
        gates: Tensor,  # (B, G)
    ) -> tuple[Tensor, RNNsearchState]:  # (B, C) context, the first layer's state
        """Attend, then advance the first layer by one step."""
        before = state.hidden[:, 0]
        query, memories = self.recurrent(before).tensor_split([self.attention_size], -1)
        context = additive_attention(query, memory.keys, self.score, memory.values, memory.mask)
        inputs = gates + self.context_gates(context)
        if self.cell == "gru":
            return context, RNNsearchState(cells.gru(inputs, memories, before).unsqueeze(1), state.cell, state.fed)
        hidden, cell = cells.lstm(inputs + memories, state.cell[:, 0])
        return context, RNNsearchState(hidden.unsqueeze(1), cell.unsqueeze(1), state.fed)

    def _upper_layers(
        self,
        hidden: Tensor,  # (T, B, H) of the first layer
        contexts: Tensor,  # (T, B, C)
        state: RNNsearchState,  # before the first step
    ) -> tuple[Tensor, RNNsearchState]:  # (T, B, H), the state of the layers above the first
        """Run the layers above the first over whole sequences: one call of cuDNN on a GPU."""
        assert self.upper is not None
        inputs = torch.cat([self.layer_dropout(hidden), contexts.to(hidden.dtype)], -1)
        before = state.hidden[:, 1:].transpose(0, 1).to(hidden.dtype).contiguous()
        if self.cell == "gru":
            tops, after = self.upper(inputs, before)
            return tops, RNNsearchState(after.transpose(0, 1), state.cell, state.fed)
        cell = state.cell[:, 1:].transpose(0, 1).to(hidden.dtype).contiguous()
        tops, (after, cell) = self.upper(inputs, (before, cell))
        return tops, RNNsearchState(after.transpose(0, 1), cell.transpose(0, 1), state.fed)

    def _output(
        self,
        hidden: Tensor,  # (..., B, H)
        words: Tensor,  # (..., B, E)
        contexts: Tensor,  # (..., B, C)
    ) -> Tensor:  # (..., B, D)
        if self.deep is None:
            return hidden
        dtype = hidden.dtype
        return torch.tanh(self.deep(torch.cat([hidden, words.to(dtype), contexts.to(dtype)], -1)))
