"""Mistakes in the cross entropy of soft targets, from logits and from hidden states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mistakes.start import (
    HIDDEN,
    LABELS,
    LOGITS,
    NAN,
    REDUCTIONS,
    TARGETS,
    WEIGHT,
    B,
    Cases,
    D,
    V,
    assert_sentence,
    entropy,
    linear,
    listed,
    pointing,
)

CROSS_ENTROPY: Cases = {
    "logits a list": (lambda: entropy([[0.0]]), r"`logits` must be a torch\.Tensor; it is a list"),
    "logits of integers": (
        lambda: entropy(LABELS.unsqueeze(-1)),
        r"`logits` must be a floating-point tensor; it is torch\.int64",
    ),
    "logits complex": (
        lambda: entropy(LOGITS[:, 0].to(torch.complex64)),
        r"`logits` must be a floating-point tensor; it is torch\.complex64",
    ),
    "logits of other positions": (
        lambda: entropy(LOGITS[:1, 0]),
        r"`logits` must be of shape \(2, V\), as the target; it is \(1, 6\)",
    ),
    "logits in torch's order": (
        lambda: entropy(LOGITS.transpose(1, 2), TARGETS),
        r"`logits` must be of shape \(2, 3, V\), as the target; it is \(2, 6, 3\)",
    ),
    "logits a scalar": (
        lambda: entropy(torch.tensor(1.0), torch.tensor(0)),
        r"`logits` must be of shape \(V\), as the target; it is \(\)",
    ),
    "logits over nothing": (
        lambda: entropy(torch.zeros(2, 0)),
        r"`logits` must be over 1 token or more; it is over 0",
    ),
    "logits over other tokens": (
        lambda: entropy(LOGITS[:, 0, :5], pointing()),
        r"`logits` must be over the 6 tokens of the target; it is over 5",
    ),
    "logits elsewhere": (
        lambda: entropy(LOGITS[:, 0].to("meta")),
        r"`logits` must be on cpu, as the rest; it is on meta",
    ),
    "target a list": (
        lambda: entropy(target=[0, 1]),
        r"`target` must be a SoftTarget or a tensor of labels; it is a list",
    ),
    "target None": (
        lambda: entropy(target=None),
        r"`target` must be a SoftTarget or a tensor of labels; it is None",
    ),
    "target of floats": (
        lambda: entropy(target=LOGITS[:, 0].softmax(-1)),
        r"`target` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "target a mask": (
        lambda: entropy(target=LABELS > 2),
        r"`target` must be a tensor of whole numbers; it is torch\.bool",
    ),
    "target beyond": (
        lambda: entropy(target=LABELS + 1),
        r"`target\.ids` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "target negative": (
        lambda: entropy(target=LABELS - 1),
        r"`target\.ids` must be ids in \[0, 6\); it is -1 at its lowest",
    ),
    "another id ignored": (
        lambda: entropy(target=torch.tensor([0, -100]), ignore_index=-1),
        r"`target\.ids` must be ids in \[0, 6\); it is -100 at its lowest",
    ),
    "reduction unknown": (
        lambda: entropy(reduction="batchmean"),
        rf"`reduction` must be one of {REDUCTIONS}; it is 'batchmean'",
    ),
    "num_items 0": (lambda: entropy(num_items=0), r"`num_items` must be greater than 0; it is 0"),
    "num_items NaN": (lambda: entropy(num_items=NAN), r"`num_items` must be a number; it is nan"),
    "num_items True": (lambda: entropy(num_items=True), r"`num_items` must be a number; it is True"),
    "num_items with a sum": (
        lambda: entropy(reduction="sum", num_items=2),
        r"`num_items` must be left out with reduction='sum'; it is 2",
    ),
    "num_items with none": (
        lambda: entropy(reduction="none", num_items=2),
        r"`num_items` must be left out with reduction='none'; it is 2",
    ),
    "num_items a tensor of zero": (
        lambda: entropy(num_items=torch.tensor(0)),
        r"`num_items` must be greater than 0; it is 0",
    ),
    "num_items a row": (
        lambda: entropy(num_items=torch.ones(B)),
        r"`num_items` must be a single number; it is of shape \(2,\)",
    ),
    "ignore_index 1.5": (lambda: entropy(ignore_index=1.5), r"`ignore_index` must be a whole number; it is 1\.5"),
    "ignore_index None": (lambda: entropy(ignore_index=None), r"`ignore_index` must be a whole number; it is None"),
}
LINEAR: Cases = {
    "hidden of integers": (
        lambda: linear(LABELS.unsqueeze(-1)),
        r"`hidden` must be a floating-point tensor; it is torch\.int64",
    ),
    "hidden of other positions": (
        lambda: linear(HIDDEN[0, 0]),
        r"`hidden` must be of shape \(2, D\), as the target; it is \(4,\)",
    ),
    "hidden and weight swapped": (
        lambda: linear(WEIGHT, HIDDEN[:, 0]),
        r"`hidden` must be of shape \(2, D\), as the target; it is \(6, 4\)",
    ),
    "hidden a scalar": (
        lambda: linear(torch.tensor(1.0), WEIGHT, torch.tensor(0)),
        r"`hidden` must be of shape \(D\), as the target; it is \(\)",
    ),
    "weight of integers": (
        lambda: linear(weight=WEIGHT.long()),
        r"`weight` must be a floating-point tensor; it is torch\.int64",
    ),
    "weight turned": (
        lambda: linear(weight=WEIGHT.T),
        r"`weight` must be of shape \(V, D\) = \(\*, 4\); it is \(4, 6\)",
    ),
    "weight a row": (
        lambda: linear(weight=WEIGHT[0]),
        r"`weight` must be of shape \(V, D\) = \(\*, 4\); it is \(4,\)",
    ),
    "weight over nothing": (lambda: linear(weight=WEIGHT[:0]), r"`weight` must be over 1 token or more; it is over 0"),
    "weight over other tokens": (
        lambda: linear(weight=WEIGHT[:5], target=pointing()),
        r"`weight` must be over the 6 tokens of the target; it is over 5",
    ),
    "weight of another type": (
        lambda: linear(weight=WEIGHT.double()),
        r"`weight` must be of the type of `hidden`, torch\.float32; it is torch\.float64",
    ),
    "weight elsewhere": (
        lambda: linear(weight=WEIGHT.to("meta")),
        r"`weight` must be on cpu, as the rest; it is on meta",
    ),
    "bias elsewhere": (
        lambda: linear(bias=torch.zeros(V, device="meta")),
        r"`bias` must be on cpu, as the rest; it is on meta",
    ),
    "hidden elsewhere": (
        lambda: linear(HIDDEN[:, 0].to("meta")),
        r"`hidden` must be on cpu, as the rest; it is on meta",
    ),
    "ignore_index 1.5": (lambda: linear(ignore_index=1.5), r"`ignore_index` must be a whole number; it is 1\.5"),
    "bias a number": (lambda: linear(bias=0.5), r"`bias` must be a torch\.Tensor; it is a float"),
    "bias of integers": (
        lambda: linear(bias=torch.zeros(V, dtype=torch.long)),
        r"`bias` must be a floating-point tensor; it is torch\.int64",
    ),
    "bias of another size": (
        lambda: linear(bias=torch.zeros(D)),
        r"`bias` must be of shape \(V,\) = \(6,?\); it is \(4,\)",
    ),
    "bias of another type": (
        lambda: linear(bias=torch.zeros(V, dtype=torch.float16)),
        r"`bias` must be of the type of `hidden`, torch\.float32; it is torch\.float16",
    ),
    "target None": (
        lambda: linear(target=None),
        r"`target` must be a SoftTarget or a tensor of labels; it is None",
    ),
    "target of floats": (
        lambda: linear(target=torch.zeros(B)),
        r"`target` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "target beyond": (
        lambda: linear(target=LABELS + 1),
        r"`target\.ids` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "chunk 0": (lambda: linear(chunk=0), r"`chunk` must be 1 or more; it is 0"),
    "chunk -1": (lambda: linear(chunk=-1), r"`chunk` must be 1 or more; it is -1"),
    "chunk 1.5": (lambda: linear(chunk=1.5), r"`chunk` must be a whole number; it is 1\.5"),
    "reduction unknown": (lambda: linear(reduction="x"), rf"`reduction` must be one of {REDUCTIONS}; it is 'x'"),
    "num_items 0": (lambda: linear(num_items=0), r"`num_items` must be greater than 0; it is 0"),
    "num_items with a sum": (
        lambda: linear(reduction="sum", num_items=2),
        r"`num_items` must be left out with reduction='sum'; it is 2",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(cross_entropy=CROSS_ENTROPY, linear_cross_entropy=LINEAR))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
