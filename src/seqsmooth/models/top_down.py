"""Top-Down attention."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models import cells, loops
from seqsmooth.models.model import Model, check_features, check_number, embedding, output, recurrent
from seqsmooth.ops import checks
from seqsmooth.ops.attention import additive_attention


class Regions(NamedTuple):
    """The regions of an image."""

    values: Tensor  # (B, R, H)
    keys: Tensor  # (B, R, A)
    gates: Tensor  # (B, 4H) what all of them together tell the attention LSTM
    mask: Tensor  # (B, R) bool


class TwoCells(NamedTuple):
    """The states of the two LSTMs."""

    hidden: Tensor  # (B, 2H) of the attention LSTM, then of the language LSTM
    attention_cell: Tensor  # (B, H)
    language_cell: Tensor  # (B, H)


class TopDown(Model[Regions, TwoCells]):
    """Top-Down attention, Anderson et al. 2018: one LSTM chooses among regions, another one writes.

    As in the authors' code, regions are first projected to H dimensions, with a ReLU. All that does not depend on the
    recurrence is computed for all steps at once, outside of the loop.

    Args:
        vocab_size: V.
        feature_size: F, of the features of a region.
        embedding_size: E; the authors' 512.
        units: H of both LSTMs; the authors' 512.
        attention_size: A; the authors' 512.
        embedding_dropout: of the words read.
        output_dropout: of the hidden states that leave.
        tied: one matrix reads and writes words; E must be H.
        vectors: where the embedding starts from.

    Examples:
        >>> model = TopDown(vocab_size=50, feature_size=8, embedding_size=16, units=12, attention_size=6)
        >>> regions, there = torch.randn(2, 5, 8), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
        >>> model((regions, there), torch.tensor([[1, 9], [1, 10]])).shape
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
        self.embedding = embedding(vocab_size, embedding_size, vectors)
        self.region = nn.Linear(feature_size, units)
        self.key = nn.Linear(units, attention_size)
        self.query = nn.Linear(units, attention_size, bias=False)
        self.score = nn.Parameter(torch.empty(attention_size).uniform_(-(attention_size**-0.5), attention_size**-0.5))
        self.word_gates = recurrent(embedding_size, 4 * units, units)
        self.pool_gates = recurrent(units, 4 * units, units, bias=True)
        self.attention = recurrent(2 * units, 4 * units, units)  # reads both hidden states
        self.language = recurrent(3 * units, 4 * units, units, bias=True)  # context, attention's hidden state, its own
        self.head = output(units, vocab_size, self.embedding if tied else None)
        self.embedding_dropout = nn.Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.output_dropout = nn.Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # features (B, R, F), and if some are padding their mask (B, R) bool
    ) -> Regions:
        """Project the regions, and pool them."""
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
        return Regions(values, self.key(values), self.pool_gates(pooled), mask)

    def start(self, memory: Regions) -> TwoCells:
        """Zeros."""
        items = memory.values.shape[0]
        empty = memory.values.new_zeros(items, self.units)
        return TwoCells(memory.values.new_zeros(items, 2 * self.units), empty, empty)

    def decode(
        self,
        memory: Regions,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, H)
        """The hidden states after each of the tokens."""
        gates = self._read(memory, tokens.t())  # (T, B, 4H)
        if loops.runs(gates, memory.keys):
            hidden = loops.top_down(
                gates,
                memory.keys,
                memory.values,
                memory.mask,
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
                steps.append(self._write(state))
            hidden = torch.stack(steps)
        leaving: Tensor = self.output_dropout(hidden)
        return leaving.transpose(0, 1)

    def step(
        self,
        memory: Regions,
        state: TwoCells,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, TwoCells]:  # (B, H)
        """The hidden state after one more token."""
        state = self._advance(memory, state, self._read(memory, tokens))
        return self.output_dropout(self._write(state)), state

    def _read(
        self,
        memory: Regions,
        tokens: Tensor,  # (..., B)
    ) -> Tensor:  # (..., B, 4H)
        gates: Tensor = self.word_gates(self.embedding_dropout(self.embedding(tokens).relu()))
        return gates + memory.gates

    def _advance(
        self,
        memory: Regions,
        state: TwoCells,
        gates: Tensor,  # (B, 4H)
    ) -> TwoCells:
        looking, looking_cell = cells.lstm(gates + self.attention(state.hidden), state.attention_cell)
        context = additive_attention(self.query(looking), memory.keys, self.score, memory.values, memory.mask)
        read = torch.cat([context, looking, self._write(state)], -1)
        writing, writing_cell = cells.lstm(self.language(read), state.language_cell)
        return TwoCells(torch.cat([looking, writing], -1), looking_cell, writing_cell)

    def _write(self, state: TwoCells) -> Tensor:  # (B, H)
        return state.hidden[:, self.units :]
