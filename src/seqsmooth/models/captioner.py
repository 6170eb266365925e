"""`Captioner`: an image encoder and a decoder trained as one model, for stage two."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from seqsmooth.models.model import Model, check_number
from seqsmooth.models.vision.encoder import ImageEncoder
from seqsmooth.ops import checks


class Captioner(Model[Any, Any]):
    """A captioner of pictures: an image encoder, and a decoder that writes from its features.

    Stage one trains the decoder on features from a file. Stage two starts from its weights and also tunes the last
    blocks of the encoder, with a learning rate of their own (`parameter_groups`); BatchNorm stays frozen.

    Args:
        encoder: turns pictures into features.
        decoder: a `ShowTell` for pooled features, a `TopDown` for regions.
        tuned: number of last blocks of the encoder that are trained; the paper's 2 of ResNet's four.

    Examples:
        >>> import torch
        >>> from seqsmooth.models import CachedFeatures, ShowTell
        >>> decoder = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=16)
        >>> model = Captioner(CachedFeatures((8,)), decoder)
        >>> model((torch.randn(2, 8),), torch.tensor([[1, 9, 4], [1, 10, 5]])).shape  # hidden states (B, T, D)
        torch.Size([2, 3, 16])
    """

    kind = "captioner"

    def __init__(self, encoder: ImageEncoder, decoder: Model[Any, Any], *, tuned: int = 0) -> None:
        super().__init__()
        checks.must(isinstance(encoder, ImageEncoder), "encoder", "an ImageEncoder", checks.describe(encoder))
        width = getattr(decoder, "feature_size", None)
        checks.must(width is not None, "decoder", "a model that reads features", checks.describe(decoder))
        size = encoder.feature_shape[-1]
        checks.must(width == size, "decoder.feature_size", f"{size}, as the encoder's", width)
        self.encoder = encoder
        self.decoder = decoder
        encoder.tune(tuned)

    @property
    def head(self) -> nn.Linear:  # type: ignore[override]
        """The head of the decoder."""
        return self.decoder.head

    def config(self) -> dict[str, Any]:
        """The arguments as plain values, with a dictionary each for encoder and decoder."""
        parts = {"encoder": self.encoder.config(), "decoder": self.decoder.config()}
        return {"kind": self.kind, **parts, "tuned": self._arguments["tuned"]}

    def encode(
        self,
        *inputs: Tensor,  # pictures (B, 3, S, S) uint8 (or features); then further inputs of the decoder
    ) -> Any:
        """Compute the features of the pictures and encode them for the decoder."""
        check_number(inputs, 2, "pictures (B, 3, S, S), and further inputs of the decoder")
        return self.decoder.encode(self.encoder(inputs[0]), *inputs[1:])

    def start(self, memory: Any) -> Any:
        """The decoder's state before the first token."""
        return self.decoder.start(memory)

    def decode(
        self,
        memory: Any,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, D)
        """The decoder's hidden states after each token, by teacher forcing."""
        return self.decoder.decode(memory, tokens)

    def step(
        self,
        memory: Any,
        state: Any,
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, Any]:  # (B, D)
        """The decoder's hidden state after one more token."""
        return self.decoder.step(memory, state, tokens)


def parameter_groups(model: Captioner, lr: float, encoder_lr: float) -> list[dict[str, Any]]:
    """The parameter groups of an optimizer: the decoder at `lr`, the tuned blocks of the encoder at `encoder_lr`.

    Examples:
        >>> from seqsmooth.models import Captioner, EfficientNetLite, ShowTell
        >>> encoder = EfficientNetLite(0, side=64, pretrained=False)
        >>> decoder = ShowTell(vocab_size=50, feature_size=1280, embedding_size=16, units=16)
        >>> groups = parameter_groups(Captioner(encoder, decoder, tuned=2), lr=5e-4, encoder_lr=6e-5)
        >>> [group["lr"] for group in groups]
        [0.0005, 6e-05]
    """
    tuned = [parameter for parameter in model.encoder.parameters() if parameter.requires_grad]
    groups = [{"params": list(model.decoder.parameters()), "lr": checks.non_negative("lr", lr)}]
    rate = checks.non_negative("encoder_lr", encoder_lr)
    return [*groups, {"params": tuned, "lr": rate}] if tuned else groups
