"""What the mistakes of this folder start from."""

from __future__ import annotations

import torch

import seqsmooth as ss
from mistakes.start import (
    COUNTS,
    LOGITS,
    LOGPROBS,
    REFERENCES,
    TARGETS,
    B,
    T,
    V,
    call,
    entropy,
    head,
    linear,
    on_own_prefixes,
    pointing,
    propose,
    scored,
    similarity,
    soft,
    teacher,
    zeros,
)


def test_what_these_mistakes_start_from_is_right() -> None:
    assert bool(call().total.isfinite())
    assert bool(head(bias=torch.zeros(V)).total.isfinite())
    assert bool(entropy().isfinite())
    assert bool(entropy(target=pointing()).isfinite())
    assert bool(linear(bias=torch.zeros(V), chunk=1).isfinite())
    assert propose(references=REFERENCES, generator=torch.Generator()).sequences.shape == (B, 1, T)
    assert scored(zeros).sequences.shape == (B, 1, T)
    assert bool(ss.Objective(token=teacher())(LOGITS, TARGETS).total.isfinite())
    assert bool(ss.Objective(token=similarity(beta=0.5, counts=COUNTS))(LOGITS, TARGETS).total.isfinite())
    own = on_own_prefixes()
    assert bool(own(torch.zeros(B, 3, T, V), own.propose(TARGETS)).total.isfinite())
    assert soft(weights=LOGPROBS.exp()).dense(V).shape == (B, T, V)
