"""A loss is imported by its name, and how it is called is read off its signature."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seqsmooth.conformance import load
from seqsmooth.conformance.subject import Subject

LOSSES = """
import torch
from torch.nn import functional as F
import seqsmooth as ss

number = 3
objective = ss.mle()

def trainer(outputs, labels, num_items_in_batch=None):
    logits = outputs.logits
    assert logits is outputs["logits"] and logits is outputs[0]
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    return loss / (labels != -100).sum() if num_items_in_batch is None else loss / num_items_in_batch

class Smoothed(torch.nn.Module):
    def __init__(self, epsilon=0.0):
        super().__init__()
        self.epsilon = epsilon

    def forward(self, logits, labels, num_items=None):
        loss = F.cross_entropy(logits, labels, label_smoothing=self.epsilon, reduction="sum")
        return (loss / ((labels != -100).sum() if num_items is None else num_items), "and more")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "losses_of_somebody.py").write_text(LOSSES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [place for place in sys.path if place])  # without the current folder
    return tmp_path


def batch() -> tuple[Tensor, Tensor, Tensor]:
    logits = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[1, 2, -100], [3, -100, 4]])
    return logits, labels, F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def test_torch_is_flat() -> None:
    subject = load("torch.nn.functional:cross_entropy")
    assert (subject.call, subject.smoothing, subject.items, subject.reduction, subject.shift) == (
        "flat",
        "label_smoothing",
        None,
        "reduction",
        None,
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "call", "smoothing", "items"),
    [
        ("trainer", "trainer", None, "num_items_in_batch"),
        ("Smoothed", "flat", "epsilon", "num_items"),
        ("objective", "sequence", None, "num_items"),
    ],
)
def test_a_module_of_the_current_folder(name: str, call: str, smoothing: str | None, items: str) -> None:
    subject = load(f"losses_of_somebody:{name}")
    assert (subject.call, subject.smoothing, subject.items) == (call, smoothing, items)
    logits, labels, wanted = batch()
    torch.testing.assert_close(subject.loss(logits, labels), wanted)
    divided = subject.loss(logits, labels, items=torch.tensor(8))
    torch.testing.assert_close(divided, wanted * 4 / 8)
    if smoothing:
        smoothed = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.2)
        torch.testing.assert_close(subject.loss(logits, labels, smoothing=0.2), smoothed)


def test_a_loss_that_always_shifts_is_given_what_it_throws_away() -> None:
    logits, labels, wanted = batch()

    def shifting(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())

    subject = Subject("it", shifting, "sequence", shifts=True)
    torch.testing.assert_close(subject.loss(logits, labels), wanted)
    torch.testing.assert_close(subject.loss(logits, labels, shifted=True), shifting(logits, labels))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "losses_of_somebody",
            "The loss `losses_of_somebody` must be written as MODULE:NAME, like torch.nn.functional:cross_entropy.",
        ),
        ("losses_of_somebody:nobody", "The module `losses_of_somebody` has no `nobody`."),
        (
            "losses_of_somebody:number",
            "`losses_of_somebody:number` is an int, but a loss is a function, an nn.Module or a class of either.",
        ),
        (
            "of_nobody:loss",
            "The module `of_nobody` cannot be imported: No module named 'of_nobody'.",
        ),
    ],
)
def test_a_wrong_name_is_said(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + sentence.replace("(", r"\(")):
        load(name)


def test_a_wrong_keyword_or_call_is_said() -> None:
    with pytest.raises(
        ValueError, match=r"`smoothing` must be a keyword of torch\.nn\.functional:cross_entropy; it is 'eps'"
    ):
        load("torch.nn.functional:cross_entropy", smoothing="eps")
    with pytest.raises(ValueError, match=r"`call` must be one of 'flat', 'sequence', .* 'states'; it is 'round'"):
        load("torch.nn.functional:cross_entropy", call="round")  # type: ignore[arg-type]
