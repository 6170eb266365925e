"""The Hugging Face integrations as losses that can be examined: the function, and the mixin in a real Trainer."""

from __future__ import annotations

import importlib
import tempfile
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from seqsmooth.integrations import Smoothed, huggingface
from seqsmooth.smoothing.presets import label_smoothing


def function(
    outputs: Any,  # with `logits` (B, T, V)
    labels: Tensor,  # (B, T)
    *,
    alpha: float = 0.0,
    num_items_in_batch: Tensor | None = None,  # ()
    shift_labels: bool = False,
) -> Tensor:  # ()
    """The loss of `huggingface(objective)`."""
    return huggingface(label_smoothing(alpha), shift=shift_labels)(outputs, labels, num_items_in_batch)


def mixin(
    hidden: Tensor,  # (B, T, D)
    weight: Tensor,  # (V, D)
    labels: Tensor,  # (B, T)
    *,
    alpha: float = 0.0,
    num_items_in_batch: Tensor | None = None,  # ()
) -> Tensor:  # ()
    """The loss of `Smoothed` for a causal model with these hidden states."""
    trainer = _trainer(alpha, hidden.device.type)
    trainer.model.set_matrix(weight)
    loss: Tensor = trainer.compute_loss(
        trainer.model, {"hidden": hidden, "labels": labels}, num_items_in_batch=num_items_in_batch
    )
    return loss


class _LinearModel(nn.Module):
    """A causal model that is its output layer alone."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=False)
        self.head = nn.Linear(1, 1, bias=False)

    def set_matrix(
        self,
        weight: Tensor,  # (V, D)
    ) -> None:
        """Use this very matrix, not a copy, so that it gets the gradient."""
        self.head._parameters.pop("weight", None)
        self.head.weight = weight

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, hidden: Tensor, use_cache: bool = True) -> SimpleNamespace:
        return SimpleNamespace(logits=self.head(hidden))


@lru_cache(maxsize=4)
def _trainer(alpha: float, device: str) -> Any:
    transformers: Any = importlib.import_module("transformers")
    trainer = type("SmoothedTrainer", (Smoothed, transformers.Trainer), {})
    folder = tempfile.gettempdir()  # nothing is written there
    arguments = transformers.TrainingArguments(folder, use_cpu=device == "cpu", report_to="none")
    return trainer(model=_LinearModel(), args=arguments, objective=label_smoothing(alpha))
