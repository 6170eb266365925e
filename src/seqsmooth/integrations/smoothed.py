"""`Smoothed`: a Trainer that goes from hidden states to the loss, and decodes samples on their own prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.integrations.own_prefix import Rows, causal_rows, encoder_decoder_rows, start_of
from seqsmooth.integrations.trainer_loss import (
    TrainerLoss,
    at_home,
    check_objective,
    check_padding,
    check_vocabulary,
    checked_labels,
    head_of,
    is_encoder_decoder,
    is_in_step,
    items,
    shifted,
    unsmoothed,
)
from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Objective

IN_PIECES = ("FSDP", "DEEPSPEED", "MEGATRON")
EXTRA = "references"
"""The column that the objective reads and the model does not."""


class Smoothed:
    """A mixin for `Trainer`, `Seq2SeqTrainer` and TRL's `SFTTrainer`: `class MyTrainer(Smoothed, Trainer): ...`.

    Like `huggingface`, and besides: the logits are never all in memory, since the loss is made from the hidden states
    chunk by chunk; objectives that are not lazy work, their samples decoded as further rows of the batch; the batch may
    hold `references` (B, R, S), see `WithReferences`.

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
        """Refuse a Trainer named before the mixin: it would be asked first, and know nothing of an objective."""
        super().__init_subclass__(**kwargs)
        before = [base for base in cls.__mro__[: cls.__mro__.index(Smoothed)] if not issubclass(base, Smoothed)]
        first = not any(hasattr(base, "prediction_step") for base in before)
        rule = f"before the Trainer, as in class {cls.__name__}(Smoothed, Trainer)"
        checks.must(first, "Smoothed", rule, "behind it")

    def __init__(self, *args: Any, objective: Objective, **kwargs: Any) -> None:
        check_objective(objective)
        given = kwargs.get("compute_loss_func")
        rule = "left out, as the objective is the loss"
        checks.must(given is None, "compute_loss_func", rule, checks.described(given))
        super().__init__(*args, **kwargs)
        self._check_arguments()
        check_vocabulary(objective, self.model)
        _check_linear(head_of(self.model))
        self.encodes = is_encoder_decoder(self.model)
        self.shifts = not is_in_step(self.model)
        self.objective = objective
        self.plain = unsmoothed(objective)
        self.single = objective.lazy or objective.sequence.only_truth
        rule = "True for a model of masked words, which reads no prefix"
        checks.must(self.single or self.encodes or self.shifts, "objective.lazy", rule, objective.lazy)
        # Set, it makes the Trainer count the items of a step and leave the division by them to us; it is called where
        # outputs are asked for, as at evaluation.
        self.compute_loss_func = TrainerLoss(objective if self.single else self.plain, shift=self.shifts)
        self._checked: set[bool] = set()
        """Whether the model was training, at the steps whose labels and logits were checked."""
        self._probe = torch.empty(0)  # (3, V)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,  # ()
    ) -> Any:
        """The loss of a batch, from the hidden states unless the outputs are asked for too."""
        if return_outputs:
            possible = self.single or not torch.is_grad_enabled()
            rule = "False in training when lazy is False: which outputs, those of all samples?"
            checks.must(possible, "return_outputs", rule, True)
            ready = self._with_decoder_inputs({name: value for name, value in inputs.items() if name != EXTRA})
            return super().compute_loss(  # type: ignore[misc]
                model, ready, return_outputs=True, num_items_in_batch=num_items_in_batch
            )
        labels = checked_labels(inputs.get("labels"))
        if self._is_first_step() or checks.visible(labels):  # at the first step this waits for the device
            check_padding(self.objective, labels)
        objective = at_home(self.objective if torch.is_grad_enabled() else self.plain, labels)
        read = self._with_decoder_inputs(inputs)
        read = {name: value for name, value in read.items() if name not in ("labels", EXTRA)} | {"use_cache": False}
        targets = shifted(labels) if self.shifts else labels
        rows = self._rows(objective, read, targets, inputs.get(EXTRA))

        def from_states(hidden: Tensor) -> Tensor:
            count = items(num_items_in_batch, hidden)
            weight, bias = self._matrix()
            if rows is None:
                if hidden.shape[:2] != targets.shape:
                    rule = f"the positions of the labels, {tuple(targets.shape)} (prompt tuning adds some)"
                    raise checks.wrong("the head's input", rule, tuple(hidden.shape[:2]))
                return objective.head(hidden, weight, targets, bias, num_items=count).total
            return objective.head(rows.states(hidden), weight, rows.candidates, bias, num_items=count).total

        loss = self._inside(model, read if rows is None else rows.inputs, from_states)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            # As the Trainer does: the items are those of all processes, over which gradients will be averaged.
            loss = loss * self.accelerator.num_processes
        return loss

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> Any:
        """Evaluation: where only the loss is wanted, no logits either."""
        if not prediction_loss_only or "labels" not in inputs:
            read = {name: value for name, value in inputs.items() if name != EXTRA}
            return super().prediction_step(model, read, prediction_loss_only, ignore_keys)  # type: ignore[misc]
        ready = self._prepare_inputs(inputs)  # type: ignore[attr-defined]
        with torch.no_grad(), self.compute_loss_context_manager():  # type: ignore[attr-defined]
            return self.compute_loss(model, ready).detach(), None, None

    def _check_arguments(self) -> None:
        factor = self.args.label_smoothing_factor
        rule = f"0, as the objective smooths (leave it out; ss.label_smoothing({factor:g}) does the same)"
        checks.must(factor == 0, "label_smoothing_factor", rule, factor)
        gpus = self.args.n_gpu
        checks.must(gpus <= 1, "args.n_gpu", "1 (start one process a GPU with torchrun)", gpus)
        liger = self.args.use_liger_kernel
        checks.must(not liger, "use_liger_kernel", "False, since the head is the objective's", liger)
        kind = getattr(self.args, "loss_type", "nll")  # TRL's
        checks.must(kind == "nll", "loss_type", "'nll', since the objective is the loss", repr(kind))
        spread = str(self.accelerator.distributed_type).rpartition(".")[2]
        rule = "one that leaves the output matrix whole, as DDP (huggingface(objective) goes with the others)"
        checks.must(not any(name in spread for name in IN_PIECES), "distributed_type", rule, spread)

    def _with_decoder_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs, with what the decoder reads made from the labels where the collator has not done it."""
        if not self.encodes or inputs.get("decoder_input_ids") is not None:
            return dict(inputs)
        return {**inputs, "decoder_input_ids": self.model.prepare_decoder_input_ids_from_labels(inputs["labels"])}

    def _rows(
        self,
        objective: Objective,
        inputs: dict[str, Any],
        targets: Tensor,  # (B, T)
        references: Tensor | None,  # (B, R, S)
    ) -> Rows | None:
        """What to read for each candidate; None where plain targets tell all."""
        single = objective.lazy or objective.sequence.only_truth
        if single and references is None:
            return None
        if self.encodes:
            return encoder_decoder_rows(objective, inputs, targets, references, start_of(self.model))
        if single:
            return Rows(objective.propose(targets, references=references), inputs)
        if self._is_first_step():  # since this waits for the device
            _check_one_answer(targets)
        return causal_rows(objective, inputs, targets, references)

    def _inside(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        from_states: Callable[[Tensor], Tensor],  # (B K', T, D) -> ()
    ) -> Tensor:  # ()
        """What `from_states` makes of what the model gives its head."""
        head = head_of(self.model)
        _check_linear(head)
        if self._probe.shape[-1] != len(head.weight) or self._probe.device != head.weight.device:
            self._probe = _probe(len(head.weight)).to(head.weight.device)
        with _instead_of_logits(head, from_states, self._probe) as calls, self._any_shape():
            outputs = model(**inputs)
        rule = "one that calls its head once"
        checks.must(len(calls) == 1, "model", rule, f"one that called it {len(calls)} times")
        extra = getattr(outputs, "aux_loss", None)
        checks.must(extra is None, "outputs.aux_loss", "None (output_router_logits=False)", checks.described(extra))
        stand_in, loss = calls[0]
        self._check_logits(outputs.logits, stand_in)
        self._checked.add(self.model.training)
        return loss

    def _is_first_step(self) -> bool:
        """Whether this is the first step of training or of evaluation, which may look at values on the device."""
        return self.model.training not in self._checked

    def _any_shape(self) -> AbstractContextManager[Any]:
        """Inside, a compiled model does not take targets, which are part of a layer here, to be of one shape for ever.

        Or else it would be compiled anew for each length, eight times, and then no more.
        """
        if not self.args.torch_compile:
            return nullcontext()
        patched: AbstractContextManager[Any] = torch._dynamo.config.patch(force_nn_module_property_static_shapes=False)
        return patched

    def _matrix(self) -> tuple[Tensor, Tensor | None]:
        """The output matrix, and its bias: the head's own, or what Marian and Bart add afterwards."""
        head = head_of(self.model)
        after = getattr(self.model, "final_logits_bias", None)
        if after is None:
            return head.weight, head.bias
        bias = after.flatten().to(head.weight.dtype)
        return head.weight, bias if head.bias is None else head.bias + bias

    @torch.no_grad()
    def _check_logits(self, logits: Tensor, stand_in: Tensor) -> None:
        """Refuse a model that does more to its logits than make them: they must be those that the head returned.

        The same tensor, unwritten, proves it for this step and costs nothing. A copy, as DDP and casts to float32 make
        one, is compared bit for bit: always on the CPU, elsewhere at the first step, since that waits for the device.
        """
        same = logits is stand_in and not stand_in.is_inference() and stand_in._version == 0
        if same or not (self._is_first_step() or checks.visible(logits)):
            return
        after = getattr(self.model, "final_logits_bias", None)
        wanted = self._probe.to(stand_in.dtype)
        wanted = (wanted if after is None else wanted + after).expand(len(stand_in), -1, -1)
        finer = torch.promote_types(logits.dtype, wanted.dtype) == logits.dtype
        if not finer or logits.shape != wanted.shape or not torch.equal(logits, wanted.to(logits.dtype)):
            raise ValueError(
                f"{type(self.model).__name__} changes its logits after its output layer: {_change(wanted, logits)}. "
                "`Smoothed` computes the loss from hidden states, so a scale, cap or mask on the logits would be lost. "
                "Use Trainer(compute_loss_func=huggingface(objective)), which takes the logits the model returns."
            )


