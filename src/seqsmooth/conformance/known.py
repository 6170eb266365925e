"""The losses whose conformance docs/conformance.md publishes: torch's, Hugging Face's, Liger's and ours."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqsmooth.conformance import adapters
from seqsmooth.conformance.contract import ConformanceReport, examine, not_run
from seqsmooth.conformance.subject import Subject
from seqsmooth.ops.cross_entropy import Reduction, cross_entropy
from seqsmooth.ops.head import linear_cross_entropy
from seqsmooth.packages import describe_error, version_of
from seqsmooth.smoothing.presets import label_smoothing, tok
from seqsmooth.version import __version__

ISSUES: dict[tuple[str, str], tuple[str, str]] = {
    ("F.cross_entropy", "nothing to predict"): (
        "pytorch#70348, open: a batch of prompts only gives NaN",
        "https://github.com/pytorch/pytorch/issues/70348",
    ),
    ("F.cross_entropy", "garbage where ignored"): (
        "pytorch#11551, open: `ignore_index` does not keep minus infinity out of the gradient",
        "https://github.com/pytorch/pytorch/issues/11551",
    ),
    ("F.cross_entropy", "long sums in fp16"): (
        "pytorch#85791, open: overflow with fp16 and a minibatch",
        "https://github.com/pytorch/pytorch/issues/85791",
    ),
    ("LabelSmoother", "long sums in fp16"): (
        "transformers#10674: NaN in fp16; the sum over V was widened for it, the sum over positions was not",
        "https://github.com/huggingface/transformers/issues/10674",
    ),
    ("T5's own loss", "micro-batches"): (
        "transformers#47688, open: models that take `num_items_in_batch` and leave it unused; it names others",
        "https://github.com/huggingface/transformers/issues/47688",
    ),
    ("Liger cross entropy", "inputs kept"): (
        "Liger-Kernel#272, its fix #1251 open: the gradient is written over the logits behind autograd's back",
        "https://github.com/linkedin/Liger-Kernel/pull/1251",
    ),
}
"""Failures that somebody has reported: (loss, rule) -> (title, address)."""


def reports(device: torch.device) -> Iterator[ConformanceReport]:
    """The report on each loss, one after the other; a loss that cannot run has the reason.

    Where there is no GPU, kernels run in Triton's interpreter, if Triton has not been imported before.
    """
    if device.type == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")
    for name, package, make in LOSSES:
        version = installed_version(package)
        if version is None:
            yield not_run(name, {}, f"{package} is not installed")
            continue
        versions = {package: version}
        try:
            report = examine(replace(make(), name=name, device=device, versions=versions))
        except Exception as error:  # noqa: BLE001 - a package that does not import here is no reason to stop
            report = not_run(name, versions, describe_error(error))
        yield report


def installed_version(package: str) -> str | None:
    """The version of a package, without the name of its build; None if it is not installed."""
    version = __version__ if package == "seqsmooth" else version_of(package)
    return None if version is None else version.partition("+")[0]


def _torch() -> Subject:
    return Subject("", F.cross_entropy, smoothing="label_smoothing", reduction="reduction")


def _label_smoother() -> Subject:
    smoother: Any = importlib.import_module("transformers.trainer_pt_utils").LabelSmoother
    return Subject("", smoother, "trainer", smoothing="epsilon", items="num_items_in_batch", shift="shift_labels")


def _causal() -> Subject:
    """The loss of a causal model in transformers."""
    function: Any = importlib.import_module("transformers.loss.loss_utils").ForCausalLMLoss

    def loss(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | None = None) -> Tensor:
        result: Tensor = function(logits, labels, logits.shape[-1], num_items_in_batch=num_items_in_batch)
        return result

    return Subject("", loss, "sequence", items="num_items_in_batch", shifts=True)


def _seq2seq() -> Subject:
    """T5's own loss, which the Trainer minimises by default; Marian, Bart and VisionEncoderDecoder have the same."""
    package: Any = importlib.import_module("transformers")
    sizes = {"d_model": 4, "d_kv": 4, "d_ff": 4, "num_layers": 1, "num_heads": 1, "decoder_start_token_id": 0}

    class FixedLogits(nn.Module):
        """An output layer that returns the logits under examination."""

        logits: Tensor

        def forward(self, hidden: Tensor) -> Tensor:
            return self.logits

    def loss(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | None = None) -> Tensor:
        model = package.T5ForConditionalGeneration(package.T5Config(vocab_size=logits.shape[-1], **sizes))
        model.lm_head = FixedLogits()
        model.to(logits.device).lm_head.logits = logits
        source = labels.new_zeros(len(labels), 1)
        result: Tensor = model(input_ids=source, labels=labels, num_items_in_batch=num_items_in_batch).loss
        return result

    return Subject("", loss, "sequence", items="num_items_in_batch")


def _liger() -> Subject:
    function: Any = importlib.import_module("liger_kernel.transformers.functional").liger_cross_entropy
    return Subject("", function, smoothing="label_smoothing", reduction="reduction")


def _liger_head() -> Subject:
    function: Any = importlib.import_module("liger_kernel.transformers.functional").liger_fused_linear_cross_entropy
    return Subject("", function, "head", smoothing="label_smoothing", reduction="reduction")


def _ours() -> Subject:
    return Subject("", cross_entropy, items="num_items", reduction="reduction")


def _our_head() -> Subject:
    return Subject("", linear_cross_entropy, "head", items="num_items", reduction="reduction")


def _our_label_smoothing() -> Subject:
    return Subject("", label_smoothing_loss, "sequence", smoothing="alpha", items="num_items", reduction="reduction")


def _our_tok() -> Subject:
    return Subject("", tok_loss, "sequence", smoothing="alpha", uniform=False, items="num_items", reduction="reduction")


def _our_function() -> Subject:
    items, shift = "num_items_in_batch", "shift_labels"
    return Subject("", adapters.function, "trainer", smoothing="alpha", items=items, shift=shift)


def _our_mixin() -> Subject:
    importlib.import_module("transformers")
    return Subject("", adapters.mixin, "states", smoothing="alpha", items="num_items_in_batch", shifts=True)


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


LOSSES: tuple[tuple[str, str, Callable[[], Subject]], ...] = (
    ("F.cross_entropy", "torch", _torch),
    ("LabelSmoother", "transformers", _label_smoother),
    ("ForCausalLMLoss", "transformers", _causal),
    ("T5's own loss", "transformers", _seq2seq),
    ("Liger cross entropy", "liger_kernel", _liger),
    ("Liger fused head", "liger_kernel", _liger_head),
    ("ss.cross_entropy", "seqsmooth", _ours),
    ("ss.linear_cross_entropy", "seqsmooth", _our_head),
    ("ss.label_smoothing", "seqsmooth", _our_label_smoothing),
    ("ss.tok", "seqsmooth", _our_tok),
    ("ss.integrations.huggingface", "seqsmooth", _our_function),
    ("ss.integrations.Smoothed", "transformers", _our_mixin),
)
