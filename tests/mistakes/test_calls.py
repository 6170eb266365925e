"""Mistakes in calls of objectives."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

import seqsmooth as ss
from mistakes.start import (
    LOGITS,
    NAN,
    REDUCTIONS,
    REFERENCES,
    TARGETS,
    B,
    Cases,
    T,
    V,
    assert_sentence,
    call,
    hamming,
    listed,
    on_own_prefixes,
    propose,
    similarity,
    through,
)

PROPOSE: Cases = {
    "targets a list": (lambda: propose([[1, 2]]), r"`targets` must be a torch\.Tensor; it is a list"),
    "targets None": (lambda: propose(None), r"`targets` must be a torch\.Tensor; it is None"),
    "targets of floats": (
        lambda: propose(TARGETS.float()),
        r"`targets` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "targets a mask": (
        lambda: propose(TARGETS > 2),
        r"`targets` must be a tensor of whole numbers; it is torch\.bool",
    ),
    "targets of one dimension": (lambda: propose(TARGETS[0]), r"`targets` must be of shape \(B, T\); it is \(3,\)"),
    "targets of three dimensions": (
        lambda: propose(REFERENCES),
        r"`targets` must be of shape \(B, T\); it is \(2, 1, 3\)",
    ),
    "targets beyond": (
        lambda: propose(TARGETS + 1),
        r"`targets` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "targets negative": (
        lambda: propose(TARGETS - 1),
        r"`targets` must be ids in \[0, 6\); it is -1 at its lowest",
    ),
    "targets elsewhere": (
        lambda: ss.Objective(token=similarity()).propose(TARGETS.to("meta")),
        r"`targets` must be on cpu, as the rest of the objective \(`objective\.to\(.*\)` moves it\); it is on meta",
    ),
    "references a list": (
        lambda: propose(references=[[1]]),
        r"`references` must be a torch\.Tensor; it is a list",
    ),
    "references of two dimensions": (
        lambda: propose(references=TARGETS),
        r"`references` must be of shape \(B, R, S\) = \(2, \*, \*\); it is \(2, 3\)",
    ),
    "references of another batch": (
        lambda: propose(references=torch.zeros(5, 1, 3, dtype=torch.long)),
        r"`references` must be of shape \(B, R, S\) = \(2, \*, \*\); it is \(5, 1, 3\)",
    ),
    "references of floats": (
        lambda: propose(references=REFERENCES.float()),
        r"`references` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "references beyond": (
        lambda: propose(references=REFERENCES + 1),
        r"`references` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "references elsewhere": (
        lambda: propose(references=REFERENCES.to("meta")),
        r"`references` must be on cpu, as the rest; it is on meta",
    ),
    "generator a seed": (
        lambda: propose(generator=0),
        r"`generator` must be a torch\.Generator \(`torch\.Generator\(\)\..* makes one\) or a Philox; it is an int",
    ),
    "stream a number": (lambda: propose(stream=0), r"`stream` must be a torch\.cuda\.Stream; it is an int"),
    "generator of another device": (
        lambda: propose(TARGETS.to("meta"), generator=torch.Generator()),
        r"`generator` must be on the device of the targets, meta; it is cpu",
    ),
}
CALL: Cases = {
    "logits a list": (lambda: call([[0.0]]), r"`logits` must be a torch\.Tensor; it is a list"),
    "logits of integers": (
        lambda: call(LOGITS.long()),
        r"`logits` must be a floating-point tensor; it is torch\.int64",
    ),
    "arguments swapped": (
        lambda: call(TARGETS, LOGITS),
        r"`logits` must be a floating-point tensor; it is torch\.int64",
    ),
    "logits of two dimensions": (
        lambda: call(LOGITS[0], TARGETS[0]),
        r"`logits` must be of shape \(B, K', T, V\) or \(B, T, V\); it is \(3, 6\)",
    ),
    "logits of five dimensions": (
        lambda: call(LOGITS[None, None]),
        r"`logits` must be of shape \(B, K', T, V\) or \(B, T, V\); it is \(1, 1, 2, 3, 6\)",
    ),
    "logits over fewer tokens": (lambda: call(LOGITS[..., :5]), r"`logits` must be over 6 tokens; it is over 5"),
    "logits over other tokens than the candidates": (
        lambda: through(ss.Objective(hamming(), vocab_size=6), torch.zeros(B, T, 9)),
        r"`logits` must be over 6 tokens; it is over 9",
    ),
    "logits over fewer tokens than the candidates": (
        lambda: through(ss.Objective(), torch.zeros(B, T, 3)),
        r"`target\.ids` must be ids in \[0, 3\); it is 5 at its highest",
    ),
    "logits of another batch": (
        lambda: call(LOGITS[:1]),
        r"`logits` must be of shape \(2, 1, 3, V\), as the target; it is \(1, 1, 3, 6\)",
    ),
    "logits of another length": (
        lambda: call(LOGITS[:, :2]),
        r"`logits` must be of shape \(2, 1, 3, V\), as the target; it is \(2, 1, 2, 6\)",
    ),
    "logits of the ground truth only": (
        lambda: through(on_own_prefixes(), LOGITS),
        r"`logits` must be of shape \(2, 3, 3, V\), as the target; it is \(2, 1, 3, 6\)",
    ),
    "logits of other candidates": (
        lambda: through(on_own_prefixes(), torch.zeros(B, 2, T, V)),
        r"`logits` must be of shape \(2, 3, 3, V\), as the target; it is \(2, 2, 3, 6\)",
    ),
    "logits elsewhere": (lambda: call(LOGITS.to("meta")), r"`logits` must be on cpu, as the rest; it is on meta"),
    "candidates of another objective": (
        lambda: ss.mle()(LOGITS, ss.mle().propose(TARGETS)),
        r"`candidates` must be from this objective's `propose`; it is from another's",
    ),
    "ignored positions before real ones when not lazy": (
        lambda: on_own_prefixes().propose(TARGETS.flip(1).contiguous().index_fill(1, torch.tensor([0]), -100)),
        r"`targets` must be free of ignored positions before real ones when lazy is False; it is not",
    ),
    "inputs of targets with a BOS": (
        lambda: ss.mle(specials=ss.Specials(bos=1)).propose(torch.tensor([[1, 5, 2], [1, 6, 2]])).inputs,
        r"`targets` must be without BOS in front, which `inputs` puts there \(`targets\[:, 1:\]` .*\); it is 1 first",
    ),
    "inputs without a BOS": (
        lambda: ss.mle().propose(TARGETS).inputs,
        r"`specials\.bos` must be given for `inputs` \(.*\); it is None",
    ),
    "plain targets when not lazy": (
        lambda: on_own_prefixes()(LOGITS, TARGETS),
        r"`candidates` must be from `propose` when lazy is False, so that samples are decoded; it is plain targets",
    ),
    "candidates None": (
        lambda: call(LOGITS, None),
        r"`candidates` must be from `propose`, or targets; it is None",
    ),
    "candidates a list": (
        lambda: call(LOGITS, TARGETS.tolist()),
        r"`candidates` must be from `propose`, or targets; it is a list",
    ),
    "candidates a soft target": (
        lambda: call(LOGITS, ss.SoftTarget.from_labels(TARGETS)),
        r"`candidates` must be from `propose`, or targets; it is a SoftTarget",
    ),
    "targets of floats": (
        lambda: call(LOGITS, TARGETS.float()),
        r"`targets` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "targets beyond": (
        lambda: call(LOGITS, TARGETS + 1),
        r"`targets` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "targets beyond an objective of no vocabulary": (
        lambda: ss.Objective()(LOGITS, TARGETS + 1),
        r"`targets` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "reduction unknown": (
        lambda: call(reduction="average"),
        rf"`reduction` must be one of {REDUCTIONS}; it is 'average'",
    ),
    "reduction None": (lambda: call(reduction=None), rf"`reduction` must be one of {REDUCTIONS}; it is None"),
    "num_items 0": (lambda: call(num_items=0), r"`num_items` must be greater than 0; it is 0"),
    "num_items -1": (lambda: call(num_items=-1.0), r"`num_items` must be greater than 0; it is -1"),
    "num_items NaN": (lambda: call(num_items=NAN), r"`num_items` must be a number; it is nan"),
    "num_items a word": (lambda: call(num_items="3"), r"`num_items` must be a number; it is '3'"),
    "num_items with a sum": (
        lambda: call(reduction="sum", num_items=3),
        r"`num_items` must be left out with reduction='sum'; it is 3",
    ),
    "num_items with none": (
        lambda: call(reduction="none", num_items=torch.tensor(3)),
        r"`num_items` must be left out with reduction='none'; it is 3",
    ),
    "num_items a tensor of zero": (
        lambda: call(num_items=torch.tensor(0)),
        r"`num_items` must be greater than 0; it is 0",
    ),
    "num_items a negative tensor": (
        lambda: call(num_items=torch.tensor(-2.0)),
        r"`num_items` must be greater than 0; it is -2",
    ),
    "num_items a row": (
        lambda: call(num_items=torch.ones(B)),
        r"`num_items` must be a single number; it is of shape \(2,\)",
    ),
    "generator a seed": (
        lambda: ss.Objective(hamming(samples=2))(LOGITS, TARGETS, generator=0),
        r"`generator` must be a torch\.Generator \(`torch\.Generator\(\)\..* makes one\) or a Philox; it is an int",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(propose=PROPOSE, call=CALL))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second kind of device")
def test_a_generator_of_the_wrong_device() -> None:
    with pytest.raises(ValueError, match=r"^`generator` must be on the device of the targets, cpu; it is cuda"):
        propose(generator=torch.Generator("cuda"))


def test_a_loss_says_where_its_tensor_is() -> None:
    loss = call()
    with pytest.raises(
        AttributeError, match=r"^A `Loss` has no `backward`: it is a record, and `loss\.total` the tens"
    ):
        loss.backward()
    assert not hasattr(loss, "item")
    assert torch.equal(copy.deepcopy(loss).total, loss.total)
