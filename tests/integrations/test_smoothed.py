"""The mixin over as little of a Trainer as it needs, against `F.cross_entropy`: no transformers needed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.integrations import Smoothed
from seqsmooth.integrations.candidate_rows import causal_rows
from seqsmooth.integrations.labels import next_labels

V, D, START = 11, 6, 0


@dataclass
class CausalLMOutput:
    logits: Tensor
    aux_loss: Any = None


class Model(nn.Module):
    """Reads its prefix by a running mean; an encoder-decoder adds the mean of its source."""

    def __init__(
        self, encodes: bool, *, calls: int = 1, scale: float = 1.0, extra: Any = None, prompt: int = 0
    ) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.config = SimpleNamespace(is_encoder_decoder=encodes, decoder_start_token_id=START)
        self.embedding, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.calls, self.scale, self.extra, self.prompt = calls, scale, extra, prompt

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        return torch.cat([torch.full_like(labels[:, :1], START), labels[:, :-1].clamp_min(0)], 1)

    def forward(
        self, input_ids: Tensor, decoder_input_ids: Tensor | None = None, use_cache: bool = True
    ) -> CausalLMOutput:
        read = input_ids if decoder_input_ids is None else decoder_input_ids
        steps = torch.arange(1, read.shape[1] + 1)[:, None]
        hidden = self.embedding(read).cumsum(1) / steps
        if decoder_input_ids is not None:
            hidden = hidden + self.embedding(input_ids).mean(1, keepdim=True)
        hidden = F.pad(hidden, (0, 0, self.prompt, 0))
        for _ in range(self.calls):
            logits = self.head(hidden) * self.scale
        return CausalLMOutput(logits, self.extra)


class ModelForMaskedLM(Model):
    """Of its logits, each is for the label of its own position."""


class Stock:
    """What the mixin expects below it."""

    def __init__(self, model: Model, processes: int = 1, kind: str = "DistributedType.NO", **given: Any) -> None:
        usual = {"label_smoothing_factor": 0.0, "n_gpu": 0, "use_liger_kernel": False, "torch_compile": False}
        self.args = SimpleNamespace(**usual | given, average_tokens_across_devices=True)
        self.model = model
        self.accelerator = SimpleNamespace(autocast=nullcontext, num_processes=processes, distributed_type=kind)
        self.compute_loss_func: Any = None

    def compute_loss(self, model: Model, inputs: Any, return_outputs: bool, num_items_in_batch: Any) -> Any:
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        return self.compute_loss_func(outputs, labels, num_items_in_batch=num_items_in_batch), outputs

    def prediction_step(self, model: Model, inputs: Any, prediction_loss_only: bool, ignore_keys: Any) -> Any:
        return "stock", sorted(inputs), None

    def _prepare_inputs(self, inputs: Any) -> Any:
        return inputs

    def compute_loss_context_manager(self) -> Any:
        return nullcontext()


class Trainer(Smoothed, Stock):
    pass


INPUTS = torch.tensor([[4, 5, 6, 7, 8], [9, 8, 7, 6, 5]])
LABELS = torch.tensor([[-100, -100, 6, 7, 8], [-100, 8, 7, -100, -100]])
ANSWERS = torch.tensor([[6, 7, 8, -100], [8, 7, -100, -100]])


def smoothed(logits: Tensor, labels: Tensor, epsilon: float, items: int) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=epsilon, reduction="sum") / items


@pytest.mark.parametrize("processes", [1, 3])
def test_a_causal_model_predicts_the_next_label(processes: int) -> None:
    model = Model(encodes=False)
    trainer = Trainer(model, processes, objective=ss.label_smoothing(0.2))
    batch = {"input_ids": INPUTS, "labels": LABELS}
    loss = trainer.compute_loss(model, batch, num_items_in_batch=torch.tensor(9))
    wanted = processes * smoothed(model(INPUTS).logits[:, :-1], LABELS[:, 1:], 0.2, 9)
    torch.testing.assert_close(loss, wanted)
    for weight in model.parameters():
        ours, theirs = (torch.autograd.grad(value, weight, retain_graph=True)[0] for value in (loss, wanted))
        torch.testing.assert_close(ours, theirs)
    assert sorted(batch) == ["input_ids", "labels"]  # as they were


def test_masked_words_are_predicted_where_they_are() -> None:
    model = ModelForMaskedLM(encodes=False)
    trainer = Trainer(model, objective=ss.label_smoothing(0.2))
    loss = trainer.compute_loss(model, {"input_ids": INPUTS, "labels": LABELS}, num_items_in_batch=5)
    torch.testing.assert_close(loss, smoothed(model(INPUTS).logits, LABELS, 0.2, 5))
    with pytest.raises(
        ValueError, match=r"^A model of masked words reads no prefix; use an objective with lazy=True\.$"
    ):
        Trainer(model, objective=ss.seq(rate=0.3, samples=2, lazy=False, vocab_size=V))


def test_the_mixin_comes_before_the_trainer() -> None:
    with pytest.raises(
        ValueError, match=r"^Smoothed must come before the Trainer: class Wrong\(Smoothed, Trainer\)\.$"
    ):

        class Wrong(Stock, Smoothed):
            pass

    class Other:
        """A mixin of somebody else, which may come first."""

    class Right(Other, Smoothed, Stock):
        pass

    assert Right(Model(encodes=False), objective=ss.mle())._one_row


def test_an_encoder_decoder_is_given_what_to_read() -> None:
    model = Model(encodes=True)
    trainer = Trainer(model, objective=ss.label_smoothing(0.2))
    loss = trainer.compute_loss(model, {"input_ids": INPUTS, "labels": ANSWERS}, num_items_in_batch=5)
    read = torch.tensor([[START, 6, 7, 8], [START, 8, 7, 0]])
    torch.testing.assert_close(loss, smoothed(model(INPUTS, read).logits, ANSWERS, 0.2, 5))


def test_padding_may_be_of_nan() -> None:
    """As of attention with nothing to look at; also at the first step, which looks at the last position."""
    model = Model(encodes=False)
    trainer = Trainer(model, objective=ss.label_smoothing(0.2))
    wanted = smoothed(model(INPUTS).logits[:, :-1], LABELS[:, 1:], 0.2, 5)
    last = torch.zeros(2, 5, D)
    last[1, 3:] = torch.nan  # where nothing is to be predicted
    model.embedding.register_forward_hook(lambda module, given, hidden: hidden + last)
    loss = trainer.compute_loss(model, {"input_ids": INPUTS, "labels": LABELS}, num_items_in_batch=5)
    torch.testing.assert_close(loss, wanted)
    gradient = torch.autograd.grad(loss, model.head.weight)[0]
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted, model.head.weight)[0])


def test_evaluation_is_plain_and_leaves_the_rest_to_the_trainer() -> None:
    model = Model(encodes=True)
    trainer = Trainer(model, objective=ss.label_smoothing(0.2))
    batch = {"input_ids": INPUTS, "labels": ANSWERS, "references": ANSWERS[:, None]}
    loss, logits, labels = trainer.prediction_step(model, batch, prediction_loss_only=True)
    read = torch.tensor([[START, 6, 7, 8], [START, 8, 7, 0]])
    torch.testing.assert_close(loss, smoothed(model(INPUTS, read).logits, ANSWERS, 0.0, 5).detach())
    assert logits is labels is None
    assert trainer.prediction_step(model, batch, prediction_loss_only=False)[1] == ["input_ids", "labels"]


@pytest.mark.parametrize("encodes", [False, True])
def test_samples_are_read_and_weighed(encodes: bool) -> None:
    """Half of the loss on the truth, half on two samples; each row decoded here on its own."""
    model = Model(encodes)
    sequence = ss.Hamming(rate=0.6, alpha=0.5, samples=2, integrate=False)
    trainer = Trainer(model, objective=ss.Objective(sequence, lazy=False, vocab_size=V))
    batch = {"input_ids": INPUTS, "labels": ANSWERS if encodes else LABELS}
    answers = ANSWERS if encodes else F.pad(ANSWERS, (0, 1), value=-100)
    torch.manual_seed(5)
    loss = trainer.compute_loss(model, batch, num_items_in_batch=5)
    torch.manual_seed(5)
    drawn = trainer.objective.propose(answers).sequences
    wanted = torch.zeros(())
    for item, length in enumerate([3, 2]):
        for place, share in enumerate([0.5, 0.25, 0.25]):
            words = drawn[item, place, :length]
            prompt = INPUTS[item] if encodes else INPUTS[item][: [2, 1][item]]
            if encodes:
                read = torch.cat([torch.tensor([START]), words[:-1]])
                logits = model(prompt[None], read[None]).logits[0]
            else:
                logits = model(torch.cat([prompt, words])[None]).logits[0, len(prompt) - 1 : -1]
            wanted = wanted + share * F.cross_entropy(logits, words, reduction="sum") / 5
    torch.testing.assert_close(loss, wanted)
    assert (drawn[:, 1:] != drawn[:, :1]).any()


def test_what_goes_with_the_words_goes_on_where_the_prompt_ends() -> None:
    """Positions count on, masks are open and types are the answer's, also where padding was and beyond it."""
    objective = ss.Objective(ss.Edit(0.5, samples=3), lazy=False, vocab_size=V)
    padded = {
        "attention_mask": torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
        "position_ids": torch.tensor([[1, 0, 1, 2, 3], [0, 1, 2, 1, 1]]),  # 1 where there is padding
        "token_type_ids": torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]]),
    }
    torch.manual_seed(5)
    rows = causal_rows(objective, {"input_ids": INPUTS, **padded}, next_labels(LABELS), None)
    wanted = {
        "attention_mask": [[0, *[1] * 9], [1] * 10],
        "position_ids": [[1, *range(9)], list(range(10))],
        "token_type_ids": [[0, 0, *[1] * 8], [0, *[1] * 9]],
    }
    for name, lists in wanted.items():
        assert rows.inputs[name].tolist() == [one for one in lists for _ in range(4)], name
    read, drawn = rows.inputs["input_ids"].view(2, 4, 10), rows.candidates.sequences
    assert read[0, :, :2].tolist() == [[4, 5]] * 4
    assert torch.equal(read[0, :, 2:], drawn[0, :, :8])
    assert read[1, :, :1].tolist() == [[9]] * 4
    assert torch.equal(read[1, :, 1:], drawn[1, :, :9])


