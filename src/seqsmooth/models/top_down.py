"""Top-Down attention: one LSTM attends to regions, another one writes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models import cells, loops
from seqsmooth.models.dropout import Dropout
from seqsmooth.models.model import Model, check_features, check_number, make_embedding, make_head, make_recurrent
from seqsmooth.ops import checks
from seqsmooth.ops.attention import additive_attention
from seqsmooth.ops.products import Linear


class RegionMemory(NamedTuple):
    """The projected regions of an image."""

    values: Tensor  # (B, R, H)
    keys: Tensor  # (B, R, A)
    gates: Tensor  # (B, 4H) the share of the mean region in the gates of the attention LSTM
    mask: Tensor  # (B, R) bool


class TopDownState(NamedTuple):
    """The states of both LSTMs."""

    hidden: Tensor  # (B, 2H) of the attention LSTM, then of the language LSTM
    attention_cell: Tensor  # (B, H)
    language_cell: Tensor  # (B, H)


class TopDown(Model[RegionMemory, TopDownState]):
    """Top-Down attention, Anderson et al. 2018: one LSTM attends to regions, another one writes.

    As in the authors' code, regions are first projected to H dimensions, with a ReLU. Whatever does not depend on the
    recurrence is computed for all steps at once, outside of the loop.

    Args:
        vocab_size: V.
        feature_size: F, of the features of a region.
        embedding_size: E; the authors' 512.
        units: H of both LSTMs; the authors' 512.
        attention_size: A; the authors' 512.
        embedding_dropout: on the embeddings of tokens.
        output_dropout: on the hidden states that `decode` and `step` return.
        tied: use one matrix for embedding and head; E must be H.
        vectors: initial values of the embedding.

    Examples:
        >>> model = TopDown(vocab_size=50, feature_size=8, embedding_size=16, units=12, attention_size=6)
        >>> regions, mask = torch.randn(2, 5, 8), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
        >>> model((regions, mask), torch.tensor([[1, 9], [1, 10]])).shape
        torch.Size([2, 2, 12])
    """

    kind = "top_down"

    def __init__(
        self,
        vocab_size: int,
        feature_size: int = 2048,
        embedding_size: int = 512,
        units: int = 512,
        attention_size: int = 512,
        *,
        embedding_dropout: float = 0.5,
        output_dropout: float = 0.5,
        tied: bool = False,
        vectors: Tensor | None = None,  # (V, E)
    ) -> None:
        super().__init__()
        self.feature_size = checks.at_least("feature_size", feature_size, 1)
        self.units = checks.at_least("units", units, 1)
        checks.at_least("attention_size", attention_size, 1)
        checks.flag("tied", tied)
        self.embedding = make_embedding(vocab_size, embedding_size, vectors)
        self.region = Linear(feature_size, units)
        self.key = Linear(units, attention_size)
        self.query = Linear(units, attention_size, bias=False)
        self.score = nn.Parameter(torch.empty(attention_size).uniform_(-(attention_size**-0.5), attention_size**-0.5))
        self.word_gates = make_recurrent(embedding_size, 4 * units, units)
        self.pool_gates = make_recurrent(units, 4 * units, units, bias=True)
        self.attention = make_recurrent(2 * units, 4 * units, units)  # reads both hidden states
        self.language = make_recurrent(3 * units, 4 * units, units, bias=True)  # reads the context and both again
        self.head = make_head(units, vocab_size, self.embedding if tied else None)
        self.embedding_dropout = Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.output_dropout = Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # features (B, R, F), and if some are padding their mask (B, R) bool
    ) -> RegionMemory:
        """Project the regions and pool them."""
        check_number(inputs, 2, "features (B, R, F), and if some are padding their mask (B, R)")
        features = inputs[0]
        check_features(features, None, None, self.feature_size, letters="(B, R, F)", weight=self.region.weight)
        shape = features.shape[:2]
        mask = inputs[1] if len(inputs) > 1 else torch.ones(shape, dtype=torch.bool, device=features.device)
        checks.shape("mask", mask, *shape, letters="(B, R)")
        checks.must(mask.dtype == torch.bool, "mask", "of type torch.bool", mask.dtype)
        values = self.region(features).relu()
        share = mask.to(values.dtype) / mask.sum(-1, keepdim=True).clamp_min(1)
        pooled = (share.to(values.dtype).unsqueeze(1) @ values).squeeze(1)
        return RegionMemory(values, self.key(values), self.pool_gates(pooled), mask)

    def start(self, memory: RegionMemory) -> TopDownState:
        """The state of zeros."""
        items = memory.values.shape[0]
        empty = memory.values.new_zeros(items, self.units)
        return TopDownState(memory.values.new_zeros(items, 2 * self.units), empty, empty)

    def decode(
        self,
        memory: RegionMemory,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, H)
        """The hidden states after each token."""
        gates = self._first_gates(memory, tokens.t())  # (T, B, 4H)
        if loops.runs(gates, memory.keys):
            hidden = loops.apply(
                loops.TopDownLoop,
                gates,
                memory.mask,
                memory.keys,
                memory.values,
                self.query.weight,
                self.score,
                self.attention.weight,
                self.language.weight,
                self.language.bias,
            )
        else:
            state, steps = self.start(memory), []
            for step in gates.unbind(0):
                state = self._advance(memory, state, step)
                steps.append(self._language_state(state))
            hidden = torch.stack(steps)
        outputs: Tensor = self.output_dropout(hidden)
        return outputs.transpose(0, 1)

    def step(
        self,
        memory: RegionMemory,
        state: TopDownState,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, TopDownState]:  # (B, H)
        """The hidden state after one more token."""
        state = self._advance(memory, state, self._first_gates(memory, tokens))
        return self.output_dropout(self._language_state(state)), state

    def _first_gates(
        self,
        memory: RegionMemory,
        tokens: Tensor,  # (..., B)
    ) -> Tensor:  # (..., B, 4H)
        gates: Tensor = self.word_gates(self.embedding_dropout(self.embedding(tokens).relu()))
        return gates + memory.gates

    def _advance(
        self,
        memory: RegionMemory,
        state: TopDownState,
        gates: Tensor,  # (B, 4H)
    ) -> TopDownState:
        attention, attention_cell = cells.lstm(gates + self.attention(state.hidden), state.attention_cell)
        context = additive_attention(self.query(attention), memory.keys, self.score, memory.values, memory.mask)
        inputs = torch.cat([context, attention, self._language_state(state)], -1)
        language, language_cell = cells.lstm(self.language(inputs), state.language_cell)
        return TopDownState(torch.cat([attention, language], -1), attention_cell, language_cell)

    def _language_state(self, state: TopDownState) -> Tensor:  # (B, H)
        return state.hidden[:, self.units :]