def _change(before: Tensor, after: Tensor) -> str:
    """An example of what happened to the logits of a head."""
    if before.shape != after.shape:
        return f"of shape {tuple(before.shape)}, they came out as {tuple(after.shape)}"
    changed = (before != after).nonzero()
    if len(changed) == 0:
        return f"of {before.dtype}, they came out as {after.dtype}"
    place = tuple(changed[-1].tolist())
    return f"{float(before[place]):g} came out as {float(after[place]):g}"


def _probe(size: int) -> Tensor:  # (3, V)
    """Logits that no cap, scale, shift or mask leaves as they are, exact in every floating-point type.

    A zero for each token, which shows what is added; numbers of all magnitudes; and large ones, which show any cap. The
    large ones end in ones (1.9921875 is the largest 8-bit significand), so a scale that leaves them leaves all numbers
    of the type.
    """
    draw = torch.Generator().manual_seed(0)
    signs = 1 - 2 * torch.randint(2, (2, size), generator=draw)
    significands = 1 + torch.randint(128, (size,), generator=draw) / 128
    anywhere = significands * 2.0 ** torch.randint(-8, 14, (size,), generator=draw)
    large = 1.9921875 * 2.0 ** torch.randint(11, 14, (size,), generator=draw)
    return torch.cat([torch.zeros(1, size), signs * torch.stack([anywhere, large])])


