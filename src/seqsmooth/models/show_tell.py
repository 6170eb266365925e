"""Show and Tell: an LSTM whose first word is the image."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqsmooth.models.dropout import Dropout
from seqsmooth.models.model import Model, check_features, check_number, make_embedding, make_head
from seqsmooth.ops import checks
from seqsmooth.ops.products import Linear


class ImageToken(NamedTuple):
    """An image as an embedding, the first word of its caption."""

    token: Tensor  # (B, E)


class LSTMState(NamedTuple):
    """The state of an LSTM."""

    hidden: Tensor  # (B, H)
    cell: Tensor  # (B, H)


class ShowTell(Model[ImageToken, LSTMState]):
    """Show and Tell, Vinyals et al. 2015: an LSTM reads the image, then the words.

    A whole sequence is one call of `nn.LSTM`, which is cuDNN on a GPU.

    Args:
        vocab_size: V.
        feature_size: F, of the pooled features of an image.
        embedding_size: E; the paper's 512.
        units: H of the LSTM; the paper's 512.
        embedding_dropout: on the embeddings of tokens.
        image_dropout: on the embedding of the image; the authors have none.
        output_dropout: on the hidden states that `decode` and `step` return.
        tied: use one matrix for embedding and head; E must be H.
        vectors: initial values of the embedding.

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
        self.embedding = make_embedding(vocab_size, embedding_size, vectors)
        self.image = Linear(feature_size, embedding_size)
        nn.init.uniform_(self.image.weight, -0.1, 0.1)
        nn.init.zeros_(self.image.bias)
        self.lstm = nn.LSTM(embedding_size, checks.at_least("units", units, 1))
        checks.flag("tied", tied)
        self.head = make_head(units, vocab_size, self.embedding if tied else None)
        self.embedding_dropout = Dropout(checks.fraction("embedding_dropout", embedding_dropout))
        self.image_dropout = Dropout(checks.fraction("image_dropout", image_dropout))
        self.output_dropout = Dropout(checks.fraction("output_dropout", output_dropout))

    def encode(
        self,
        *inputs: Tensor,  # features (B, F)
    ) -> ImageToken:
        """Project pooled features to the size of an embedding."""
        check_number(inputs, 1, "features (B, F)")
        (features,) = inputs
        check_features(features, None, self.feature_size, letters="(B, F)", weight=self.image.weight)
        return ImageToken(self.image(features))

    def start(self, memory: ImageToken) -> LSTMState:
        """The state after the image."""
        _, (hidden, cell) = self.lstm(self.image_dropout(memory.token).unsqueeze(0))
        return LSTMState(hidden.squeeze(0), cell.squeeze(0))

    def decode(
        self,
        memory: ImageToken,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, H)
        """The hidden states after each token."""
        # Time comes first, as in cuDNN.
        words = self.embedding_dropout(self.embedding(tokens.t()))
        image = self.image_dropout(memory.token).unsqueeze(0)
        states, _ = self.lstm(torch.cat([image.to(words.dtype), words]))
        hidden: Tensor = self.output_dropout(states[1:])
        return hidden.transpose(0, 1)

    def step(
        self,
        memory: ImageToken,
        state: LSTMState,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, LSTMState]:  # (B, H)
        """The hidden state after one more token."""
        words = self.embedding_dropout(self.embedding(tokens)).unsqueeze(0)
        before = state.hidden.unsqueeze(0), state.cell.unsqueeze(0)
        _, (hidden, cell) = self.lstm(words, before)
        after = LSTMState(hidden.squeeze(0), cell.squeeze(0))
        return self.output_dropout(after.hidden), after
