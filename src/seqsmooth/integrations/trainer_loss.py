"""`huggingface`: an objective as the `compute_loss_func` of a Hugging Face Trainer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.integrations.labels import check_padding, item_count, next_labels, require_labels
from seqsmooth.integrations.output_layer import MASKED, check_vocabulary, is_encoder_decoder, predicts_in_place
from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Objective

COLLATOR = "DataCollatorForSeq2Seq(tokenizer, model=model) adds them"


def huggingface(objective: Objective, model: nn.Module | None = None, *, shift: bool | None = None) -> TrainerLoss:
    """An objective for `Trainer(compute_loss_func=...)`, with causal, seq2seq and vision-encoder-decoder models.

    The loss is the objective's sum over the labels that are not -100, divided by the `num_items_in_batch` of the whole
    step, so gradient accumulation and data parallelism change nothing. Without gradients, as in evaluation, it is the
    plain negative log-likelihood, so runs compare.

    Args:
        objective: a lazy one, since there is one forward pass, over the ground truth. `Smoothed` takes the others.
        model: if given, a vocabulary of another size and missing decoder inputs are refused in a sentence.
        shift: whether the logits of position t are for the label of t + 1, as in causal models. By default the model or
            its outputs decide.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.integrations import huggingface
        >>> compute_loss = huggingface(ss.label_smoothing(0.1), shift=True)
        >>> # Trainer(model=model, args=args, train_dataset=data, compute_loss_func=compute_loss)
    """
    return TrainerLoss(objective, model, shift=shift)


class TrainerLoss:
    """The function that `huggingface` returns: the loss of outputs, labels and the number of items in the step.

    Examples:
        >>> from types import SimpleNamespace
        >>> import seqsmooth as ss
        >>> compute_loss = TrainerLoss(ss.mle(), shift=False)
        >>> outputs, labels = SimpleNamespace(logits=torch.zeros(1, 3, 4)), torch.tensor([[2, 1, -100]])
        >>> f"{compute_loss(outputs, labels, num_items_in_batch=8):.4f}"  # 2 ln 4 over the items of the whole step
        '0.3466'
    """

    def __init__(self, objective: Objective, model: nn.Module | None = None, *, shift: bool | None = None) -> None:
        check_objective(objective)
        checks.require(
            objective.lazy or objective.sequence.only_truth,
            "compute_loss_func sees one forward pass, over the ground truth, but the objective has lazy=False; "
            "use lazy=True, or the mixin Smoothed, which decodes samples on their own prefixes.",
        )
        if shift is not None:
            checks.flag("shift", shift)
        self.objective = objective
        self.likelihood = plain_likelihood(objective)
        self.shift = shift
        self._called = False
        if model is not None:
            check_vocabulary(objective, model)
            self.shift = not predicts_in_place(model) if shift is None else shift
            if is_encoder_decoder(model):
                model.register_forward_pre_hook(_require_decoder_inputs, with_kwargs=True)

    def __call__(
        self,
        outputs: Any,  # with `logits` (B, T, V)
        labels: Tensor | None,  # (B, T) int64, -100 where nothing is to be predicted
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:  # ()
        """The smoothed loss where gradients are on, the plain negative log-likelihood where they are off."""
        logits = logits_of(outputs)
        targets = require_labels(labels)
        if logits.shape[:-1] != targets.shape:
            raise ValueError(_wrong_lengths(logits, targets, outputs))
        if not self._called or checks.visible(targets):  # the first step may wait for the device
            check_padding(self.objective, targets)
            self._called = True
        if _predict_next(outputs) if self.shift is None else self.shift:
            targets = next_labels(targets)
        objective = on_device_of(self.objective if torch.is_grad_enabled() else self.likelihood, logits)
        loss = objective(logits, targets.to(logits.device), num_items=item_count(num_items_in_batch, logits))
        total: Tensor = loss.total.clone()  # the Trainer multiplies it in place
        return total


def check_objective(objective: Objective) -> None:
    """Check what every Trainer asks of an objective."""
    checks.must(isinstance(objective, Objective), "objective", "an Objective", checks.describe(objective))
    rule = "-100, as everywhere in transformers"
    checks.must(objective.ignore_index == IGNORED, "objective.ignore_index", rule, objective.ignore_index)
    checks.require(
        not objective.token.true_prefix_only,
        f"The token law is {checks.describe(objective.token)}, which belongs to one batch, but a Trainer uses one "
        "objective for all; make an objective for each batch in a training loop or a compute_loss of your own.",
    )


def plain_likelihood(objective: Objective) -> Objective:
    """The negative log-likelihood over the positions of an objective."""
    return Objective(specials=objective.specials, ignore_index=objective.ignore_index)


def on_device_of(objective: Objective, like: Tensor) -> Objective:
    """The objective on the device of a tensor, moved there at the first step."""
    elsewhere = any(buffer.device != like.device for buffer in objective.buffers())
    return objective.to(like.device) if elsewhere else objective


def logits_of(outputs: Any) -> Tensor:  # (B, T, V)
    """The logits of a model's outputs, which must be there and must be all that the loss depends on."""
    rule = "a model output with logits (return_dict=True)"
    checks.must(hasattr(outputs, "logits"), "outputs", rule, checks.describe(outputs))
    logits: Tensor = outputs.logits
    way_out = "leave use_liger_kernel off, which computes a loss and no logits, or use the mixin Smoothed"
    checks.require(isinstance(logits, Tensor), f"`outputs.logits` is {checks.describe(logits)}; {way_out}.")
    alone = getattr(outputs, "aux_loss", None) is None
    checks.require(alone, "`outputs.aux_loss` would be left out of the loss; set output_router_logits=False.")
    return logits


def _require_decoder_inputs(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a batch without decoder inputs, which fails elsewhere in T5 and makes Bart read the source silently."""
    complete = any(kwargs.get(name) is not None for name in ("decoder_input_ids", "decoder_inputs_embeds", "labels"))
    reason = "and the Trainer takes out the labels, of which the model would make them"
    checks.require(complete, f"The batch has no `decoder_input_ids`, {reason}; {COLLATOR}.")


def _wrong_lengths(logits: Tensor, labels: Tensor, outputs: Any) -> str:
    seq2seq = hasattr(outputs, "encoder_last_hidden_state")
    reason = f"`decoder_input_ids` may be missing: {COLLATOR}" if seq2seq else "prompt tuning adds positions"
    return f"`outputs.logits` has shape {tuple(logits.shape)} for labels of shape {tuple(labels.shape)}; {reason}."


def _predict_next(outputs: Any) -> bool:
    """Whether the logits are for the next label, by the kind of a model's outputs."""
    kind = type(outputs).__name__
    if hasattr(outputs, "encoder_last_hidden_state") or MASKED in kind:
        return False
    way_out = "say so: huggingface(objective, shift=True) as for causal models, or shift=False"
    checks.require("Causal" in kind, f"Whether the logits of {kind} are for the next label is not known; {way_out}.")
    return True
