"""Mistakes in calls of an objective's head."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mistakes.start import (
    HIDDEN,
    REDUCTIONS,
    TARGETS,
    WEIGHT,
    Cases,
    D,
    V,
    assert_sentence,
    head,
    listed,
    on_own_prefixes,
)

HEAD: Cases = {
    "hidden a list": (lambda: head([0.0]), r"`hidden` must be a torch\.Tensor; it is a list"),
    "hidden of integers": (
        lambda: head(HIDDEN.long()),
        r"`hidden` must be a floating-point tensor; it is torch\.int64",
    ),
    "hidden of two dimensions": (
        lambda: head(HIDDEN[0]),
        r"`hidden` must be of shape \(B, K', T, D\) or \(B, T, D\); it is \(3, 4\)",
    ),
    "hidden of another batch": (
        lambda: head(HIDDEN[:1]),
        r"`hidden` must be of shape \(2, 1, 3, D\), as the target; it is \(1, 1, 3, 4\)",
    ),
    "hidden of the ground truth only": (
        lambda: (lambda own: own.head(HIDDEN, WEIGHT, own.propose(TARGETS)))(on_own_prefixes()),
        r"`hidden` must be of shape \(2, 3, 3, D\), as the target; it is \(2, 1, 3, 4\)",
    ),
    "weight turned": (
        lambda: head(weight=WEIGHT.T),
        r"`weight` must be of shape \(V, D\) = \(\*, 4\); it is \(4, 6\)",
    ),
    "weight a module": (
        lambda: head(weight=torch.nn.Linear(D, V)),
        r"`weight` must be a torch\.Tensor; it is a Linear",
    ),
    "weight of integers": (
        lambda: head(weight=WEIGHT.long()),
        r"`weight` must be a floating-point tensor; it is torch\.int64",
    ),
    "weight over fewer tokens": (lambda: head(weight=WEIGHT[:5]), r"`weight` must be over 6 tokens; it is over 5"),
    "weight of another type": (
        lambda: head(weight=WEIGHT.double()),
        r"`weight` must be of the type of `hidden`, torch\.float32; it is torch\.float64",
    ),
    "bias of another size": (
        lambda: head(bias=torch.zeros(D)),
        r"`bias` must be of shape \(V,\) = \(6,?\); it is \(4,\)",
    ),
    "bias a number": (lambda: head(bias=0.0), r"`bias` must be a torch\.Tensor; it is a float"),
    "bias of integers": (
        lambda: head(bias=torch.zeros(V, dtype=torch.long)),
        r"`bias` must be a floating-point tensor; it is torch\.int64",
    ),
    "bias of another type": (
        lambda: head(bias=torch.zeros(V, dtype=torch.float64)),
        r"`bias` must be of the type of `hidden`, torch\.float32; it is torch\.float64",
    ),
    "chunk 0": (lambda: head(chunk=0), r"`chunk` must be 1 or more; it is 0"),
    "chunk 1.5": (lambda: head(chunk=1.5), r"`chunk` must be a whole number; it is 1\.5"),
    "plain targets when not lazy": (
        lambda: on_own_prefixes().head(HIDDEN, WEIGHT, TARGETS),
        r"`candidates` must be from `propose` when lazy is False, so that samples are decoded; it is plain targets",
    ),
    "reduction unknown": (lambda: head(reduction="x"), rf"`reduction` must be one of {REDUCTIONS}; it is 'x'"),
    "num_items 0": (lambda: head(num_items=0), r"`num_items` must be greater than 0; it is 0"),
    "num_items with a sum": (
        lambda: head(reduction="sum", num_items=3),
        r"`num_items` must be left out with reduction='sum'; it is 3",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(head=HEAD))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
