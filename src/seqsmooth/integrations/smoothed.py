"""`Smoothed`: a Trainer that goes from hidden states to the loss, and decodes samples on their own prefixes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.integrations.candidate_rows import CandidateRows, causal_rows, encoder_decoder_rows, start_token
from seqsmooth.integrations.labels import check_padding, item_count, next_labels, require_labels
from seqsmooth.integrations.output_layer import (
    check_linear,
    check_unchanged,
    check_vocabulary,
    is_encoder_decoder,
    loss_for_logits,
    output_layer,
    output_matrix,
    predicts_in_place,
)
from seqsmooth.integrations.trainer_loss import TrainerLoss, check_objective, logits_of, on_device_of, plain_likelihood
from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Objective

SHARDING = ("FSDP", "DEEPSPEED", "MEGATRON")
REFERENCES = "references"
"""The column that the objective reads and the model does not."""


class Smoothed:
    """A mixin for `Trainer`, `Seq2SeqTrainer` and TRL's `SFTTrainer`: `class MyTrainer(Smoothed, Trainer): ...`.

    It does what `huggingface` does, and more: the loss comes from the hidden states, chunk by chunk, so the logits are
    never all in memory; objectives with `lazy=False` work, their samples decoded as further rows of the batch; and the
    batch may hold `references` (B, R, S), see `WithReferences`.

    Args:
        args: as for the Trainer.
        objective: any `Objective`.
        kwargs: as for the Trainer.
    """

    args: Any
    accelerator: Any
    model: Any
    compute_loss_func: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a Trainer named before the mixin: its methods would hide those of the mixin."""
        super().__init_subclass__(**kwargs)
        before = [base for base in cls.__mro__[: cls.__mro__.index(Smoothed)] if not issubclass(base, Smoothed)]
        first = not any(hasattr(base, "prediction_step") for base in before)
        checks.require(first, f"Smoothed must come before the Trainer: class {cls.__name__}(Smoothed, Trainer).")

    def __init__(self, *args: Any, objective: Objective, **kwargs: Any) -> None:
        check_objective(objective)
        no_other = kwargs.get("compute_loss_func") is None
        checks.require(no_other, "`compute_loss_func` is given, but the objective is the loss; leave it out.")
        super().__init__(*args, **kwargs)
        self._check_arguments()
        check_vocabulary(objective, self.model)
        check_linear(output_layer(self.model))
        self.objective = objective
        self._likelihood = plain_likelihood(objective)
        self._has_decoder = is_encoder_decoder(self.model)
        self._shifts = not predicts_in_place(self.model)
        self._one_row = objective.lazy or objective.sequence.only_truth
        reads_prefixes = self._has_decoder or self._shifts
        sentence = "A model of masked words reads no prefix; use an objective with lazy=True."
        checks.require(self._one_row or reads_prefixes, sentence)
        # The Trainer counts the items of a step, and leaves the division by them to us, where this is set. It calls it
        # where outputs are asked for, as at evaluation.
        self.compute_loss_func = TrainerLoss(objective if self._one_row else self._likelihood, shift=self._shifts)
        self._checked_modes: set[bool] = set()

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,  # ()
    ) -> Any:
        """The loss of a batch, from the hidden states unless the outputs are asked for, too."""
        if return_outputs:
            return self._loss_and_outputs(model, inputs, num_items_in_batch)
        labels = require_labels(inputs.get("labels"))
        if self._is_first_step() or checks.visible(labels):
            check_padding(self.objective, labels)
        objective = on_device_of(self.objective if torch.is_grad_enabled() else self._likelihood, labels)
        targets = next_labels(labels) if self._shifts else labels
        read = self._with_decoder_inputs(inputs) | {"use_cache": False}
        references = read.pop(REFERENCES, None)
        del read["labels"]
        rows = self._rows(objective, read, targets, references)

        def loss_of(hidden: Tensor) -> Tensor:
            count = item_count(num_items_in_batch, hidden)
            weight, bias = output_matrix(self.model)
            if rows is not None:
                return objective.head(rows.states(hidden), weight, rows.candidates, bias, num_items=count).total
            if hidden.shape[:2] != targets.shape:  # no sentence before, whose numbers would fix the shapes of a graph
                shapes = f"shape {tuple(hidden.shape[:2])}, the labels {tuple(targets.shape)}"
                reason = "`Smoothed` does not go with prompt tuning, which adds positions"
                raise ValueError(f"The hidden states have {shapes}; {reason}.")
            return objective.head(hidden, weight, targets, bias, num_items=count).total

        loss = self._loss_inside(model, read if rows is None else rows.inputs, loss_of)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            # The items are those of all processes, over which gradients will be averaged; the Trainer does the same.
            loss = loss * self.accelerator.num_processes
        return loss

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> Any:
        """A step of evaluation, without logits where only the loss is wanted."""
        if not prediction_loss_only or "labels" not in inputs:
            read = {name: value for name, value in inputs.items() if name != REFERENCES}
            return super().prediction_step(model, read, prediction_loss_only, ignore_keys)  # type: ignore[misc]
        batch = self._prepare_inputs(inputs)  # type: ignore[attr-defined]
        with torch.no_grad(), self.compute_loss_context_manager():  # type: ignore[attr-defined]
            return self.compute_loss(model, batch).detach(), None, None

    def _check_arguments(self) -> None:
        """Refuse what the mixin would silently leave out."""
        args = self.args
        factor = args.label_smoothing_factor
        way_out = f"leave it at 0 (ss.label_smoothing({factor:g}) is the objective that does the same)"
        checks.require(factor == 0, f"`label_smoothing_factor` is {factor}, but the objective smooths; {way_out}.")
        checks.require(args.n_gpu <= 1, f"`args.n_gpu` is {args.n_gpu}; start one process for each GPU with torchrun.")
        checks.require(not args.use_liger_kernel, "`use_liger_kernel` would replace the objective; leave it off.")
        kind = getattr(args, "loss_type", "nll")  # of TRL
        checks.require(kind == "nll", f"`loss_type` is {kind!r}, but the objective is the loss; set loss_type='nll'.")
        spread = str(self.accelerator.distributed_type).rpartition(".")[2]
        way_out = "needs it whole; use DDP, or Trainer(compute_loss_func=huggingface(objective))"
        whole = not any(name in spread for name in SHARDING)
        checks.require(whole, f"{spread} keeps the output matrix in pieces, but `Smoothed` {way_out}.")

    def _loss_and_outputs(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Tensor | int | None
    ) -> Any:
        """The loss and the outputs, with all logits."""
        reason = "a training batch has several rows for each item; leave return_outputs=False"
        possible = self._one_row or not torch.is_grad_enabled()
        checks.require(possible, f"With lazy=False there are no outputs to return, since {reason}.")
        batch = self._with_decoder_inputs({name: value for name, value in inputs.items() if name != REFERENCES})
        return super().compute_loss(  # type: ignore[misc]
            model, batch, return_outputs=True, num_items_in_batch=num_items_in_batch
        )

    def _with_decoder_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs, and those of the decoder, made from the labels where the collator has not done it."""
        if not self._has_decoder or inputs.get("decoder_input_ids") is not None:
            return dict(inputs)
        return {**inputs, "decoder_input_ids": self.model.prepare_decoder_input_ids_from_labels(inputs["labels"])}

    def _rows(
        self,
        objective: Objective,
        inputs: dict[str, Any],
        targets: Tensor,  # (B, T)
        references: Tensor | None,  # (B, R, S)
    ) -> CandidateRows | None:
        """A row for each candidate; None where the objective needs nothing but the targets."""
        one_row = objective.lazy or objective.sequence.only_truth
        if one_row and references is None:
            return None
        if self._has_decoder:
            return encoder_decoder_rows(objective, inputs, targets, references, start_token(self.model))
        if one_row:
            return CandidateRows(objective.propose(targets, references=references), inputs)
        if self._is_first_step():
            _check_one_answer(targets)
        return causal_rows(objective, inputs, targets, references)

    def _loss_inside(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        loss_of: Callable[[Tensor], Tensor],  # (B K', T, D) -> ()
    ) -> Tensor:  # ()
        """The loss of the hidden states that reach the output layer, computed in the model's forward pass."""
        with loss_for_logits(output_layer(self.model), loss_of) as calls, self._dynamic_shapes():
            outputs = model(**inputs)
        times = f"{type(self.model).__name__} calls its output layer {len(calls)} times in a forward pass"
        way_out = "use Trainer(compute_loss_func=huggingface(objective))"
        checks.require(len(calls) == 1, f"{times}, but `Smoothed` needs one call; {way_out}.")
        stand_in, loss = calls[0]
        check_unchanged(self.model, stand_in, logits_of(outputs), wait=self._is_first_step())
        self._checked_modes.add(self.model.training)
        return loss

    def _is_first_step(self) -> bool:
        """Whether this is the first step of training or of evaluation: checks of values may wait for the device."""
        return self.model.training not in self._checked_modes

    def _dynamic_shapes(self) -> AbstractContextManager[Any]:
        """Let a compiled model take targets of any shape.

        They are part of a layer here, whose shapes torch.compile takes for constants: it would compile anew for each
        length, eight times, and then no more.
        """
        if not self.args.torch_compile:
            return nullcontext()
        patch: AbstractContextManager[Any] = torch._dynamo.config.patch(force_nn_module_property_static_shapes=False)
        return patch


def _check_one_answer(
    targets: Tensor,  # (B, T)
) -> None:
    """Check that what is to be predicted in a row is one stretch."""
    predicted = targets != IGNORED
    stretches = (predicted[:, 1:] & ~predicted[:, :-1]).sum(1) + predicted[:, 0]
    way_out = "with lazy=False a row holds one (no packing, no conversations of several turns)"
    checks.require(not bool((stretches > 1).any()), f"A row of the labels has several answers; {way_out}.")
