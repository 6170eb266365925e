"""Mistakes in token laws."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import seqsmooth as ss
from mistakes.start import (
    COUNTS,
    EMBEDDINGS,
    IDS,
    INF,
    LOGITS,
    LOGPROBS,
    NAN,
    TARGETS,
    B,
    Cases,
    D,
    T,
    V,
    assert_sentence,
    changed,
    hamming,
    listed,
    similarity,
    teacher,
)

SIMILARITY: Cases = {
    "embeddings a list": (lambda: similarity([[1.0]]), r"`embeddings` must be a torch\.Tensor; it is a list"),
    "embeddings a module": (
        lambda: similarity(torch.nn.Embedding(V, D)),
        r"`embeddings` must be a torch\.Tensor; it is an Embedding",
    ),
    "embeddings of integers": (
        lambda: similarity(torch.ones(V, D, dtype=torch.long)),
        r"`embeddings` must be a floating-point tensor; it is torch\.int64",
    ),
    "embeddings of one dimension": (
        lambda: similarity(torch.ones(V)),
        r"`embeddings` must be of shape \(V, D\); it is \(6,\)",
    ),
    "no tokens": (
        lambda: similarity(torch.zeros(0, D)),
        r"`embeddings` must be of one token and one dimension or more; it is \(0, 4\)",
    ),
    "no dimensions": (
        lambda: similarity(torch.zeros(V, 0)),
        r"`embeddings` must be of one token and one dimension or more; it is \(6, 0\)",
    ),
    "embeddings NaN": (
        lambda: similarity(changed(EMBEDDINGS, 2, NAN)),
        r"`embeddings` must be finite; it is NaN or infinite for token 2",
    ),
    "embeddings infinite": (
        lambda: similarity(changed(EMBEDDINGS, 5, INF)),
        r"`embeddings` must be finite; it is NaN or infinite for token 5",
    ),
    "embeddings NaN beside zeros": (
        lambda: similarity(changed(EMBEDDINGS, 3, NAN), missing="zeros"),
        r"`embeddings` must be finite; it is NaN or infinite for token 3",
    ),
    "embeddings zero": (
        lambda: similarity(changed(EMBEDDINGS, 4, 0.0)),
        r"`embeddings` must be of a norm greater than 0 \(list tokens .* in `missing`, or say missing='zeros'\); "
        r"it is all zeros for token 4",
    ),
    "tau -1": (lambda: similarity(tau=-1), r"`tau` must be greater than 0; it is -1"),
    "tau 0": (lambda: similarity(tau=0.0), r"`tau` must be greater than 0; it is 0"),
    "tau NaN": (lambda: similarity(tau=NAN), r"`tau` must be a number; it is nan"),
    "tau None": (lambda: similarity(tau=None), r"`tau` must be a number; it is None"),
    "alpha 1.5": (lambda: similarity(alpha=1.5), r"`alpha` must be between 0 and 1; it is 1\.5"),
    "beta -1": (lambda: similarity(beta=-1, counts=COUNTS), r"`beta` must be a finite number, 0 or more; it is -1"),
    "beta NaN": (lambda: similarity(beta=NAN, counts=COUNTS), r"`beta` must be a number; it is nan"),
    "beta infinite": (
        lambda: similarity(beta=INF, counts=COUNTS),
        r"`beta` must be a finite number, 0 or more; it is inf",
    ),
    "beta without counts": (
        lambda: similarity(beta=0.5),
        r"`counts` must be given when `beta` is greater than 0; it is None",
    ),
    "counts a list": (
        lambda: similarity(beta=0.5, counts=[1.0] * V),
        r"`counts` must be a torch\.Tensor; it is a list",
    ),
    "counts of another vocabulary": (
        lambda: similarity(beta=0.5, counts=torch.ones(7)),
        r"`counts` must be of shape \(V,\) = \(6,?\); it is \(7,\)",
    ),
    "counts of two dimensions": (
        lambda: similarity(counts=torch.ones(V, 1)),
        r"`counts` must be of shape \(V,\) = \(6,?\); it is \(6, 1\)",
    ),
    "counts negative": (
        lambda: similarity(counts=changed(COUNTS, 1, -1)),
        r"`counts` must be 0 or more everywhere; it is negative or NaN somewhere",
    ),
    "counts NaN": (
        lambda: similarity(counts=changed(COUNTS, 1, NAN)),
        r"`counts` must be 0 or more everywhere; it is negative or NaN somewhere",
    ),
    "counts infinite": (
        lambda: similarity(counts=changed(COUNTS, 1, INF)),
        r"`counts` must be finite everywhere; it is infinite somewhere",
    ),
    "counts complex": (
        lambda: similarity(counts=COUNTS.to(torch.complex64)),
        r"`counts` must be of real numbers; it is torch\.complex64",
    ),
    "mode unknown": (
        lambda: similarity(mode="sparse"),
        r"`mode` must be one of 'dense', 'sampled', 'top-k'; it is 'sparse'",
    ),
    "tail unknown": (
        lambda: similarity(mode="top-k", k=2, tail="uniform"),
        r"`tail` must be one of 'renormalise', 'zero'; it is 'uniform'",
    ),
    "k without mode": (lambda: similarity(k=2), r"`k` must be left out with mode='dense'; it is 2"),
    "top-k without k": (lambda: similarity(mode="top-k"), r"`k` must be given with mode='top-k'; it is None"),
    "sampled without k": (lambda: similarity(mode="sampled"), r"`k` must be given with mode='sampled'; it is None"),
    "k 0": (lambda: similarity(mode="top-k", k=0), r"`k` must be 1 or more; it is 0"),
    "k 1.5": (lambda: similarity(mode="sampled", k=1.5), r"`k` must be a whole number; it is 1\.5"),
    "k above V": (lambda: similarity(mode="top-k", k=7), r"`k` must be at most V = 6; it is 7"),
    "missing unknown": (lambda: similarity(missing="zero"), r"`missing` must be one of 'zeros'; it is 'zero'"),
    "missing beyond": (lambda: similarity(missing=[6]), r"`missing` must be ids below V = 6; it is 6"),
    "missing negative": (lambda: similarity(missing=(-1,)), r"`missing` must be 0 or more; it is -1"),
    "missing of floats": (lambda: similarity(missing=[1.5]), r"`missing` must be a whole number; it is 1\.5"),
    "missing a number": (
        lambda: similarity(missing=3),
        r"`missing` must be a sequence of ids, a mask, or 'zeros'; it is 3",
    ),
    "missing None": (
        lambda: similarity(missing=None),
        r"`missing` must be a sequence of ids, a mask, or 'zeros'; it is None",
    ),
    "missing mask of another vocabulary": (
        lambda: similarity(missing=torch.zeros(7, dtype=torch.bool)),
        r"`missing` must be of shape \(V,\) = \(6,?\); it is \(7,\)",
    ),
    "missing a tensor of floats": (
        lambda: similarity(missing=torch.zeros(V)),
        r"`missing` must be a mask \(torch\.bool\) when it is a tensor; it is torch\.float32",
    ),
    "stored a word": (lambda: similarity(stored="yes"), r"`stored` must be True, False or torch.float16; it is 'yes'"),
    "half a list": (
        lambda: similarity(stored=torch.float16, mode="top-k", k=2),
        r"`stored` must be True or False with mode='top-k'; it is torch.float16",
    ),
    "rows of a list": (lambda: similarity().rows([1]), r"`tokens` must be a torch\.Tensor; it is a list"),
    "rows of floats": (
        lambda: similarity().rows(torch.ones(1)),
        r"`tokens` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "rows beyond": (
        lambda: similarity().rows(torch.tensor([6])),
        r"`tokens` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "rows negative": (
        lambda: similarity().rows(torch.tensor([-1])),
        r"`tokens` must be ids in \[0, 6\); it is -1 at its lowest",
    ),
}
TEACHER: Cases = {
    "ids a list": (lambda: teacher([[[0]]]), r"`ids` must be a torch\.Tensor; it is a list"),
    "ids of two dimensions": (
        lambda: teacher(IDS[0], LOGPROBS[0]),
        r"`ids` must be of shape \(B, T, K\); it is \(3, 2\)",
    ),
    "ids of floats": (lambda: teacher(LOGPROBS), r"`ids` must be a tensor of whole numbers; it is torch\.float32"),
    "logprobs a list": (lambda: teacher(logprobs=[0.0]), r"`logprobs` must be a torch\.Tensor; it is a list"),
    "logprobs of integers": (
        lambda: teacher(logprobs=IDS),
        r"`logprobs` must be a floating-point tensor; it is torch\.int64",
    ),
    "logprobs of another shape": (
        lambda: teacher(logprobs=LOGPROBS[..., :1]),
        r"`logprobs` must be of the shape of `ids`, \(2, 3, 2\); it is \(2, 3, 1\)",
    ),
    "logprobs positive": (
        lambda: teacher(logprobs=-LOGPROBS),
        r"`logprobs` must be logarithms of probabilities, of 1 at most in all; it is of 5\.44",
    ),
    "logprobs NaN": (
        lambda: teacher(logprobs=NAN * LOGPROBS),
        r"`logprobs` must be free of NaN; it is NaN somewhere",
    ),
    "tail unknown": (
        lambda: teacher(tail="rest"),
        r"`tail` must be one of 'zero', 'uniform', 'renormalise'; it is 'rest'",
    ),
    "alpha 1.5": (lambda: teacher(alpha=1.5), r"`alpha` must be between 0 and 1; it is 1\.5"),
    "not lazy with Hamming": (
        lambda: ss.Objective(hamming(), teacher(), lazy=False),
        r"`lazy` must be True with Teacher, which knows the ground truth's prefix only; it is False",
    ),
    "not lazy with Edit": (
        lambda: ss.Objective(ss.Edit(1.0), teacher(), lazy=False),
        r"`lazy` must be True with Teacher, which knows the ground truth's prefix only; it is False",
    ),
    "targets longer": (
        lambda: ss.Objective(token=teacher())(torch.zeros(B, 4, V), torch.zeros(B, 4, dtype=torch.long)),
        r"`targets` must be of shape \(B, T\) = \(2, 3\), as the teacher's `ids`; it is \(2, 4\)",
    ),
    "targets of another batch": (
        lambda: ss.Objective(token=teacher()).propose(torch.zeros(5, T, dtype=torch.long)),
        r"`targets` must be of shape \(B, T\) = \(2, 3\), as the teacher's `ids`; it is \(5, 3\)",
    ),
    "ids beyond the vocabulary": (
        lambda: ss.Objective(token=teacher(IDS + 5))(LOGITS, TARGETS),
        r"`ids` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "ids negative": (
        lambda: teacher(IDS - 1),
        r"`ids` must be 0 or more where there is a log-probability; it is -1",
    ),
    "a tail without a vocabulary": (
        lambda: ss.Objective(token=teacher(tail="uniform")).propose(TARGETS),
        r"`vocab_size` must be given when `tail` is 'uniform'; it is None",
    ),
}
UNIFORM: Cases = {
    "alpha 1.5": (lambda: ss.Uniform(1.5), r"`alpha` must be between 0 and 1; it is 1\.5"),
    "alpha -1": (lambda: ss.Uniform(-1), r"`alpha` must be between 0 and 1; it is -1"),
    "alpha NaN": (lambda: ss.Uniform(NAN), r"`alpha` must be a number; it is nan"),
    "alpha a word": (lambda: ss.Uniform("0.1"), r"`alpha` must be a number; it is '0\.1'"),
    "no vocabulary": (
        lambda: ss.Objective(token=ss.Uniform()).propose(TARGETS),
        r"`vocab_size` must be given to the objective when nothing else tells it \(.*\); it is None",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(Similarity=SIMILARITY, Teacher=TEACHER, Uniform=UNIFORM))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
