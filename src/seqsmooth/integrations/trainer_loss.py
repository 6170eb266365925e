"""`huggingface`: an objective as the `compute_loss_func` of a Hugging Face Trainer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Objective

COLLATOR = "DataCollatorForSeq2Seq(tokenizer, model=model) adds them"
MASKED = "MaskedLM"
"""In the names of all models that fill in masked words, as BertForMaskedLM, and of what they return."""


def huggingface(objective: Objective, model: nn.Module | None = None, *, shift: bool | None = None) -> TrainerLoss:
    """An objective for `Trainer(compute_loss_func=...)`: causal, seq2seq and vision-encoder-decoder models alike.

    The loss is the objective's sum over the labels that are not -100, over the `num_items_in_batch` of the whole step,
    so that gradient accumulation and data parallelism change nothing. Evaluation, which runs without gradients, gives
    the plain negative log-likelihood, so that runs compare.

    Args:
        objective: any that is lazy: it sees one forward pass over the ground truth. `Smoothed` takes the others.
        model: if given, what would go wrong with it is said at once: another vocabulary, no decoder inputs.
        shift: whether the logits of position t are for the label of t + 1, as in causal models. Read off the model or
            its outputs by default.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.integrations import huggingface
        >>> compute_loss = huggingface(ss.label_smoothing(0.1), shift=True)
        >>> # Trainer(model=model, args=args, train_dataset=data, compute_loss_func=compute_loss)
    """
    return TrainerLoss(objective, model, shift=shift)


class TrainerLoss:
    """What `huggingface` makes: a function of outputs, labels and the number of items in the step.

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
        rule = "True for compute_loss_func, which sees no other prefix (the mixin Smoothed decodes samples)"
        checks.must(objective.lazy or objective.sequence.only_truth, "objective.lazy", rule, objective.lazy)
        if shift is not None:
            checks.flag("shift", shift)
        self.objective = objective
        self.plain = unsmoothed(objective)
        self.shift = shift
        self._called = False
        if model is not None:
            check_vocabulary(objective, model)
            self.shift = not is_in_step(model) if shift is None else shift
            if is_encoder_decoder(model):
                model.register_forward_pre_hook(_need_decoder_inputs, with_kwargs=True)

    def __call__(
        self,
        outputs: Any,  # with `logits` (B, T, V)
        labels: Tensor | None,  # (B, T) int64, -100 where nothing is to be predicted
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:  # ()
        """The smoothed loss where gradients are on, the plain negative log-likelihood where they are off."""
        logits = _logits(outputs)
        targets = checked_labels(labels)
        _check_lengths(logits, targets, outputs)
        if not self._called or checks.visible(targets):  # at the first step this waits for the device
            check_padding(self.objective, targets)
            self._called = True
        if self.shift if self.shift is not None else _shifts(outputs):
            targets = shifted(targets)
        objective = at_home(self.objective if torch.is_grad_enabled() else self.plain, logits)
        loss = objective(logits, targets.to(logits.device), num_items=items(num_items_in_batch, logits))
        total: Tensor = loss.total.clone()  # since the Trainer multiplies it in place
        return total


def check_objective(objective: Objective) -> None:
    """What holds for every objective in a Trainer."""
    checks.must(isinstance(objective, Objective), "objective", "an Objective", checks.described(objective))
    rule = "-100, as everywhere in transformers"
    checks.must(objective.ignore_index == IGNORED, "objective.ignore_index", rule, objective.ignore_index)
    own = objective.token.true_prefix_only
    checks.must(not own, "objective.token", "a law for all batches", checks.described(objective.token))


def check_vocabulary(objective: Objective, model: nn.Module) -> None:
    """Check that model and objective have one vocabulary: an output matrix is often padded beyond the tokeniser's."""
    size = head_of(model).weight.shape[0]
    same = objective.vocab_size in (None, size)
    checks.must(same, "objective.vocab_size", f"that of the model's output matrix, {size}", objective.vocab_size)


def unsmoothed(objective: Objective) -> Objective:
    """The plain negative log-likelihood over the same positions."""
    return Objective(specials=objective.specials, ignore_index=objective.ignore_index)


def head_of(model: nn.Module) -> Any:
    """The layer that makes logits of hidden states."""
    checks.must(isinstance(model, nn.Module), "model", "the model itself, an nn.Module", checks.described(model))
    get: Any = getattr(model, "get_output_embeddings", None)
    head = None if get is None else get()
    known = isinstance(getattr(head, "weight", None), Tensor)
    checks.must(known, "model.get_output_embeddings()", "a layer with a weight (V, D)", checks.described(head))
    return head


def is_encoder_decoder(model: nn.Module) -> bool:
    """Whether logits and labels of a model are in step, its decoder reading inputs of its own."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def is_in_step(model: nn.Module) -> bool:
    """Whether logits are for the label of their own position: an encoder-decoder's, and those of masked words."""
    return is_encoder_decoder(model) or any(MASKED in type(part).__name__ for part in model.modules())


def shifted(
    labels: Tensor,  # (B, T)
) -> Tensor:  # (B, T)
    """For each position the label after it, and nothing for the last: logits stay whole, as cutting would copy them."""
    return F.pad(labels[:, 1:], (0, 1), value=IGNORED)


def checked_labels(labels: Tensor | None) -> Tensor:
    """Labels that are there at all, (B, T)."""
    rule = "in the batch (is the column named so, and in `label_names`?)"
    checks.must(labels is not None, "labels", rule, None)
    assert labels is not None
    checks.integers("labels", labels)
    checks.shape("labels", labels, None, None, letters="(B, T)")
    return labels


def check_padding(
    objective: Objective,
    labels: Tensor,  # (B, T)
) -> None:
    """Check that padding is -100: the Trainer counts every other label, also one that the objective leaves out."""
    pad = objective.specials.pad
    if pad is not None:
        rule = "-100 where nothing is to be predicted, since num_items_in_batch counts all others"
        checks.must(not bool((labels == pad).any()), "labels", rule, f"PAD, {pad}, somewhere")


def items(given: Tensor | float | None, like: Tensor) -> Tensor | float | None:
    """The number of items of a step as one number; with several GPUs in one process the Trainer repeats it.

    A step without any has 1, so that its loss, a sum over nothing, is 0.
    """
    if not isinstance(given, Tensor):
        return None if given is None else max(given, 1)
    return (given.flatten()[0] if given.dim() else given).clamp_min(1).to(like.device)


def at_home(objective: Objective, like: Tensor) -> Objective:
    """The objective where the model is. Moved once, at the first step."""
    away = any(buffer.device != like.device for buffer in objective.buffers())
    return objective.to(like.device) if away else objective


def _need_decoder_inputs(model: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
    """Without decoder inputs some models fail in words about something else, and Bart silently reads the source."""
    there = any(given.get(name) is not None for name in ("decoder_input_ids", "decoder_inputs_embeds", "labels"))
    rule = f"in the batch, since the Trainer takes the labels out before the model sees them ({COLLATOR})"
    checks.must(there, "decoder_input_ids", rule, None)


def _logits(outputs: Any) -> Tensor:
    rule = "a model output with logits (return_dict=True)"
    checks.must(hasattr(outputs, "logits"), "outputs", rule, checks.described(outputs))
    rule = "the scores of all positions (leave use_liger_kernel off, or take the mixin Smoothed)"
    checks.must(isinstance(outputs.logits, Tensor), "outputs.logits", rule, checks.described(outputs.logits))
    rule = "None, since the Trainer would drop it (output_router_logits=False)"
    extra = getattr(outputs, "aux_loss", None)
    checks.must(extra is None, "outputs.aux_loss", rule, checks.described(extra))
    logits: Tensor = outputs.logits
    return logits


def _check_lengths(logits: Tensor, labels: Tensor, outputs: Any) -> None:
    if logits.shape[:-1] == labels.shape:
        return
    encodes = hasattr(outputs, "encoder_last_hidden_state")
    way_out = f"are decoder_input_ids missing? {COLLATOR}" if encodes else "prompt tuning adds some"
    raise checks.wrong(
        "outputs.logits", f"over the positions of the labels, {tuple(labels.shape)} ({way_out})", tuple(logits.shape)
    )


def _shifts(outputs: Any) -> bool:
    name = type(outputs).__name__
    if hasattr(outputs, "encoder_last_hidden_state") or MASKED in name:
        return False
    rule = f"given for outputs of this kind, {name} (True for causal models)"
    checks.must("Causal" in name, "shift", rule, None)
    return True
