"""Our Hugging Face adapters as losses that can be examined: the function, and the mixin in a real Trainer."""

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
    """What `Trainer(compute_loss_func=...)` calls."""
    return huggingface(label_smoothing(alpha), shift=shift_labels)(outputs, labels, num_items_in_batch)


def mixin(
    hidden: Tensor,  # (B, T, D)
    weight: Tensor,  # (V, D)
    labels: Tensor,  # (B, T)
    *,
    alpha: float = 0.0,
    num_items_in_batch: Tensor | None = None,  # ()
) -> Tensor:  # ()
    """`Smoothed.compute_loss`, of a causal model whose hidden states are these."""
    trainer = _trainer(alpha, hidden.device.type)
    trainer.model.take(weight)
    loss: Tensor = trainer.compute_loss(
        trainer.model, {"hidden": hidden, "labels": labels}, num_items_in_batch=num_items_in_batch
    )
    return loss


class _Head(nn.Module):
    """As much of a causal model as the mixin looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=False)
        self.head = nn.Linear(1, 1, bias=False)

    def take(
        self,
        weight: Tensor,  # (V, D)
    ) -> None:
        """Have another matrix, not a copy of it, so that its gradient arrives."""
        self.head._parameters.pop("weight", None)
        self.head.weight = weight

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, hidden: Tensor, use_cache: bool = True) -> SimpleNamespace:
        return SimpleNamespace(logits=self.head(hidden))


@lru_cache(maxsize=4)
def _trainer(alpha: float, device: str) -> Any:
    transformers: Any = importlib.import_module("transformers")
    made = type("SmoothedTrainer", (Smoothed, transformers.Trainer), {})
    nowhere = tempfile.gettempdir()  # it writes nothing
    arguments = transformers.TrainingArguments(nowhere, use_cpu=device == "cpu", report_to="none")
    return made(model=_Head(), args=arguments, objective=label_smoothing(alpha))
