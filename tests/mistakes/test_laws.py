"""Mistakes in laws and special tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
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
    NAMES,
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
    changed,
    hamming,
    listed,
    propose,
    rewarded,
    scored,
    similarity,
    teacher,
    through,
)

SPECIALS: Cases = {
    "pad -1": (lambda: ss.Specials(pad=-1), r"`pad` must be 0 or more, but is -1"),
    "bos 1.5": (lambda: ss.Specials(bos=1.5), r"`bos` must be a whole number, but is 1\.5"),
    "eos a word": (lambda: ss.Specials(eos="</s>"), r"`eos` must be a whole number, but is '</s>'"),
    "unk True": (lambda: ss.Specials(unk=True), r"`unk` must be a whole number, but is True"),
    "pad a tensor": (lambda: ss.Specials(pad=torch.tensor(0)), r"`pad` must be a whole number, but is tensor\(0\)"),
    "frozen unknown": (lambda: ss.Specials(frozen=("end",)), rf"`frozen` must be one of {NAMES}, but is 'end'"),
    "undrawn an id": (lambda: ss.Specials(undrawn=(1,)), rf"`undrawn` must be one of {NAMES}, but is 1"),
    "unsmoothed unknown": (lambda: ss.Specials(unsmoothed=("x",)), rf"`unsmoothed` must be one of {NAMES}, but is 'x'"),
    "frozen None": (lambda: ss.Specials(frozen=None), r"`frozen` must be a tuple of names, but is None"),
    "frozen a number": (lambda: ss.Specials(frozen=2), r"`frozen` must be a tuple of names, but is 2"),
    "frozen one word": (lambda: ss.Specials(eos=1, frozen="eos"), r"`frozen` must be a tuple of names, but is 'eos'"),
    "beyond the vocabulary": (
        lambda: ss.Objective(specials=ss.Specials(eos=6), vocab_size=V),
        r"`eos` must be an id below 6, but is 6",
    ),
    "beyond the embeddings": (
        lambda: ss.Objective(token=similarity(), specials=ss.Specials(bos=9)),
        r"`bos` must be an id below 6, but is 9",
    ),
    "beyond the logits": (
        lambda: ss.Objective(specials=ss.Specials(pad=9))(LOGITS, TARGETS),
        r"`pad` must be an id below 6, but is 9",
    ),
    "beyond the substitutes": (
        lambda: ss.Objective(hamming(substitutes=similarity()), specials=ss.Specials(eos=9)),
        r"`eos` must be an id below 6, but is 9",
    ),
}

HAMMING: Cases = {
    "tau -1": (lambda: ss.Hamming(tau=-1), r"`tau` must be greater than 0, but is -1"),
    "tau 0": (lambda: ss.Hamming(tau=0.0), r"`tau` must be greater than 0, but is 0"),
    "tau NaN": (lambda: ss.Hamming(tau=NAN), r"`tau` must be a number, but is nan"),
    "tau a word": (lambda: ss.Hamming(tau="1"), r"`tau` must be a number, but is '1'"),
    "tau True": (lambda: ss.Hamming(tau=True), r"`tau` must be a number, but is True"),
    "tau a tensor": (lambda: ss.Hamming(tau=torch.tensor(1.0)), r"`tau` must be a number, but is tensor"),
    "neither tau nor rate": (lambda: ss.Hamming(), r"`tau` must be given, or else `rate`, and not both, but is None"),
    "both tau and rate": (
        lambda: ss.Hamming(0.3, 0.1),
        r"`tau` must be given, or else `rate`, and not both, but is 0\.3",
    ),
    "rate 2": (lambda: ss.Hamming(rate=2), r"`rate` must be between 0 and 1, but is 2"),
    "rate -0.1": (lambda: ss.Hamming(rate=-0.1), r"`rate` must be between 0 and 1, but is -0\.1"),
    "rate NaN": (lambda: ss.Hamming(rate=NAN), r"`rate` must be a number, but is nan"),
    "alpha 1.5": (lambda: hamming(alpha=1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "alpha -1": (lambda: hamming(alpha=-1), r"`alpha` must be between 0 and 1, but is -1"),
    "alpha NaN": (lambda: hamming(alpha=NAN), r"`alpha` must be a number, but is nan"),
    "alpha None": (lambda: hamming(alpha=None), r"`alpha` must be a number, but is None"),
    "samples 0": (lambda: hamming(samples=0), r"`samples` must be 1 or more, but is 0"),
    "samples 1.5": (lambda: hamming(samples=1.5), r"`samples` must be a whole number, but is 1\.5"),
    "samples True": (lambda: hamming(samples=True), r"`samples` must be a whole number, but is True"),
    "integrate a word": (lambda: hamming(integrate="no"), r"`integrate` must be True or False, but is 'no'"),
    "pool unknown": (lambda: hamming(pool="words"), rf"`pool` must be one of {POOLS}, but is 'words'"),
    "pool None": (lambda: hamming(pool=None), rf"`pool` must be one of {POOLS}, but is None"),
    "pool a list": (lambda: hamming(pool=[1, 2]), rf"`pool` must be one of {POOLS}, but is \[1, 2\]"),
    "pool an array": (
        lambda: hamming(pool=np.arange(3)),
        rf"`pool` must be one of {POOLS}, but is array\(\[0, 1, 2\]\)",
    ),
    "pool of floats": (
        lambda: hamming(pool=torch.ones(3)),
        r"`pool` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "pool a mask": (
        lambda: hamming(pool=torch.ones(V, dtype=torch.bool)),
        r"`pool` must be a tensor of whole numbers, but is torch\.bool",
    ),
    "pool a scalar": (
        lambda: hamming(pool=torch.tensor(3)),
        r"`pool` must be of shape \(P,\) or \(B, P\), but is \(\)",
    ),
    "pool of three dimensions": (
        lambda: hamming(pool=REFERENCES),
        r"`pool` must be of shape \(P,\) or \(B, P\), but is \(2, 1, 3\)",
    ),
    "pool of another batch": (
        lambda: propose(law=hamming(pool=torch.zeros(5, 2, dtype=torch.long))),
        r"`pool` must be of shape \(B, P\) = \(2, \*\), but is \(5, 2\)",
    ),
    "pool beyond the vocabulary": (
        lambda: propose(law=hamming(pool=torch.tensor([1, 6]))),
        r"`pool` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "pool refs without references": (
        lambda: propose(law=hamming(pool="refs")),
        r"`references` must be given when the pool is 'refs' \(`targets\.unsqueeze\(1\)` .*\), but is None",
    ),
    "pool refs with plain targets": (
        lambda: ss.Objective(hamming(pool="refs"))(LOGITS, TARGETS),
        r"`references` must be given when the pool is 'refs' \(.*\), but is None",
    ),
    "substitutes unknown": (
        lambda: hamming(substitutes="similar"),
        r"`substitutes` must be 'uniform' or a dense Similarity, but is 'similar'",
    ),
    "substitutes None": (
        lambda: hamming(substitutes=None),
        r"`substitutes` must be 'uniform' or a dense Similarity, but is None",
    ),
    "substitutes another law": (
        lambda: hamming(substitutes=ss.Uniform()),
        r"`substitutes` must be 'uniform' or a dense Similarity, but is Uniform\(",
    ),
    "substitutes sparse": (
        lambda: hamming(substitutes=similarity(mode="top-k", k=2)),
        r"`substitutes` must be 'uniform' or a dense Similarity, but is Similarity\(",
    ),
    "substitutes with a pool": (
        lambda: hamming(pool="batch", substitutes=similarity()),
        r"`pool` must be 'vocab' when `substitutes` is a token law, but is 'batch'",
    ),
    "substitutes with ids": (
        lambda: hamming(pool=torch.arange(3), substitutes=similarity()),
        r"`pool` must be 'vocab' when `substitutes` is a token law, but is 'a tensor'",
    ),
    "substitutes of another vocabulary": (
        lambda: ss.Objective(hamming(substitutes=similarity()), vocab_size=7),
        r"`vocab_size` must be that of Hamming, 6, but is 7",
    ),
    "substitutes beside another vocabulary": (
        lambda: ss.Objective(hamming(substitutes=similarity()), similarity(torch.randn(7, D))),
        r"`vocab_size` must be that of Similarity, 7, but is 6",
    ),
    "substitutes and other logits": (
        lambda: ss.Objective(hamming(substitutes=similarity()))(torch.zeros(B, T, 7), TARGETS),
        r"`logits` must be over 6 tokens, but is over 7",
    ),
    "no vocabulary": (
        lambda: ss.Objective(hamming()).propose(TARGETS),
        r"`vocab_size` must be given to the objective when nothing else tells it \(.*\), but is None",
    ),
    "pool beyond the logits": (
        lambda: through(ss.Objective(hamming(pool=torch.tensor([1, 6]))), LOGITS),
        r"`[\w.]+` must be .*6.*, but is 6",
    ),
    "references beyond the logits": (
        lambda: through(ss.Objective(hamming(pool="refs")), LOGITS, references=REFERENCES + 1),
        r"`[\w.]+` must be .*6.*, but is 6",
    ),
}

EDIT: Cases = {
    "tau -1": (lambda: ss.Edit(-1), r"`tau` must be greater than 0, but is -1"),
    "tau 0": (lambda: ss.Edit(0), r"`tau` must be greater than 0, but is 0"),
    "tau NaN": (lambda: ss.Edit(NAN), r"`tau` must be a number, but is nan"),
    "tau None": (lambda: ss.Edit(None), r"`tau` must be a number, but is None"),
    "alpha 1.5": (lambda: ss.Edit(1.0, alpha=1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "samples 0": (lambda: ss.Edit(1.0, samples=0), r"`samples` must be 1 or more, but is 0"),
    "samples None": (lambda: ss.Edit(1.0, samples=None), r"`samples` must be a whole number, but is None"),
    "pool unknown": (lambda: ss.Edit(1.0, pool="x"), rf"`pool` must be one of {POOLS}, but is 'x'"),
    "max_insertions -1": (lambda: ss.Edit(1.0, max_insertions=-1), r"`max_insertions` must be 0 or more, but is -1"),
    "max_insertions 1.5": (
        lambda: ss.Edit(1.0, max_insertions=1.5),
        r"`max_insertions` must be a whole number, but is 1\.5",
    ),
    "lazy": (
        lambda: ss.Objective(ss.Edit(1.0)),
        r"`lazy` must be False with Edit: its samples have lengths of their own, but is True",
    ),
    "lazy inside Rewarded": (
        lambda: ss.Objective(rewarded(proposal=ss.Edit(1.0))),
        r"`lazy` must be False with Edit: its samples have lengths of their own, but is True",
    ),
    "pool refs without references": (
        lambda: ss.Objective(ss.Edit(1.0, pool="refs"), lazy=False, vocab_size=V).propose(TARGETS),
        r"`references` must be given when the pool is 'refs' \(.*\), but is None",
    ),
    "no vocabulary": (
        lambda: ss.Objective(ss.Edit(1.0), lazy=False).propose(TARGETS),
        r"`vocab_size` must be given to the objective when nothing else tells it \(.*\), but is None",
    ),
    "pool beyond the vocabulary": (
        lambda: ss.Objective(ss.Edit(1.0, torch.tensor([7])), lazy=False, vocab_size=V).propose(TARGETS),
        r"`pool` must be ids in \[0, 6\), but is 7 at its highest",
    ),
}

REWARDED: Cases = {
    "reward a number": (lambda: rewarded(3), r"`reward` must be callable, as Bleu\(\), but is an int"),
    "reward a class": (
        lambda: rewarded(ss.rewards.Bleu),
        r"`reward` must be callable, as Bleu\(\), but is the class Bleu",
    ),
    "reward None": (lambda: rewarded(None), r"`reward` must be callable, as Bleu\(\), but is None"),
    "proposal without draws": (
        lambda: rewarded(proposal=ss.GroundTruth()),
        r"`proposal` must be a law with `draw`, such as Hamming\(tau=0\.3\), but is a GroundTruth",
    ),
    "proposal rewarded itself": (
        lambda: rewarded(proposal=rewarded()),
        r"`proposal` must be a law with `draw`, such as Hamming\(tau=0\.3\), but is a Rewarded",
    ),
    "proposal a class": (
        lambda: rewarded(proposal=ss.Hamming),
        r"`proposal` must be a law with `draw`, such as Hamming\(tau=0\.3\), but is the class Hamming",
    ),
    "proposal with alpha": (
        lambda: rewarded(proposal=hamming(alpha=0.5)),
        r"`proposal\.alpha` must be left at 1 \(the share goes to Rewarded\), but is 0\.5",
    ),
    "tau -1": (lambda: rewarded(tau=-1), r"`tau` must be greater than 0, but is -1"),
    "tau 0": (lambda: rewarded(tau=0), r"`tau` must be greater than 0, but is 0"),
    "tau NaN": (lambda: rewarded(tau=NAN), r"`tau` must be a number, but is nan"),
    "alpha 1.5": (lambda: rewarded(alpha=1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "samples 0": (lambda: rewarded(samples=0), r"`samples` must be 1 or more, but is 0"),
    "samples 0, batch": (lambda: rewarded(samples=0, weights="batch"), r"`samples` must be 1 or more, but is 0"),
    "samples None": (lambda: rewarded(samples=None), r"`samples` must be a whole number, but is None"),
    "samples 1, tilted": (
        lambda: rewarded(samples=1),
        r"`samples` must be 2 or more with weights='tilted' \(a single normalised weight is 1 .*\), but is 1",
    ),
    "samples 1, literal": (
        lambda: rewarded(samples=1, weights="literal"),
        r"`samples` must be 2 or more with weights='literal' \(.*\), but is 1",
    ),
    "weights unknown": (
        lambda: rewarded(weights="softmax"),
        r"`weights` must be one of 'tilted', 'literal', 'batch', but is 'softmax'",
    ),
    "against unknown": (
        lambda: rewarded(against="truth"),
        r"`against` must be one of 'references', 'target', but is 'truth'",
    ),
    "literal without a probability": (
        lambda: ss.Objective(
            rewarded(proposal=ss.Edit(1.0), weights="literal", against="target"), lazy=False, vocab_size=V
        ).propose(TARGETS),
        r"`proposal` must be a law that tells the probability of its draws, .*weights='literal', but is an Edit",
    ),
    "no references": (
        lambda: propose(law=rewarded()),
        r"`references` must be given for a reward \(or say against='target' .*\), but is None",
    ),
    "no references with plain targets": (
        lambda: ss.Objective(rewarded())(LOGITS, TARGETS),
        r"`references` must be given for a reward \(or say against='target' .*\), but is None",
    ),
    "not a single reference": (
        lambda: propose(law=rewarded(ss.rewards.Hamming()), references=REFERENCES[:, :0]),
        r"`references` must be at least one a row, but is none",
    ),
    "result of another shape": (
        lambda: scored(lambda c, r: torch.zeros(B)),
        r"`reward's result` must be of shape \(B, L\) = \(2, 2\), but is \(2,\)",
    ),
    "result turned": (
        lambda: ss.Objective(rewarded(lambda c, r: torch.zeros(3, B), samples=3, against="target"))(LOGITS, TARGETS),
        r"`reward's result` must be of shape \(B, L\) = \(2, 3\), but is \(3, 2\)",
    ),
    "result a list": (
        lambda: scored(lambda c, r: [[0.0, 0.0]] * B),
        r"`reward's result` must be a torch\.Tensor, but is a list",
    ),
    "result None": (lambda: scored(lambda c, r: None), r"`reward's result` must be a torch\.Tensor, but is None"),
    "result NaN": (
        lambda: scored(lambda c, r: torch.tensor([[0.0, NAN], [0.0, 0.0]])),
        r"`reward's result` must be finite everywhere, but is NaN or infinite somewhere",
    ),
    "result infinite": (
        lambda: scored(lambda c, r: torch.full((B, 2), INF)),
        r"`reward's result` must be finite everywhere, but is NaN or infinite somewhere",
    ),
    "result minus infinity": (
        lambda: scored(lambda c, r: torch.full((B, 2), -INF)),
        r"`reward's result` must be finite everywhere, but is NaN or infinite somewhere",
    ),
    "result complex": (
        lambda: scored(lambda c, r: torch.zeros(B, 2, dtype=torch.complex64)),
        r"`reward's result` must be of real numbers, but is torch\.complex64",
    ),
}

SIMILARITY: Cases = {
    "embeddings a list": (lambda: similarity([[1.0]]), r"`embeddings` must be a torch\.Tensor, but is a list"),
    "embeddings a module": (
        lambda: similarity(torch.nn.Embedding(V, D)),
        r"`embeddings` must be a torch\.Tensor, but is an Embedding",
    ),
    "embeddings of integers": (
        lambda: similarity(torch.ones(V, D, dtype=torch.long)),
        r"`embeddings` must be a floating-point tensor, but is torch\.int64",
    ),
    "embeddings of one dimension": (
        lambda: similarity(torch.ones(V)),
        r"`embeddings` must be of shape \(V, D\), but is \(6,\)",
    ),
    "no tokens": (
        lambda: similarity(torch.zeros(0, D)),
        r"`embeddings` must be of one token and one dimension or more, but is \(0, 4\)",
    ),
    "no dimensions": (
        lambda: similarity(torch.zeros(V, 0)),
        r"`embeddings` must be of one token and one dimension or more, but is \(6, 0\)",
    ),
    "embeddings NaN": (
        lambda: similarity(changed(EMBEDDINGS, 2, NAN)),
        r"`embeddings` must be finite, but is NaN or infinite for token 2",
    ),
    "embeddings infinite": (
        lambda: similarity(changed(EMBEDDINGS, 5, INF)),
        r"`embeddings` must be finite, but is NaN or infinite for token 5",
    ),
    "embeddings NaN beside zeros": (
        lambda: similarity(changed(EMBEDDINGS, 3, NAN), missing="zeros"),
        r"`embeddings` must be finite, but is NaN or infinite for token 3",
    ),
    "embeddings zero": (
        lambda: similarity(changed(EMBEDDINGS, 4, 0.0)),
        r"`embeddings` must be of a norm greater than 0 \(list tokens .* in `missing`, or say missing='zeros'\), "
        r"but is all zeros for token 4",
    ),
    "tau -1": (lambda: similarity(tau=-1), r"`tau` must be greater than 0, but is -1"),
    "tau 0": (lambda: similarity(tau=0.0), r"`tau` must be greater than 0, but is 0"),
    "tau NaN": (lambda: similarity(tau=NAN), r"`tau` must be a number, but is nan"),
    "tau None": (lambda: similarity(tau=None), r"`tau` must be a number, but is None"),
    "alpha 1.5": (lambda: similarity(alpha=1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "beta -1": (lambda: similarity(beta=-1, counts=COUNTS), r"`beta` must be a finite number, 0 or more, but is -1"),
    "beta NaN": (lambda: similarity(beta=NAN, counts=COUNTS), r"`beta` must be a number, but is nan"),
    "beta infinite": (
        lambda: similarity(beta=INF, counts=COUNTS),
        r"`beta` must be a finite number, 0 or more, but is inf",
    ),
    "beta without counts": (
        lambda: similarity(beta=0.5),
        r"`counts` must be given when `beta` is greater than 0, but is None",
    ),
    "counts a list": (
        lambda: similarity(beta=0.5, counts=[1.0] * V),
        r"`counts` must be a torch\.Tensor, but is a list",
    ),
    "counts of another vocabulary": (
        lambda: similarity(beta=0.5, counts=torch.ones(7)),
        r"`counts` must be of shape \(V,\) = \(6,?\), but is \(7,\)",
    ),
    "counts of two dimensions": (
        lambda: similarity(counts=torch.ones(V, 1)),
        r"`counts` must be of shape \(V,\) = \(6,?\), but is \(6, 1\)",
    ),
    "counts negative": (
        lambda: similarity(counts=changed(COUNTS, 1, -1)),
        r"`counts` must be 0 or more everywhere, but is negative or NaN somewhere",
    ),
    "counts NaN": (
        lambda: similarity(counts=changed(COUNTS, 1, NAN)),
        r"`counts` must be 0 or more everywhere, but is negative or NaN somewhere",
    ),
    "counts infinite": (
        lambda: similarity(counts=changed(COUNTS, 1, INF)),
        r"`counts` must be finite everywhere, but is infinite somewhere",
    ),
    "counts complex": (
        lambda: similarity(counts=COUNTS.to(torch.complex64)),
        r"`counts` must be of real numbers, but is torch\.complex64",
    ),
    "mode unknown": (
        lambda: similarity(mode="sparse"),
        r"`mode` must be one of 'dense', 'sampled', 'top-k', but is 'sparse'",
    ),
    "tail unknown": (
        lambda: similarity(mode="top-k", k=2, tail="uniform"),
        r"`tail` must be one of 'renormalise', 'zero', but is 'uniform'",
    ),
    "k without mode": (lambda: similarity(k=2), r"`k` must be left out with mode='dense', but is 2"),
    "top-k without k": (lambda: similarity(mode="top-k"), r"`k` must be given with mode='top-k', but is None"),
    "sampled without k": (lambda: similarity(mode="sampled"), r"`k` must be given with mode='sampled', but is None"),
    "k 0": (lambda: similarity(mode="top-k", k=0), r"`k` must be 1 or more, but is 0"),
    "k 1.5": (lambda: similarity(mode="sampled", k=1.5), r"`k` must be a whole number, but is 1\.5"),
    "k above V": (lambda: similarity(mode="top-k", k=7), r"`k` must be at most V = 6, but is 7"),
    "missing unknown": (lambda: similarity(missing="zero"), r"`missing` must be one of 'zeros', but is 'zero'"),
    "missing beyond": (lambda: similarity(missing=[6]), r"`missing` must be ids below V = 6, but is 6"),
    "missing negative": (lambda: similarity(missing=(-1,)), r"`missing` must be 0 or more, but is -1"),
    "missing of floats": (lambda: similarity(missing=[1.5]), r"`missing` must be a whole number, but is 1\.5"),
    "missing a number": (
        lambda: similarity(missing=3),
        r"`missing` must be a sequence of ids, a mask, or 'zeros', but is 3",
    ),
    "missing None": (
        lambda: similarity(missing=None),
        r"`missing` must be a sequence of ids, a mask, or 'zeros', but is None",
    ),
    "missing mask of another vocabulary": (
        lambda: similarity(missing=torch.zeros(7, dtype=torch.bool)),
        r"`missing` must be of shape \(V,\) = \(6,?\), but is \(7,\)",
    ),
    "missing a tensor of floats": (
        lambda: similarity(missing=torch.zeros(V)),
        r"`missing` must be a mask \(torch\.bool\) when it is a tensor, but is torch\.float32",
    ),
    "stored a word": (lambda: similarity(stored="yes"), r"`stored` must be True, False or torch.float16, but is 'yes'"),
    "half a list": (
        lambda: similarity(stored=torch.float16, mode="top-k", k=2),
        r"`stored` must be True or False with mode='top-k', but is torch.float16",
    ),
    "rows of a list": (lambda: similarity().rows([1]), r"`tokens` must be a torch\.Tensor, but is a list"),
    "rows of floats": (
        lambda: similarity().rows(torch.ones(1)),
        r"`tokens` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "rows beyond": (
        lambda: similarity().rows(torch.tensor([6])),
        r"`tokens` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "rows negative": (
        lambda: similarity().rows(torch.tensor([-1])),
        r"`tokens` must be ids in \[0, 6\), but is -1 at its lowest",
    ),
}

TEACHER: Cases = {
    "ids a list": (lambda: teacher([[[0]]]), r"`ids` must be a torch\.Tensor, but is a list"),
    "ids of two dimensions": (
        lambda: teacher(IDS[0], LOGPROBS[0]),
        r"`ids` must be of shape \(B, T, K\), but is \(3, 2\)",
    ),
    "ids of floats": (lambda: teacher(LOGPROBS), r"`ids` must be a tensor of whole numbers, but is torch\.float32"),
    "logprobs a list": (lambda: teacher(logprobs=[0.0]), r"`logprobs` must be a torch\.Tensor, but is a list"),
    "logprobs of integers": (
        lambda: teacher(logprobs=IDS),
        r"`logprobs` must be a floating-point tensor, but is torch\.int64",
    ),
    "logprobs of another shape": (
        lambda: teacher(logprobs=LOGPROBS[..., :1]),
        r"`logprobs` must be of the shape of `ids`, \(2, 3, 2\), but is \(2, 3, 1\)",
    ),
    "logprobs positive": (
        lambda: teacher(logprobs=-LOGPROBS),
        r"`logprobs` must be logarithms of probabilities, of 1 at most in all, but is of 5\.44",
    ),
    "logprobs NaN": (
        lambda: teacher(logprobs=NAN * LOGPROBS),
        r"`logprobs` must be free of NaN, but is NaN somewhere",
    ),
    "tail unknown": (
        lambda: teacher(tail="rest"),
        r"`tail` must be one of 'zero', 'uniform', 'renormalise', but is 'rest'",
    ),
    "alpha 1.5": (lambda: teacher(alpha=1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "not lazy with Hamming": (
        lambda: ss.Objective(hamming(), teacher(), lazy=False),
        r"`lazy` must be True with Teacher, which knows the ground truth's prefix only, but is False",
    ),
    "not lazy with Edit": (
        lambda: ss.Objective(ss.Edit(1.0), teacher(), lazy=False),
        r"`lazy` must be True with Teacher, which knows the ground truth's prefix only, but is False",
    ),
    "targets longer": (
        lambda: ss.Objective(token=teacher())(torch.zeros(B, 4, V), torch.zeros(B, 4, dtype=torch.long)),
        r"`targets` must be of shape \(B, T\) = \(2, 3\), as the teacher's `ids`, but is \(2, 4\)",
    ),
    "targets of another batch": (
        lambda: ss.Objective(token=teacher()).propose(torch.zeros(5, T, dtype=torch.long)),
        r"`targets` must be of shape \(B, T\) = \(2, 3\), as the teacher's `ids`, but is \(5, 3\)",
    ),
    "ids beyond the vocabulary": (
        lambda: ss.Objective(token=teacher(IDS + 5))(LOGITS, TARGETS),
        r"`ids` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "ids negative": (
        lambda: teacher(IDS - 1),
        r"`ids` must be 0 or more where there is a log-probability, but is -1",
    ),
    "a tail without a vocabulary": (
        lambda: ss.Objective(token=teacher(tail="uniform")).propose(TARGETS),
        r"`vocab_size` must be given when `tail` is 'uniform', but is None",
    ),
}

UNIFORM: Cases = {
    "alpha 1.5": (lambda: ss.Uniform(1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "alpha -1": (lambda: ss.Uniform(-1), r"`alpha` must be between 0 and 1, but is -1"),
    "alpha NaN": (lambda: ss.Uniform(NAN), r"`alpha` must be a number, but is nan"),
    "alpha a word": (lambda: ss.Uniform("0.1"), r"`alpha` must be a number, but is '0\.1'"),
    "no vocabulary": (
        lambda: ss.Objective(token=ss.Uniform()).propose(TARGETS),
        r"`vocab_size` must be given to the objective when nothing else tells it \(.*\), but is None",
    ),
}


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    listed(
        Specials=SPECIALS,
        Hamming=HAMMING,
        Edit=EDIT,
        Rewarded=REWARDED,
        Similarity=SIMILARITY,
        Teacher=TEACHER,
        Uniform=UNIFORM,
    ),
)
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    assert_sentence(mistake, sentence)
