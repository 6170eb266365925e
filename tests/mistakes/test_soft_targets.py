"""Mistakes in soft targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import seqsmooth as ss
from mistakes.start import (
    FIRST,
    IDS,
    LOGITS,
    LOGPROBS,
    NAN,
    ONE_ROW,
    ONES,
    SPARSE,
    TABLE,
    TARGETS,
    B,
    Cases,
    T,
    V,
    assert_sentence,
    entropy,
    listed,
    pointing,
    soft,
)
from seqsmooth.ops.soft_target import Rows

SOFT_TARGET: Cases = {
    "ids a list": (lambda: soft([0]), r"`ids` must be a torch\.Tensor; it is a list"),
    "ids of floats": (lambda: soft(LOGPROBS), r"`ids` must be a tensor of whole numbers; it is torch\.float32"),
    "ids a scalar": (
        lambda: soft(torch.tensor(0), torch.tensor(1.0)),
        r"`ids` must be of shape \(\.\.\., K\); it is a scalar",
    ),
    "weights a list": (lambda: soft(weights=[1.0]), r"`weights` must be a torch\.Tensor; it is a list"),
    "weights of integers": (
        lambda: soft(weights=IDS),
        r"`weights` must be a floating-point tensor; it is torch\.int64",
    ),
    "weights of another shape": (
        lambda: soft(weights=LOGPROBS[..., :1]),
        r"`weights` must be of the shape of `ids`, \(2, 3, 2\); it is \(2, 3, 1\)",
    ),
    "rows not in a tuple": (
        lambda: ss.SoftTarget(FIRST, ONES, Rows(TABLE, FIRST, ONES)),
        r"`rows` must be a tuple of Rows; it is a Rows",
    ),
    "rows of something else": (
        lambda: ss.SoftTarget(FIRST, ONES, (TABLE,)),
        r"`rows` must be a tuple of Rows; it is one with a DenseTable",
    ),
    "rows.index of floats": (
        lambda: pointing(ONES),
        r"`rows\.index` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "rows.weights of integers": (
        lambda: pointing(weights=FIRST),
        r"`rows\.weights` must be a floating-point tensor; it is torch\.int64",
    ),
    "rows for other positions": (
        lambda: pointing(FIRST[:1], ONES[:1]),
        r"`rows\.index` must be of shape \(2, J\), as `rows\.weights`; it is \(1, 1\)",
    ),
    "rows of unequal shapes": (
        lambda: pointing(FIRST, torch.ones(B, 2)),
        r"`rows\.index` must be of shape \(2, J\), as `rows\.weights`; it is \(2, 1\)",
    ),
    "rows beyond the table": (
        lambda: entropy(target=pointing(FIRST + 2)),
        r"`rows\.index` must be ids in \[0, 2\); it is 2 at its highest",
    ),
    "rows beyond a table of one": (
        lambda: entropy(target=pointing(FIRST + 1, table=ONE_ROW)),
        r"`rows\.index` must be ids in \[0, 1\); it is 1 at its highest",
    ),
    "rows beyond a sparse table": (
        lambda: entropy(target=pointing(FIRST + 2, table=SPARSE)),
        r"`rows\.index` must be ids in \[0, 2\); it is 2 at its highest",
    ),
    "from_labels a list": (
        lambda: ss.SoftTarget.from_labels([0]),
        r"`labels` must be a torch\.Tensor; it is a list",
    ),
    "from_labels of floats": (
        lambda: ss.SoftTarget.from_labels(LOGITS),
        r"`labels` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "from_dense of integers": (
        lambda: ss.SoftTarget.from_dense(TARGETS),
        r"`probabilities` must be a floating-point tensor; it is torch\.int64",
    ),
    "from_dense a scalar": (
        lambda: ss.SoftTarget.from_dense(torch.tensor(1.0)),
        r"`probabilities` must be of shape \(\.\.\., V\); it is a scalar",
    ),
    "from_dense a list": (
        lambda: ss.SoftTarget.from_dense([1.0]),
        r"`probabilities` must be a torch\.Tensor; it is a list",
    ),
    "from_topk ids of floats": (
        lambda: ss.SoftTarget.from_topk(LOGPROBS, LOGPROBS),
        r"`ids` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "from_topk a scalar": (
        lambda: ss.SoftTarget.from_topk(torch.tensor(0), torch.tensor(-1.0)),
        r"`ids` must be of shape \(\.\.\., K\); it is a scalar",
    ),
    "from_topk logprobs of integers": (
        lambda: ss.SoftTarget.from_topk(IDS, IDS),
        r"`logprobs` must be a floating-point tensor; it is torch\.int64",
    ),
    "from_topk logprobs of another shape": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS[:1]),
        r"`logprobs` must be of the shape of `ids`, \(2, 3, 2\); it is \(1, 3, 2\)",
    ),
    "from_topk probabilities": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS.exp()),
        r"`logprobs` must be logarithms of probabilities, of 1 at most in all; it is of 2\.89",
    ),
    "from_topk NaN": (
        lambda: ss.SoftTarget.from_topk(IDS, NAN * LOGPROBS),
        r"`logprobs` must be free of NaN; it is NaN somewhere",
    ),
    "from_topk tail unknown": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="rest"),
        r"`tail` must be one of 'zero', 'uniform', 'renormalise'; it is 'rest'",
    ),
    "from_topk tail without V": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform"),
        r"`vocab_size` must be given when `tail` is 'uniform'; it is None",
    ),
    "from_topk V 0": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform", vocab_size=0),
        r"`vocab_size` must be 1 or more; it is 0",
    ),
    "from_topk V -3": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform", vocab_size=-3),
        r"`vocab_size` must be 1 or more; it is -3",
    ),
    "from_topk V 1.5": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform", vocab_size=1.5),
        r"`vocab_size` must be a whole number; it is 1\.5",
    ),
    "from_topk ids beyond V": (
        lambda: ss.SoftTarget.from_topk(IDS + 5, LOGPROBS, tail="uniform", vocab_size=V),
        r"`ids` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "dense ids beyond V": (lambda: soft().dense(1), r"`target\.ids` must be ids in \[0, 1\); it is 1 at its highest"),
    "dense V of another table": (
        lambda: pointing().dense(3),
        r"`vocab_size` must be over the 6 tokens of the target; it is over 3",
    ),
    "dense V 0": (lambda: soft().dense(0), r"`vocab_size` must be 1 or more; it is 0"),
    "where of another shape": (
        lambda: soft().where(torch.ones(5, dtype=torch.bool)),
        r"`mask` must be of shape \(2, 3\), as the target; it is \(5,\)",
    ),
    "where of floats": (
        lambda: soft().where(torch.ones(B, T)),
        r"`mask` must be a mask \(torch\.bool\); it is torch\.float32",
    ),
    "where a list": (lambda: soft().where([True]), r"`mask` must be a torch\.Tensor; it is a list"),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(SoftTarget=SOFT_TARGET))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