def test_samples_are_not_read_as_vectors() -> None:
    """Where the batch holds embeddings, the model would read the ground truth in place of each sample."""
    model = Model(encodes=False)
    trainer = Trainer(model, objective=ss.seq(rate=0.6, samples=2, lazy=False, vocab_size=V))
    batch = {"inputs_embeds": torch.randn(2, 5, D), "labels": LABELS}
    with pytest.raises(
        ValueError, match=r"^The batch has no `input_ids`: lazy=False puts the tokens of samples there; w"
    ):
        trainer.compute_loss(model, batch)


@pytest.mark.parametrize("lazy", [True, False])
def test_a_step_without_any_label_has_a_loss_of_nothing(lazy: bool) -> None:
    model = Model(encodes=False)
    trainer = Trainer(model, objective=ss.seq(rate=0.3, samples=2, lazy=lazy, vocab_size=V))
    batch = {"input_ids": INPUTS, "labels": torch.full_like(LABELS, -100)}
    loss = trainer.compute_loss(model, batch, num_items_in_batch=torch.tensor(0))
    loss.backward()
    assert loss == 0
    assert all(weight.grad is None or not weight.grad.any() for weight in model.parameters())


def test_references_reach_the_pool() -> None:
    model = Model(encodes=False)
    trainer = Trainer(model, objective=ss.seq(rate=1.0, pool="refs", vocab_size=V))
    references = torch.tensor([[[6, 7, 8], [1, -100, -100]], [[8, 7, -100], [2, -100, -100]]])
    loss = trainer.compute_loss(model, {"input_ids": INPUTS, "labels": LABELS, "references": references})
    scores = model(INPUTS).logits.log_softmax(-1)
    wanted = torch.zeros(())
    for item, first, pool in ((0, 2, [1, 6, 7, 8]), (1, 1, [2, 7, 8])):
        answer = LABELS[item][LABELS[item] != -100].tolist()
        for place, word in enumerate(answer):
            others = [other for other in pool if other != word]
            wanted = wanted - scores[item, first - 1 + place, others].mean() / 5
    torch.testing.assert_close(loss, wanted)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"label_smoothing_factor": 0.1},
            r"`label_smoothing_factor` is 0\.1, but the objective smooths; leave it at 0 \(ss\.label_smoothing\(0\.1\)",
        ),
        ({"n_gpu": 2}, r"^`args\.n_gpu` is 2; start one process for each GPU with torchrun\.$"),
        ({"use_liger_kernel": True}, r"^`use_liger_kernel` would replace the objective; leave it off\.$"),
        ({"loss_type": "dft"}, r"^`loss_type` is 'dft', but the objective is the loss; set loss_type='nll'\.$"),
        (
            {"kind": "DistributedType.FSDP"},
            r"^FSDP keeps the output matrix in pieces, but `Smoothed` needs it whole; use DDP, or Trainer",
        ),
        ({"compute_loss_func": len}, r"^`compute_loss_func` is given, but the objective is the loss; leave it out\.$"),
    ],
)
def test_what_would_be_ignored_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Trainer(Model(encodes=False), **options, objective=ss.mle())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"scale": 1.5},
            r"^Model changes its logits after its output layer: -?1\d+ came out as -?2\d+\. `Smoothed` comp",
        ),
        (
            {"calls": 2},
            r"^Model calls its output layer 2 times in a forward pass, but `Smoothed` needs one call; use Tr",
        ),
        (
            {"extra": torch.ones(())},
            r"^`outputs\.aux_loss` would be left out of the loss; set output_router_logits=False\.$",
        ),
        (
            {"prompt": 3},
            r"^The hidden states have shape \(2, 8\), the labels \(2, 5\); .* prompt tuning",
        ),
    ],
)
def test_models_with_more_than_a_head_are_refused(options: dict[str, Any], sentence: str) -> None:
    model = Model(encodes=False, **options)
    trainer = Trainer(model, objective=ss.mle())
    with pytest.raises(ValueError, match=sentence):
        trainer.compute_loss(model, {"input_ids": INPUTS, "labels": LABELS})
    assert "forward" not in model.head.__dict__


def test_padding_that_would_be_counted_is_refused() -> None:
    model = Model(encodes=False)
    trainer = Trainer(model, objective=ss.mle(specials=ss.Specials(pad=0)))
    with pytest.raises(
        ValueError, match=r"^The labels hold PAD, 0, which num_items_in_batch counts .*; pad labels with -100\.$"
    ):
        trainer.compute_loss(model, {"input_ids": INPUTS, "labels": LABELS.masked_fill(LABELS == -100, 0)})


def test_a_head_that_is_no_plain_matrix_is_refused() -> None:
    model = Model(encodes=False)
    model.head = nn.Embedding(V, D)  # as an adapter's would be: a weight, and something else done with it
    with pytest.raises(
        ValueError,
        match=r"^The model's output layer is a torch\.nn\.modules\.sparse\.Embedding of torch\.float32, but `S",
    ):
        Trainer(model, objective=ss.mle())
