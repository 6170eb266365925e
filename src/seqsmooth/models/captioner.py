"""Stage two: a captioner that sees pictures, and may tune what it sees them with."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from seqsmooth.models.model import Model, check_number
from seqsmooth.models.vision.encoder import ImageEncoder
from seqsmooth.ops import checks


class Captioner(Model[Any, Any]):
    """An image encoder and the model that writes from its features, as one model whose inputs are pictures.

    Stage one trains the model on features from a file. Stage two begins with its weights and tunes the last blocks of
    the encoder along with them, at a rate of their own (`parameter_groups`); BatchNorm stays as it is.

    Args:
        encoder: pictures to features.
        decoder: a `ShowTell` for pooled features, a `TopDown` for regions.
        tuned: how many of the encoder's last blocks learn; the paper's 2 of ResNet's four.

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
        checks.must(isinstance(encoder, ImageEncoder), "encoder", "an ImageEncoder", checks.described(encoder))
        reads = getattr(decoder, "feature_size", None)
        checks.must(reads is not None, "decoder", "a model that reads features", checks.described(decoder))
        size = encoder.feature_shape[-1]
        checks.must(reads == size, "decoder.feature_size", f"{size}, as the encoder's", reads)
        self.encoder = encoder
        self.decoder = decoder
        encoder.tune(tuned)

    @property
    def head(self) -> nn.Linear:  # type: ignore[override]
        """The decoder's."""
        return self.decoder.head

    def config(self) -> dict[str, Any]:
        """The arguments of the model; encoder and decoder are dictionaries in it."""
        parts = {"encoder": self.encoder.config(), "decoder": self.decoder.config()}
        return {"kind": self.kind, **parts, "tuned": self._arguments["tuned"]}

    def encode(
        self,
        *inputs: Tensor,  # pictures (B, 3, S, S) uint8, or what else the encoder reads; then what the decoder does
    ) -> Any:
        """See, and read what was seen."""
        check_number(inputs, 2, "pictures (B, 3, S, S), and what its decoder reads beside what was seen")
        return self.decoder.encode(self.encoder(inputs[0]), *inputs[1:])

    def start(self, memory: Any) -> Any:
        """The decoder's state before the first token."""
        return self.decoder.start(memory)

    def decode(
        self,
        memory: Any,
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, D)
        """The decoder's hidden states after each token."""
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
    """Group the parameters that learn: the decoder at `lr`, the free blocks of the encoder at `encoder_lr`.

    Examples:
        >>> from seqsmooth.models import Captioner, EfficientNetLite, ShowTell
        >>> encoder = EfficientNetLite(0, side=64, pretrained=False)
        >>> decoder = ShowTell(vocab_size=50, feature_size=1280, embedding_size=16, units=16)
        >>> groups = parameter_groups(Captioner(encoder, decoder, tuned=2), lr=5e-4, encoder_lr=6e-5)
        >>> [group["lr"] for group in groups]
        [0.0005, 6e-05]
    """
    free = [parameter for parameter in model.encoder.parameters() if parameter.requires_grad]
    groups = [{"params": list(model.decoder.parameters()), "lr": checks.non_negative("lr", lr)}]
    rate = checks.non_negative("encoder_lr", encoder_lr)
    return [*groups, {"params": free, "lr": rate}] if free else groups
