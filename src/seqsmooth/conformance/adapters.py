"""Losses as functions that can be examined: those inside models of transformers, our objectives and integrations."""

from __future__ import annotations

import importlib
import tempfile
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.integrations import Smoothed, huggingface
from seqsmooth.ops.cross_entropy import Reduction
from seqsmooth.smoothing.presets import label_smoothing, tok


def causal(
    logits: Tensor,  # (B, T, V)
    labels: Tensor,  # (B, T)
    num_items_in_batch: Tensor | None = None,  # ()
) -> Tensor:  # ()
    """The loss of a causal model in transformers."""
    losses: Any = importlib.import_module("transformers.loss.loss_utils")
    loss: Tensor = losses.ForCausalLMLoss(logits, labels, logits.shape[-1], num_items_in_batch=num_items_in_batch)
    return loss


def t5(
    logits: Tensor,  # (B, T, V)
    labels: Tensor,  # (B, T)
    num_items_in_batch: Tensor | None = None,  # ()
) -> Tensor:  # ()
    """T5's own loss, which the Trainer minimises by default; Marian, Bart and VisionEncoderDecoder have the same."""
    package: Any = importlib.import_module("transformers")
    sizes = {"d_model": 4, "d_kv": 4, "d_ff": 4, "num_layers": 1, "num_heads": 1, "decoder_start_token_id": 0}
    model = package.T5ForConditionalGeneration(package.T5Config(vocab_size=logits.shape[-1], **sizes))
    model.to(logits.device).lm_head.forward = lambda hidden: logits
    source = labels.new_zeros(len(labels), 1)
    loss: Tensor = model(input_ids=source, labels=labels, num_items_in_batch=num_items_in_batch).loss
    return loss


def label_smoothing_loss(
    logits: Tensor,  # (B, T, V)
    labels: Tensor,  # (B, T)
    *,
    alpha: float = 0.0,
    num_items: Tensor | None = None,  # ()
    reduction: Reduction = "mean",
) -> Tensor:
    """The objective of label smoothing."""
    objective = label_smoothing(alpha)
    return objective(logits, labels, num_items=num_items, reduction=reduction).total  # type: ignore[no-any-return]


def tok_loss(
    logits: Tensor,  # (B, T, V)
    labels: Tensor,  # (B, T)
    *,
    alpha: float = 0.0,
    num_items: Tensor | None = None,  # ()
    reduction: Reduction = "mean",
) -> Tensor:
    """The objective of the paper's token-level smoothing, by random embeddings."""
    vectors = torch.randn(logits.shape[-1], 8, generator=torch.Generator().manual_seed(0))
    objective = tok(vectors, tau=0.3, alpha=alpha).to(logits.device)
    return objective(logits, labels, num_items=num_items, reduction=reduction).total  # type: ignore[no-any-return]


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
    trainer.model.head._parameters.pop("weight", None)
    trainer.model.head.weight = weight  # this very matrix, not a copy, so that it gets the gradient
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