def _check_one_answer(
    targets: Tensor,  # (B, T)
) -> None:
    there = targets != IGNORED
    whole = (there[:, 1:] & ~there[:, :-1]).sum(1) + there[:, 0] <= 1
    rule = "of one answer a row when lazy is False (no packing, no several turns)"
    checks.must(bool(whole.all()), "labels", rule, "of several")


def _check_linear(head: Any) -> None:
    """Check that a head multiplies by its matrix and adds its bias, and does nothing else now or once it has learnt."""
    rule = "a torch.nn.Linear of floats, without an adapter (huggingface(objective) goes with any head)"
    plain = isinstance(head, nn.Linear) and head.weight.is_floating_point()
    kind = f"{type(head).__module__}.{type(head).__name__}"  # an adapter's may be called Linear, too
    checks.must(plain, "model.get_output_embeddings()", rule, f"a {kind} of {head.weight.dtype}")
    linear = type(head).forward is nn.Linear.forward and "forward" not in head.__dict__
    checks.must(linear, "model.get_output_embeddings()", rule, f"a {kind} with a forward of its own")


@contextmanager
def _instead_of_logits(
    head: Any,
    from_states: Callable[[Tensor], Tensor],  # (B, T, D) -> ()
    probe: Tensor,  # (3, V)
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Inside, a head makes the loss of what it is given and returns a stand-in for the logits; the list has both.

    The loss is made in the model's forward pass, and its outputs depend on it: data parallelism looks there for the
    parameters that will have gradients.
    """
    calls: list[tuple[Tensor, Tensor]] = []
    plain = head.forward

    def forward(hidden: Tensor) -> Any:
        loss = from_states(hidden)
        with torch.no_grad():
            like = plain(hidden[:1, -1:])  # for its type, which autocast decides
        values = probe.to(like.dtype).expand(len(hidden), -1, -1)
        # What depends on the loss, but is not changed even by one that is infinite.
        stand_in = torch.where(torch.ones_like(values, dtype=torch.bool), values, loss.to(values.dtype))
        calls.append((stand_in, loss))
        return stand_in

    head.forward = forward
    try:
        yield calls
    finally:
        del head.forward
