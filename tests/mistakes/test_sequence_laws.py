"""Mistakes in sequence laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import seqsmooth as ss
from mistakes.start import (
    INF,
    LOGITS,
    NAN,
    POOLS,
    REFERENCES,
    TARGETS,
    B,
    Cases,
    D,
    T,
    V,
    assert_sentence,
    hamming,
    listed,
    propose,
    rewarded,
    scored,
    similarity,
    through,
)

HAMMING: Cases = {
    "tau -1": (lambda: ss.Hamming(tau=-1), r"`tau` must be greater than 0; it is -1"),
    "tau 0": (lambda: ss.Hamming(tau=0.0), r"`tau` must be greater than 0; it is 0"),
    "tau NaN": (lambda: ss.Hamming(tau=NAN), r"`tau` must be a number; it is nan"),
    "tau a word": (lambda: ss.Hamming(tau="1"), r"`tau` must be a number; it is '1'"),
    "tau True": (lambda: ss.Hamming(tau=True), r"`tau` must be a number; it is True"),
    "tau a tensor": (lambda: ss.Hamming(tau=torch.tensor(1.0)), r"`tau` must be a number; it is tensor"),
    "neither tau nor rate": (lambda: ss.Hamming(), r"`tau` must be given, or else `rate`, and not both; it is None"),
    "both tau and rate": (
        lambda: ss.Hamming(0.3, 0.1),
        r"`tau` must be given, or else `rate`, and not both; it is 0\.3",
    ),
    "rate 2": (lambda: ss.Hamming(rate=2), r"`rate` must be between 0 and 1; it is 2"),
    "rate -0.1": (lambda: ss.Hamming(rate=-0.1), r"`rate` must be between 0 and 1; it is -0\.1"),
    "rate NaN": (lambda: ss.Hamming(rate=NAN), r"`rate` must be a number; it is nan"),
    "alpha 1.5": (lambda: hamming(alpha=1.5), r"`alpha` must be between 0 and 1; it is 1\.5"),
    "alpha -1": (lambda: hamming(alpha=-1), r"`alpha` must be between 0 and 1; it is -1"),
    "alpha NaN": (lambda: hamming(alpha=NAN), r"`alpha` must be a number; it is nan"),
    "alpha None": (lambda: hamming(alpha=None), r"`alpha` must be a number; it is None"),
    "samples 0": (lambda: hamming(samples=0), r"`samples` must be 1 or more; it is 0"),
    "samples 1.5": (lambda: hamming(samples=1.5), r"`samples` must be a whole number; it is 1\.5"),
    "samples True": (lambda: hamming(samples=True), r"`samples` must be a whole number; it is True"),
    "integrate a word": (lambda: hamming(integrate="no"), r"`integrate` must be True or False; it is 'no'"),
    "pool unknown": (lambda: hamming(pool="words"), rf"`pool` must be one of {POOLS}; it is 'words'"),
    "pool None": (lambda: hamming(pool=None), rf"`pool` must be one of {POOLS}; it is None"),
    "pool a list": (lambda: hamming(pool=[1, 2]), rf"`pool` must be one of {POOLS}; it is \[1, 2\]"),
    "pool an array": (
        lambda: hamming(pool=np.arange(3)),
        rf"`pool` must be one of {POOLS}; it is array\(\[0, 1, 2\]\)",
    ),
    "pool of floats": (
        lambda: hamming(pool=torch.ones(3)),
        r"`pool` must be a tensor of whole numbers; it is torch\.float32",
    ),
    "pool a mask": (
        lambda: hamming(pool=torch.ones(V, dtype=torch.bool)),
        r"`pool` must be a tensor of whole numbers; it is torch\.bool",
    ),
    "pool a scalar": (
        lambda: hamming(pool=torch.tensor(3)),
        r"`pool` must be of shape \(P,\) or \(B, P\); it is \(\)",
    ),
    "pool of three dimensions": (
        lambda: hamming(pool=REFERENCES),
        r"`pool` must be of shape \(P,\) or \(B, P\); it is \(2, 1, 3\)",
    ),
    "pool of another batch": (
        lambda: propose(law=hamming(pool=torch.zeros(5, 2, dtype=torch.long))),
        r"`pool` must be of shape \(B, P\) = \(2, \*\); it is \(5, 2\)",
    ),
    "pool beyond the vocabulary": (
        lambda: propose(law=hamming(pool=torch.tensor([1, 6]))),
        r"`pool` must be ids in \[0, 6\); it is 6 at its highest",
    ),
    "pool refs without references": (
        lambda: propose(law=hamming(pool="refs")),
        r"`references` must be given when the pool is 'refs' \(`targets\.unsqueeze\(1\)` .*\); it is None",
    ),
    "pool refs with plain targets": (
        lambda: ss.Objective(hamming(pool="refs"))(LOGITS, TARGETS),
        r"`references` must be given when the pool is 'refs' \(.*\); it is None",
    ),
    "substitutes unknown": (
        lambda: hamming(substitutes="similar"),
        r"`substitutes` must be 'uniform' or a dense Similarity; it is 'similar'",
    ),
    "substitutes None": (
        lambda: hamming(substitutes=None),
        r"`substitutes` must be 'uniform' or a dense Similarity; it is None",
    ),
    "substitutes another law": (
        lambda: hamming(substitutes=ss.Uniform()),
        r"`substitutes` must be 'uniform' or a dense Similarity; it is Uniform\(",
    ),
    "substitutes sparse": (
        lambda: hamming(substitutes=similarity(mode="top-k", k=2)),
        r"`substitutes` must be 'uniform' or a dense Similarity; it is Similarity\(",
    ),
    "substitutes with a pool": (
        lambda: hamming(pool="batch", substitutes=similarity()),
        r"`pool` must be 'vocab' when `substitutes` is a token law; it is 'batch'",
    ),
    "substitutes with ids": (
        lambda: hamming(pool=torch.arange(3), substitutes=similarity()),
        r"`pool` must be 'vocab' when `substitutes` is a token law; it is 'a tensor'",
    ),
    "substitutes of another vocabulary": (
        lambda: ss.Objective(hamming(substitutes=similarity()), vocab_size=7),
        r"`vocab_size` must be that of Hamming, 6; it is 7",
    ),
    "substitutes beside another vocabulary": (
        lambda: ss.Objective(hamming(substitutes=similarity()), similarity(torch.randn(7, D))),
        r"`vocab_size` must be that of Similarity, 7; it is 6",
    ),
    "substitutes and other logits": (
        lambda: ss.Objective(hamming(substitutes=similarity()))(torch.zeros(B, T, 7), TARGETS),
        r"`logits` must be over 6 tokens; it is over 7",
    ),
    "no vocabulary": (
        lambda: ss.Objective(hamming()).propose(TARGETS),
        r"`vocab_size` must be given to the objective when nothing else tells it \(.*\); it is None",
    ),
    "pool beyond the logits": (
        lambda: through(ss.Objective(hamming(pool=torch.tensor([1, 6]))), LOGITS),
        r"`[\w.]+` must be .*6.*; it is 6",
    ),
    "references beyond the logits": (
        lambda: through(ss.Objective(hamming(pool="refs")), LOGITS, references=REFERENCES + 1),
        r"`[\w.]+` must be .*6.*; it is 6",
    ),
}
EDIT: Cases = {
    "tau -1": (lambda: ss.Edit(-1), r"`tau` must be greater than 0; it is -1"),
    "tau 0": (lambda: ss.Edit(0), r"`tau` must be greater than 0; it is 0"),
    "tau NaN": (lambda: ss.Edit(NAN), r"`tau` must be a number; it is nan"),
    "tau None": (lambda: ss.Edit(None), r"`tau` must be a number; it is None"),
    "alpha 1.5": (lambda: ss.Edit(1.0, alpha=1.5), r"`alpha` must be between 0 and 1; it is 1\.5"),
    "samples 0": (lambda: ss.Edit(1.0, samples=0), r"`samples` must be 1 or more; it is 0"),
    "samples None": (lambda: ss.Edit(1.0, samples=None), r"`samples` must be a whole number; it is None"),
    "pool unknown": (lambda: ss.Edit(1.0, pool="x"), rf"`pool` must be one of {POOLS}; it is 'x'"),
    "max_insertions -1": (lambda: ss.Edit(1.0, max_insertions=-1), r"`max_insertions` must be 0 or more; it is -1"),
    "max_insertions 1.5": (
        lambda: ss.Edit(1.0, max_insertions=1.5),
        r"`max_insertions` must be a whole number; it is 1\.5",
    ),
    "lazy": (
        lambda: ss.Objective(ss.Edit(1.0)),
        r"`lazy` must be False with Edit: its samples have lengths of their own; it is True",
    ),
    "lazy inside Rewarded": (
        lambda: ss.Objective(rewarded(proposal=ss.Edit(1.0))),
        r"`lazy` must be False with Edit: its samples have lengths of their own; it is True",
    ),
    "pool refs without references": (
        lambda: ss.Objective(ss.Edit(1.0, pool="refs"), lazy=False, vocab_size=V).propose(TARGETS),
        r"`references` must be given when the pool is 'refs' \(.*\); it is None",
    ),
    "no vocabulary": (
        lambda: ss.Objective(ss.Edit(1.0), lazy=False).propose(TARGETS),
        r"`vocab_size` must be given to the objective when nothing else tells it \(.*\); it is None",
    ),
    "pool beyond the vocabulary": (
        lambda: ss.Objective(ss.Edit(1.0, torch.tensor([7])), lazy=False, vocab_size=V).propose(TARGETS),
        r"`pool` must be ids in \[0, 6\); it is 7 at its highest",
    ),
}
REWARDED: Cases = {
    "reward a number": (lambda: rewarded(3), r"`reward` must be callable, as Bleu\(\); it is an int"),
    "reward a class": (
        lambda: rewarded(ss.rewards.Bleu),
        r"`reward` must be callable, as Bleu\(\); it is the class Bleu",
    ),
    "reward None": (lambda: rewarded(None), r"`reward` must be callable, as Bleu\(\); it is None"),
    "proposal without draws": (
        lambda: rewarded(proposal=ss.GroundTruth()),
        r"`proposal` must be a law with `draw`, such as Hamming\(tau=0\.3\); it is a GroundTruth",
    ),
    "proposal rewarded itself": (
        lambda: rewarded(proposal=rewarded()),
        r"`proposal` must be a law with `draw`, such as Hamming\(tau=0\.3\); it is a Rewarded",
    ),
    "proposal a class": (
        lambda: rewarded(proposal=ss.Hamming),
        r"`proposal` must be a law with `draw`, such as Hamming\(tau=0\.3\); it is the class Hamming",
    ),
    "proposal with alpha": (
        lambda: rewarded(proposal=hamming(alpha=0.5)),
        r"`proposal\.alpha` must be left at 1 \(the share goes to Rewarded\); it is 0\.5",
    ),
    "tau -1": (lambda: rewarded(tau=-1), r"`tau` must be greater than 0; it is -1"),
    "tau 0": (lambda: rewarded(tau=0), r"`tau` must be greater than 0; it is 0"),
    "tau NaN": (lambda: rewarded(tau=NAN), r"`tau` must be a number; it is nan"),
    "alpha 1.5": (lambda: rewarded(alpha=1.5), r"`alpha` must be between 0 and 1; it is 1\.5"),
    "samples 0": (lambda: rewarded(samples=0), r"`samples` must be 1 or more; it is 0"),
    "samples 0, batch": (lambda: rewarded(samples=0, weights="batch"), r"`samples` must be 1 or more; it is 0"),
    "samples None": (lambda: rewarded(samples=None), r"`samples` must be a whole number; it is None"),
    "samples 1, tilted": (
        lambda: rewarded(samples=1),
        r"`samples` must be 2 or more with weights='tilted' \(a single normalised weight is 1 .*\); it is 1",
    ),
    "samples 1, literal": (
        lambda: rewarded(samples=1, weights="literal"),
        r"`samples` must be 2 or more with weights='literal' \(.*\); it is 1",
    ),
    "weights unknown": (
        lambda: rewarded(weights="softmax"),
        r"`weights` must be one of 'tilted', 'literal', 'batch'; it is 'softmax'",
    ),
    "against unknown": (
        lambda: rewarded(against="truth"),
        r"`against` must be one of 'references', 'target'; it is 'truth'",
    ),
    "literal without a probability": (
        lambda: ss.Objective(
            rewarded(proposal=ss.Edit(1.0), weights="literal", against="target"), lazy=False, vocab_size=V
        ).propose(TARGETS),
        r"`proposal` must be a law that tells the probability of its draws, .*weights='literal'; it is an Edit",
    ),
    "no references": (
        lambda: propose(law=rewarded()),
        r"`references` must be given for a reward \(or say against='target' .*\); it is None",
    ),
    "no references with plain targets": (
        lambda: ss.Objective(rewarded())(LOGITS, TARGETS),
        r"`references` must be given for a reward \(or say against='target' .*\); it is None",
    ),
    "not a single reference": (
        lambda: propose(law=rewarded(ss.rewards.Hamming()), references=REFERENCES[:, :0]),
        r"`references` must be at least one a row; it is none",
    ),
    "result of another shape": (
        lambda: scored(lambda c, r: torch.zeros(B)),
        r"`reward's result` must be of shape \(B, L\) = \(2, 2\); it is \(2,\)",
    ),
    "result turned": (
        lambda: ss.Objective(rewarded(lambda c, r: torch.zeros(3, B), samples=3, against="target"))(LOGITS, TARGETS),
        r"`reward's result` must be of shape \(B, L\) = \(2, 3\); it is \(3, 2\)",
    ),
    "result a list": (
        lambda: scored(lambda c, r: [[0.0, 0.0]] * B),
        r"`reward's result` must be a torch\.Tensor; it is a list",
    ),
    "result None": (lambda: scored(lambda c, r: None), r"`reward's result` must be a torch\.Tensor; it is None"),
    "result NaN": (
        lambda: scored(lambda c, r: torch.tensor([[0.0, NAN], [0.0, 0.0]])),
        r"`reward's result` must be finite everywhere; it is NaN or infinite somewhere",
    ),
    "result infinite": (
        lambda: scored(lambda c, r: torch.full((B, 2), INF)),
        r"`reward's result` must be finite everywhere; it is NaN or infinite somewhere",
    ),
    "result minus infinity": (
        lambda: scored(lambda c, r: torch.full((B, 2), -INF)),
        r"`reward's result` must be finite everywhere; it is NaN or infinite somewhere",
    ),
    "result complex": (
        lambda: scored(lambda c, r: torch.zeros(B, 2, dtype=torch.complex64)),
        r"`reward's result` must be of real numbers; it is torch\.complex64",
    ),
}


@pytest.mark.parametrize(("mistake", "sentence"), listed(Hamming=HAMMING, Edit=EDIT, Rewarded=REWARDED))
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
