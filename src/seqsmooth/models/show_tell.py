"""Show and Tell."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models.model import Model, check_features, check_number, embedding, output
from seqsmooth.ops import checks


class Image(NamedTuple):
    """An image as the first word of its caption."""

    token: Tensor  # (B, E)


class LSTMState(NamedTuple):
    """The state of an LSTM."""

    hidden: Tensor  # (B, H)
    cell: Tensor  # (B, H)


class ShowTell(Model[Image, LSTMState]):
    """Show and Tell, Vinyals et al. 2015: an LSTM reads the image, then the words.

    The whole sequence is one call of `nn.LSTM`, so of cuDNN on a GPU.

    Args:
        vocab_size: V.
        feature_size: F, of the pooled features of an image.
        embedding_size: E; the paper's 512.
        units: H of the LSTM; the paper's 512.
        embedding_dropout: of the words read.
        image_dropout: of the image, as the word that it is; the authors have none.
        output_dropout: of the hidden states that leave.
        tied: one matrix reads and writes words; E must be H.
        vectors: where the embedding starts from.

    Examples:
        >>> model = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=12).eval()
        >>> features, tokens = torch.randn(2, 8), torch.tensor([[1, 9], [1, 10]])
        >>> hidden = model((features,), tokens)  # (B, T, D), all words at once
        >>> memory = model.encode(features)
        >>> first, state = model.step(memory, model.start(memory), tokens[:, 0])  # or one after the other
        >>> torch.allclose(first, hidden[:, 0], atol=1e-6)
        True
    """

    kind = "show_tell"

    def __init__(
        self,
        vocab_size: int,
        feature_size: int = 2048,
        embedding_size: int = 512,
        units: int = 512,
        *,
        embedding_dropout: float = 0.5,
        image_dropout: float = 0.0,
        output_dropout: float = 0.0,
        tied: bool = False,
        vectors: Tensor | None = None,  # (V, E)
    ) -> None:
        super().__init__()
        self.feature_size = checks.at_least("feature_size", feature_size, 1)
        self.embedding = embedding(vocab_size, embedding_size, vectors)
        self.image = nn.Linear(feature_size, embedding_size)
        nn.init.uniform_(self.image.weight, -0.1, 0.1)
        nn.init.zeros_(self.image.bias)
        self.lstm = nn.LSTM(embedding_size, checks.at_least("units", units, 1))
        checks.flag("tied", tied)
        self.head = output(units, vocab_size, self.embedding if tied else None)
        self.embedding_dropout = nn.Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.image_dropout = nn.Dropout(checks.fraction("image_dropout", image_dropout))
        self.output_dropout = nn.Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # features (B, F)
    ) -> Image:
        """Turn pooled features into a word."""
        check_number(inputs, 1, "features (B, F)")
        (features,) = inputs
        check_features(features, None, self.feature_size, letters="(B, F)", weight=self.image.weight)
        return Image(self.image(features))

    def start(self, memory: Image) -> LSTMState:
        """After the image."""
        _, (hidden, cell) = self.lstm(self.image_dropout(memory.token).unsqueeze(0))
        return LSTMState(hidden.squeeze(0), cell.squeeze(0))

    def decode(
        self,
        memory: Image,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, H)
        """The hidden states after each of the tokens."""
        # Time first, as cuDNN has it.
        words = self.embedding_dropout(self.embedding(tokens.t()))
        image = self.image_dropout(memory.token).unsqueeze(0)
        read, _ = self.lstm(torch.cat([image.to(words.dtype), words]))
        hidden: Tensor = self.output_dropout(read[1:])
        return hidden.transpose(0, 1)

    def step(
        self,
        memory: Image,
        state: LSTMState,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, LSTMState]:  # (B, H)
        """The hidden state after one more token."""
        words = self.embedding_dropout(self.embedding(tokens)).unsqueeze(0)
        before = state.hidden.unsqueeze(0), state.cell.unsqueeze(0)
        _, (hidden, cell) = self.lstm(words, before)
        after = LSTMState(hidden.squeeze(0), cell.squeeze(0))
        return self.output_dropout(after.hidden), after
