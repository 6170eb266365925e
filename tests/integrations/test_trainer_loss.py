"""The function that a Trainer calls, against `F.cross_entropy`: no transformers needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.integrations import WithReferences, huggingface

V = 11


@dataclass
class CausalLMOutput:
    logits: Any
    aux_loss: Any = None


@dataclass
class Seq2SeqLMOutput:
    logits: Any
    encoder_last_hidden_state: Any = None


@dataclass
class MaskedLMOutput:
    logits: Any


@dataclass
class Unheard:
    logits: Any


class Tiny(nn.Module):
    """As much of a model as the adapter looks at."""

    def __init__(self, encodes: bool, size: int = V) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=encodes)
        self.head = nn.Linear(4, size)

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, **inputs: Tensor) -> Seq2SeqLMOutput:
        return Seq2SeqLMOutput(torch.zeros(1, 3, V))


class TinyForMaskedLM(Tiny):
    """Its logits are for the words that were masked, at their own positions."""


def batch(rows: int, steps: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(V, (rows, steps), generator=draw)
    labels = labels.masked_fill(torch.rand(rows, steps, generator=draw) < 0.3, -100)
    labels[0, -1] = 1  # or else there may be none
    return torch.randn(rows, steps, V, generator=draw, dtype=torch.float64).requires_grad_(), labels


def expected(logits: Tensor, labels: Tensor, *, shift: bool, smoothing: float, items: float | None) -> Tensor:
    """Plainly: cut logits and labels, flatten, let torch do it."""
    if shift:
        logits, labels = logits[:, :-1], labels[:, 1:]
    options = {"label_smoothing": smoothing, "ignore_index": -100}
    if items is None:
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options, reduction="sum") / items


@given(st.integers(1, 4), st.integers(2, 6), st.integers(0, 999), st.booleans(), st.sampled_from([None, 5, 17]))
def test_equals_torch_with_and_without_shift(rows: int, steps: int, seed: int, shift: bool, items: int | None) -> None:
    logits, labels = batch(rows, steps, seed)
    outputs = CausalLMOutput(logits) if shift else Seq2SeqLMOutput(logits)
    number = None if items is None else torch.tensor(items)
    loss = huggingface(ss.label_smoothing(0.2))(outputs, labels, num_items_in_batch=number)
    wanted = expected(logits, labels, shift=shift, smoothing=0.2, items=items)
    torch.testing.assert_close(loss, wanted)
    gradient, wanted_gradient = (torch.autograd.grad(value, logits)[0] for value in (loss, wanted))
    torch.testing.assert_close(gradient, wanted_gradient)


def test_without_gradients_it_is_the_plain_likelihood() -> None:
    logits, labels = batch(3, 5, 0)
    with torch.no_grad():
        loss = huggingface(ss.label_smoothing(0.2))(CausalLMOutput(logits), labels, num_items_in_batch=None)
    torch.testing.assert_close(loss, expected(logits, labels, shift=True, smoothing=0.0, items=None))


def test_micro_batches_add_up_to_the_batch() -> None:
    logits, labels = batch(6, 5, 3)
    compute_loss = huggingface(ss.tok(torch.randn(V, 4), 0.3, 0.4))
    count = labels.ne(-100).sum()
    whole = compute_loss(Seq2SeqLMOutput(logits), labels, num_items_in_batch=count)
    cuts = (slice(0, 1), slice(1, 3), slice(3, 6))
    parts = [compute_loss(Seq2SeqLMOutput(logits[cut]), labels[cut], num_items_in_batch=count) for cut in cuts]
    torch.testing.assert_close(sum(parts), whole)


def test_the_number_of_items_may_be_repeated_and_the_loss_scaled_in_place() -> None:
    logits, labels = batch(2, 4, 5)
    compute_loss = huggingface(ss.mle())
    loss = compute_loss(Seq2SeqLMOutput(logits), labels, num_items_in_batch=torch.tensor([[7], [7]]))
    loss *= 2
    torch.testing.assert_close(loss, 2 * expected(logits, labels, shift=False, smoothing=0.0, items=7))
    loss.backward()


@pytest.mark.parametrize("items", [0, torch.tensor(0), torch.tensor([0, 0])], ids=str)
def test_a_step_without_any_label_has_a_loss_of_nothing(items: Any) -> None:
    logits, labels = batch(2, 4, 5)
    loss = huggingface(ss.label_smoothing(0.1))(CausalLMOutput(logits), labels.fill_(-100), num_items_in_batch=items)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss == 0
    assert not gradient.any()


def test_an_explicit_shift_is_obeyed() -> None:
    logits, labels = batch(2, 4, 6)
    loss = huggingface(ss.mle(), shift=True)(Unheard(logits), labels)
    torch.testing.assert_close(loss, expected(logits, labels, shift=True, smoothing=0.0, items=None))
    loss = huggingface(ss.mle(), Tiny(encodes=False))(Unheard(logits), labels)
    torch.testing.assert_close(loss, expected(logits, labels, shift=True, smoothing=0.0, items=None))


@pytest.mark.parametrize("model", [None, TinyForMaskedLM(encodes=False), nn.Sequential(TinyForMaskedLM(encodes=False))])
def test_masked_words_are_predicted_where_they_are(model: nn.Module | None) -> None:
    logits, labels = batch(2, 4, 7)
    if isinstance(model, nn.Sequential):  # as adapters wrap a model, and hand its methods on
        model.get_output_embeddings = model[0].get_output_embeddings
    loss = huggingface(ss.label_smoothing(0.1), model)(MaskedLMOutput(logits), labels)
    torch.testing.assert_close(loss, expected(logits, labels, shift=False, smoothing=0.1, items=None))


LOGITS, LABELS = torch.zeros(1, 3, V), torch.ones(1, 3, dtype=torch.long)
TRAPS = [
    (CausalLMOutput(LOGITS), None, r"^The batch has no `labels`; name the column so and list it in `label_names`\.$"),
    (
        CausalLMOutput(None),
        LABELS,
        r"^`outputs\.logits` is None; leave use_liger_kernel off, .*, or use the mixin Smoothed\.$",
    ),
    ((LOGITS,), LABELS, r"`outputs` must be a model output with logits \(return_dict=True\); it is a tuple\."),
    (
        CausalLMOutput(LOGITS, torch.tensor(1.0)),
        LABELS,
        r"^`outputs\.aux_loss` would be left out of the loss; set outp",
    ),
    (
        CausalLMOutput(torch.zeros(1, 5, V)),
        LABELS,
        r"^`outputs\.logits` has shape \(1, 5, 11\) for labels of shape \(1, 3\); prompt tuning adds positions\.$",
    ),
    (Seq2SeqLMOutput(torch.zeros(1, 5, V)), LABELS, r"\(1, 3\); `decoder_input_ids` may be missing: DataCollatorForS"),
    (
        Unheard(LOGITS),
        LABELS,
        r"^Whether the logits of Unheard are for the next label is not known; say so: hugg.*shift=True",
    ),
]


@pytest.mark.parametrize(("outputs", "labels", "sentence"), TRAPS)
def test_each_trap_has_its_sentence(outputs: Any, labels: Tensor | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        huggingface(ss.mle())(outputs, labels, num_items_in_batch=None)


def test_padding_that_would_be_counted_is_refused() -> None:
    """The Trainer would divide by a number of items with the padding among them."""
    compute_loss = huggingface(ss.mle(specials=ss.Specials(pad=0)))
    compute_loss(Seq2SeqLMOutput(LOGITS), torch.tensor([[4, 5, -100]]), num_items_in_batch=2)
    with pytest.raises(
        ValueError, match=r"^The labels hold PAD, 0, which num_items_in_batch counts .*; pad labels with -100\.$"
    ):
        compute_loss(Seq2SeqLMOutput(LOGITS), torch.tensor([[4, 5, 0]]), num_items_in_batch=3)


def test_objectives_that_cannot_work_are_refused_at_once() -> None:
    with pytest.raises(
        ValueError, match=r"^compute_loss_func sees one forward pass, .* lazy=False; use lazy=True, or the"
    ):
        huggingface(ss.seq(0.3, lazy=False, vocab_size=V))
    with pytest.raises(ValueError, match=r"`objective\.ignore_index` must be -100, as everywhere in transformers; it"):
        huggingface(ss.mle(ignore_index=-1))
    teacher = ss.Teacher(torch.arange(2).expand(1, 3, 2), torch.full((1, 3, 2), -1.0))
    with pytest.raises(
        ValueError, match=r"^The token law is a Teacher, which belongs to one batch, .* make an objective f"
    ):
        huggingface(ss.Objective(token=teacher))
    with pytest.raises(ValueError, match=r"`objective` must be an Objective; it is a function\."):
        huggingface(ss.mle)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must be that of the model's output matrix, 12; it is 11\."):
        huggingface(ss.mle(vocab_size=V), Tiny(encodes=False, size=12))
    with pytest.raises(ValueError, match=r"get_output_embeddings\(\)` must be a layer with a weight .*; it is None"):
        huggingface(ss.mle(), nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"`model` must be the model itself, an nn\.Module; it is a str\."):
        huggingface(ss.mle(), "gpt2")  # type: ignore[arg-type]


def test_a_decoder_without_inputs_is_noticed_before_it_reads_the_source() -> None:
    model = Tiny(encodes=True)
    huggingface(ss.mle(), model)
    model(input_ids=LABELS, decoder_input_ids=LABELS)
    with pytest.raises(
        ValueError, match=r"^The batch has no `decoder_input_ids`, and the Trainer takes out the labels, "
    ):
        model(input_ids=LABELS)


def test_references_that_were_dropped_are_missed() -> None:
    with pytest.raises(ValueError, match=r"^An item has no column 'captions'; set remove_unused_columns=False in the "):
        WithReferences(lambda features: {}, "captions")([{"labels": LABELS}])


@pytest.mark.parametrize(
    "references",
    [
        None,
        [None],
        5,
        [5, 6],
        torch.tensor([5, 6]),
        "",
        "a dog",
        ["a dog"],
        [["a", "dog"]],
        [[[5, 6]]],
        [[[5], [6, 7]]],
        [[5.5]],
        [torch.tensor([5.0])],
        [[True]],
        [[5, None]],
        [{5: 6}],
    ],
    ids=str,
)
def test_references_are_sequences_of_ids(references: Any) -> None:
    rule = "a list of sequences of token ids, [] if it has none"
    sentence = f"The 'references' of an item must be {rule}, but are {references!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        WithReferences(lambda features: {})([{"references": [[5]]}, {"references": references}])


@pytest.mark.parametrize(
    "references",
    [
        [[5, 6], [7]],
        [torch.tensor([5, 6]), torch.tensor([7])],
        [np.array([5, 6]), np.array([7])],
        ((5, 6), range(7, 8)),
    ],
    ids=["lists", "tensors", "arrays", "others"],
)
def test_references_of_any_kind_of_sequence(references: Any) -> None:
    batch = WithReferences(lambda features: {})([{"references": references}, {"references": []}])
    assert batch["references"].tolist() == [[[5, 6], [7, -100]], [[-100, -100], [-100, -100]]]


def test_a_batch_without_any_reference_can_be_scored() -> None:
    batch = WithReferences(lambda features: {})([{"references": []}, {"references": []}])
    sequence = ss.Rewarded(ss.rewards.Bleu(), ss.Hamming(rate=0.5, pool="refs"), 1.0, samples=3)
    objective = ss.Objective(sequence, vocab_size=9)
    targets = torch.tensor([[4, 5], [6, -100]])
    candidates = objective.propose(targets, references=batch["references"])
    assert candidates.ess.item() == pytest.approx(3)  # no reference tells one sample from another
    assert candidates.target.dense(9)[0, 0].tolist() == [[0, 0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0, 0]]


@pytest.mark.parametrize("references", [[], [[]]])
def test_a_batch_without_any_references_is_like_one_with_some(references: Any) -> None:
    """As an item without references among others: its pool is empty, and no reward says anything."""
    alone = WithReferences(lambda features: {})([{"references": references}] * 2)["references"]
    proposal = ss.Hamming(tau=0.3, pool="refs")
    law = ss.Rewarded(ss.rewards.Bleu(), proposal, tau=0.5, samples=2)
    objective = ss.Objective(law, lazy=False, vocab_size=9, specials=ss.Specials(bos=1))
    candidates = objective.propose(torch.tensor([[5, 6], [7, 8]]), references=alone)
    assert (candidates.sequences == torch.tensor([[[5, 6]], [[7, 8]]])).all()
    loss = objective(torch.zeros(2, 3, 2, 9), candidates)
    torch.testing.assert_close(loss.total, torch.tensor(9.0).log())


def test_references_go_around_a_collator() -> None:
    with pytest.raises(ValueError, match=r"`collator` must be callable; it is a str\."):
        WithReferences("references")  # type: ignore[arg-type]
