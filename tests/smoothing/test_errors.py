"""Every mistake we could think of, and the sentence it gets."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.ops.soft_target import Rows
from seqsmooth.ops.tables import DenseTable, SparseTable

B, T, V, D = 2, 3, 6, 4
NAN, INF = math.nan, math.inf
SEED = torch.Generator().manual_seed(0)
EMBEDDINGS = torch.randn(V, D, generator=SEED)
COUNTS = torch.arange(1.0, V + 1)
TARGETS = torch.tensor([[1, 2, 3], [4, 5, 0]])
REFERENCES = TARGETS.unsqueeze(1)
LOGITS = torch.randn(B, T, V, generator=SEED)
HIDDEN = torch.randn(B, T, D, generator=SEED)
WEIGHT = torch.randn(V, D, generator=SEED)
IDS = torch.tensor([0, 1]).expand(B, T, 2)
LOGPROBS = torch.full((B, T, 2), -1.0)
SENTENCE = re.compile(r"^`[^`]+` must be .+, but is .+ instead\.$", re.DOTALL)


def changed(values: Tensor, row: int, value: float) -> Tensor:
    copy = values.clone()
    copy[row] = value
    return copy


def zeros(candidates: Tensor, references: Tensor) -> Tensor:
    return torch.zeros(candidates.shape[:2])


def hamming(**options: object) -> ss.Hamming:
    return ss.Hamming(tau=1.0, **options)


def similarity(embeddings: object = EMBEDDINGS, tau: object = 1.0, **options: object) -> ss.Similarity:
    return ss.Similarity(embeddings, tau, **options)


def rewarded(
    reward: object = zeros, proposal: object = None, tau: object = 1.0, samples: object = 2, **options: object
):
    return ss.Rewarded(reward, hamming() if proposal is None else proposal, tau, samples, **options)


def scored(result: Callable[[Tensor, Tensor], object]) -> ss.Candidates:
    """Candidates weighted by a reward with this result."""
    return ss.Objective(rewarded(result, against="target"), vocab_size=V).propose(TARGETS)


def through(objective: ss.Objective, logits: Tensor, **given: object) -> ss.Loss:
    """The loss of candidates that the objective itself proposed."""
    return objective(logits, objective.propose(TARGETS, **given))


def teacher(ids: object = IDS, logprobs: object = LOGPROBS, **options: object) -> ss.Teacher:
    return ss.Teacher(ids, logprobs, **options)


def propose(targets: object = TARGETS, law: object = None, **options: object) -> ss.Candidates:
    return ss.Objective(hamming(samples=2) if law is None else law, vocab_size=V).propose(targets, **options)


def call(logits: object = LOGITS, candidates: object = TARGETS, **options: object) -> ss.Loss:
    return ss.Objective(hamming(), vocab_size=V)(logits, candidates, **options)


def head(
    hidden: object = HIDDEN,
    weight: object = WEIGHT,
    candidates: object = TARGETS,
    bias: object = None,
    **options: object,
) -> ss.Loss:
    return ss.Objective(hamming(), vocab_size=V).head(hidden, weight, candidates, bias, **options)


def on_own_prefixes() -> ss.Objective:
    return ss.Objective(hamming(samples=2), lazy=False, vocab_size=V)


def soft(ids: object = IDS, weights: object = LOGPROBS, rows: object = ()) -> ss.SoftTarget:
    return ss.SoftTarget(ids, weights, rows)


TABLE = DenseTable.of(torch.full((2, V), 1 / V))
ONE_ROW = DenseTable.of(torch.full((1, V), 1 / V))
SPARSE = SparseTable(torch.tensor([[0], [1]]), torch.ones(2, 1), V)
FIRST, ONES = torch.zeros(B, 1, dtype=torch.long), torch.ones(B, 1)
LABELS = torch.tensor([0, 5])


def pointing(index: object = FIRST, weights: object = ONES, table: object = TABLE) -> ss.SoftTarget:
    return ss.SoftTarget(FIRST, ONES, (Rows(table, index, weights),))


def entropy(logits: object = LOGITS[:, 0], target: object = LABELS, **options: object) -> Tensor:
    return ss.cross_entropy(logits, target, **options)


def linear(
    hidden: object = HIDDEN[:, 0], weight: object = WEIGHT, target: object = LABELS, **options: object
) -> Tensor:
    return ss.linear_cross_entropy(hidden, weight, target, **options)


Cases = dict[str, tuple[Callable[[], object], str]]

NAMES = r"'pad', 'bos', 'eos', 'unk'"
POOLS = r"'vocab', 'batch', 'refs', or a tensor of ids"
REDUCTIONS = r"'mean', 'sum', 'none'"

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
    "reward a number": (lambda: rewarded(3), r"`reward` must be callable, but is an int"),
    "reward None": (lambda: rewarded(None), r"`reward` must be callable, but is None"),
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
    "stored a word": (lambda: similarity(stored="yes"), r"`stored` must be True or False, but is 'yes'"),
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

OBJECTIVE: Cases = {
    "sequence a word": (
        lambda: ss.Objective("hamming"),
        r"`sequence` must be a sequence law, as Hamming, but is a str",
    ),
    "sequence a class": (lambda: ss.Objective(ss.Hamming), r"`sequence` must be a sequence law, as Hamming, but is "),
    "sequence a token law": (
        lambda: ss.Objective(ss.Uniform()),
        r"`sequence` must be a sequence law, as Hamming, but is a Uniform",
    ),
    "sequence a reward": (
        lambda: ss.Objective(ss.rewards.Hamming()),
        r"`sequence` must be a sequence law, as Hamming, but is a Hamming",
    ),
    "token a sequence law": (
        lambda: ss.Objective(token=hamming()),
        r"`token` must be a token law, as Similarity, but is a Hamming",
    ),
    "token embeddings": (
        lambda: ss.Objective(token=EMBEDDINGS),
        r"`token` must be a token law, as Similarity, but is a Tensor",
    ),
    "lazy 1": (lambda: ss.Objective(lazy=1), r"`lazy` must be True or False, but is 1"),
    "lazy a word": (lambda: ss.Objective(lazy="no"), r"`lazy` must be True or False, but is 'no'"),
    "entropy -1": (lambda: ss.Objective(entropy=-1), r"`entropy` must be a finite number, 0 or more, but is -1"),
    "entropy NaN": (lambda: ss.Objective(entropy=NAN), r"`entropy` must be a number, but is nan"),
    "entropy infinite": (
        lambda: ss.Objective(entropy=INF),
        r"`entropy` must be a finite number, 0 or more, but is inf",
    ),
    "entropy None": (lambda: ss.Objective(entropy=None), r"`entropy` must be a number, but is None"),
    "specials a dictionary": (
        lambda: ss.Objective(specials={"pad": 0}),
        r"`specials` must be a Specials, but is a dict",
    ),
    "specials an id": (lambda: ss.Objective(specials=0), r"`specials` must be a Specials, but is an int"),
    "vocab_size 0": (lambda: ss.Objective(vocab_size=0), r"`vocab_size` must be 1 or more, but is 0"),
    "vocab_size 1.5": (lambda: ss.Objective(vocab_size=1.5), r"`vocab_size` must be a whole number, but is 1\.5"),
    "vocab_size of others": (
        lambda: ss.Objective(token=similarity(), vocab_size=7),
        r"`vocab_size` must be that of Similarity, 6, but is 7",
    ),
    "ignore_index 1.5": (
        lambda: ss.Objective(ignore_index=1.5),
        r"`ignore_index` must be a whole number, but is 1\.5",
    ),
    "ignore_index None": (
        lambda: ss.Objective(ignore_index=None),
        r"`ignore_index` must be a whole number, but is None",
    ),
    "ignore_index a word": (
        lambda: ss.Objective(ignore_index="pad"),
        r"`ignore_index` must be a whole number, but is 'pad'",
    ),
}

PROPOSE: Cases = {
    "targets a list": (lambda: propose([[1, 2]]), r"`targets` must be a torch\.Tensor, but is a list"),
    "targets None": (lambda: propose(None), r"`targets` must be a torch\.Tensor, but is None"),
    "targets of floats": (
        lambda: propose(TARGETS.float()),
        r"`targets` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "targets a mask": (
        lambda: propose(TARGETS > 2),
        r"`targets` must be a tensor of whole numbers, but is torch\.bool",
    ),
    "targets of one dimension": (lambda: propose(TARGETS[0]), r"`targets` must be of shape \(B, T\), but is \(3,\)"),
    "targets of three dimensions": (
        lambda: propose(REFERENCES),
        r"`targets` must be of shape \(B, T\), but is \(2, 1, 3\)",
    ),
    "targets beyond": (
        lambda: propose(TARGETS + 1),
        r"`targets` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "targets negative": (
        lambda: propose(TARGETS - 1),
        r"`targets` must be ids in \[0, 6\), but is -1 at its lowest",
    ),
    "targets elsewhere": (
        lambda: ss.Objective(token=similarity()).propose(TARGETS.to("meta")),
        r"`targets` must be on cpu, as the rest of the objective \(`objective\.to\(.*\)` moves it\), but is on meta",
    ),
    "references a list": (
        lambda: propose(references=[[1]]),
        r"`references` must be a torch\.Tensor, but is a list",
    ),
    "references of two dimensions": (
        lambda: propose(references=TARGETS),
        r"`references` must be of shape \(B, R, S\) = \(2, \*, \*\), but is \(2, 3\)",
    ),
    "references of another batch": (
        lambda: propose(references=torch.zeros(5, 1, 3, dtype=torch.long)),
        r"`references` must be of shape \(B, R, S\) = \(2, \*, \*\), but is \(5, 1, 3\)",
    ),
    "references of floats": (
        lambda: propose(references=REFERENCES.float()),
        r"`references` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "references beyond": (
        lambda: propose(references=REFERENCES + 1),
        r"`references` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "references elsewhere": (
        lambda: propose(references=REFERENCES.to("meta")),
        r"`references` must be on cpu, as the rest, but is on meta",
    ),
    "generator a seed": (
        lambda: propose(generator=0),
        r"`generator` must be a torch\.Generator \(`torch\.Generator\(\)\..* makes one\), but is an int",
    ),
    "generator of another device": (
        lambda: propose(TARGETS.to("meta"), generator=torch.Generator()),
        r"`generator` must be on the device of the targets, meta, but is cpu",
    ),
}

CALL: Cases = {
    "logits a list": (lambda: call([[0.0]]), r"`logits` must be a torch\.Tensor, but is a list"),
    "logits of integers": (
        lambda: call(LOGITS.long()),
        r"`logits` must be a floating-point tensor, but is torch\.int64",
    ),
    "arguments swapped": (
        lambda: call(TARGETS, LOGITS),
        r"`logits` must be a floating-point tensor, but is torch\.int64",
    ),
    "logits of two dimensions": (
        lambda: call(LOGITS[0], TARGETS[0]),
        r"`logits` must be of shape \(B, K', T, V\) or \(B, T, V\), but is \(3, 6\)",
    ),
    "logits of five dimensions": (
        lambda: call(LOGITS[None, None]),
        r"`logits` must be of shape \(B, K', T, V\) or \(B, T, V\), but is \(1, 1, 2, 3, 6\)",
    ),
    "logits over fewer tokens": (lambda: call(LOGITS[..., :5]), r"`logits` must be over 6 tokens, but is over 5"),
    "logits over other tokens than the candidates": (
        lambda: through(ss.Objective(hamming(), vocab_size=6), torch.zeros(B, T, 9)),
        r"`logits` must be over 6 tokens, but is over 9",
    ),
    "logits over fewer tokens than the candidates": (
        lambda: through(ss.Objective(), torch.zeros(B, T, 3)),
        r"`target\.ids` must be ids in \[0, 3\), but is 5 at its highest",
    ),
    "logits of another batch": (
        lambda: call(LOGITS[:1]),
        r"`logits` must be of shape \(2, 1, 3, V\), as the target, but is \(1, 1, 3, 6\)",
    ),
    "logits of another length": (
        lambda: call(LOGITS[:, :2]),
        r"`logits` must be of shape \(2, 1, 3, V\), as the target, but is \(2, 1, 2, 6\)",
    ),
    "logits of the ground truth only": (
        lambda: through(on_own_prefixes(), LOGITS),
        r"`logits` must be of shape \(2, 3, 3, V\), as the target, but is \(2, 1, 3, 6\)",
    ),
    "logits of other candidates": (
        lambda: through(on_own_prefixes(), torch.zeros(B, 2, T, V)),
        r"`logits` must be of shape \(2, 3, 3, V\), as the target, but is \(2, 2, 3, 6\)",
    ),
    "logits elsewhere": (lambda: call(LOGITS.to("meta")), r"`logits` must be on cpu, as the rest, but is on meta"),
    "candidates of another objective": (
        lambda: ss.mle()(LOGITS, ss.mle().propose(TARGETS)),
        r"`candidates` must be from this objective's `propose`, but is from another's",
    ),
    "ignored positions before real ones when not lazy": (
        lambda: on_own_prefixes().propose(TARGETS.flip(1).contiguous().index_fill(1, torch.tensor([0]), -100)),
        r"`targets` must be free of ignored positions before real ones when lazy is False, but is not",
    ),
    "inputs without a BOS": (
        lambda: ss.mle().propose(TARGETS).inputs,
        r"`specials\.bos` must be given for `inputs` \(.*\), but is None",
    ),
    "plain targets when not lazy": (
        lambda: on_own_prefixes()(LOGITS, TARGETS),
        r"`candidates` must be from `propose` when lazy is False, so that samples are decoded, but is plain targets",
    ),
    "candidates None": (
        lambda: call(LOGITS, None),
        r"`candidates` must be from `propose`, or targets, but is None",
    ),
    "candidates a list": (
        lambda: call(LOGITS, TARGETS.tolist()),
        r"`candidates` must be from `propose`, or targets, but is a list",
    ),
    "candidates a soft target": (
        lambda: call(LOGITS, ss.SoftTarget.from_labels(TARGETS)),
        r"`candidates` must be from `propose`, or targets, but is a SoftTarget",
    ),
    "targets of floats": (
        lambda: call(LOGITS, TARGETS.float()),
        r"`targets` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "targets beyond": (
        lambda: call(LOGITS, TARGETS + 1),
        r"`targets` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "targets beyond an objective of no vocabulary": (
        lambda: ss.Objective()(LOGITS, TARGETS + 1),
        r"`targets` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "reduction unknown": (
        lambda: call(reduction="average"),
        rf"`reduction` must be one of {REDUCTIONS}, but is 'average'",
    ),
    "reduction None": (lambda: call(reduction=None), rf"`reduction` must be one of {REDUCTIONS}, but is None"),
    "num_items 0": (lambda: call(num_items=0), r"`num_items` must be greater than 0, but is 0"),
    "num_items -1": (lambda: call(num_items=-1.0), r"`num_items` must be greater than 0, but is -1"),
    "num_items NaN": (lambda: call(num_items=NAN), r"`num_items` must be a number, but is nan"),
    "num_items a word": (lambda: call(num_items="3"), r"`num_items` must be a number, but is '3'"),
    "num_items with a sum": (
        lambda: call(reduction="sum", num_items=3),
        r"`num_items` must be left out with reduction='sum', but is 3",
    ),
    "num_items with none": (
        lambda: call(reduction="none", num_items=torch.tensor(3)),
        r"`num_items` must be left out with reduction='none', but is 3",
    ),
    "num_items a tensor of zero": (
        lambda: call(num_items=torch.tensor(0)),
        r"`num_items` must be greater than 0, but is 0",
    ),
    "num_items a negative tensor": (
        lambda: call(num_items=torch.tensor(-2.0)),
        r"`num_items` must be greater than 0, but is -2",
    ),
    "num_items a row": (
        lambda: call(num_items=torch.ones(B)),
        r"`num_items` must be a single number, but is of shape \(2,\)",
    ),
    "generator a seed": (
        lambda: ss.Objective(hamming(samples=2))(LOGITS, TARGETS, generator=0),
        r"`generator` must be a torch\.Generator \(`torch\.Generator\(\)\..* makes one\), but is an int",
    ),
}

HEAD: Cases = {
    "hidden a list": (lambda: head([0.0]), r"`hidden` must be a torch\.Tensor, but is a list"),
    "hidden of integers": (
        lambda: head(HIDDEN.long()),
        r"`hidden` must be a floating-point tensor, but is torch\.int64",
    ),
    "hidden of two dimensions": (
        lambda: head(HIDDEN[0]),
        r"`hidden` must be of shape \(B, K', T, D\) or \(B, T, D\), but is \(3, 4\)",
    ),
    "hidden of another batch": (
        lambda: head(HIDDEN[:1]),
        r"`hidden` must be of shape \(2, 1, 3, D\), as the target, but is \(1, 1, 3, 4\)",
    ),
    "hidden of the ground truth only": (
        lambda: (lambda own: own.head(HIDDEN, WEIGHT, own.propose(TARGETS)))(on_own_prefixes()),
        r"`hidden` must be of shape \(2, 3, 3, D\), as the target, but is \(2, 1, 3, 4\)",
    ),
    "weight turned": (
        lambda: head(weight=WEIGHT.T),
        r"`weight` must be of shape \(V, D\) = \(\*, 4\), but is \(4, 6\)",
    ),
    "weight a module": (
        lambda: head(weight=torch.nn.Linear(D, V)),
        r"`weight` must be a torch\.Tensor, but is a Linear",
    ),
    "weight of integers": (
        lambda: head(weight=WEIGHT.long()),
        r"`weight` must be a floating-point tensor, but is torch\.int64",
    ),
    "weight over fewer tokens": (lambda: head(weight=WEIGHT[:5]), r"`weight` must be over 6 tokens, but is over 5"),
    "weight of another type": (
        lambda: head(weight=WEIGHT.double()),
        r"`weight` must be of the type of `hidden`, torch\.float32, but is torch\.float64",
    ),
    "bias of another size": (
        lambda: head(bias=torch.zeros(D)),
        r"`bias` must be of shape \(V,\) = \(6,?\), but is \(4,\)",
    ),
    "bias a number": (lambda: head(bias=0.0), r"`bias` must be a torch\.Tensor, but is a float"),
    "bias of integers": (
        lambda: head(bias=torch.zeros(V, dtype=torch.long)),
        r"`bias` must be a floating-point tensor, but is torch\.int64",
    ),
    "bias of another type": (
        lambda: head(bias=torch.zeros(V, dtype=torch.float64)),
        r"`bias` must be of the type of `hidden`, torch\.float32, but is torch\.float64",
    ),
    "chunk 0": (lambda: head(chunk=0), r"`chunk` must be 1 or more, but is 0"),
    "chunk 1.5": (lambda: head(chunk=1.5), r"`chunk` must be a whole number, but is 1\.5"),
    "candidates of another objective": (
        lambda: ss.mle()(LOGITS, ss.mle().propose(TARGETS)),
        r"`candidates` must be from this objective's `propose`, but is from another's",
    ),
    "ignored positions before real ones when not lazy": (
        lambda: on_own_prefixes().propose(TARGETS.flip(1).contiguous().index_fill(1, torch.tensor([0]), -100)),
        r"`targets` must be free of ignored positions before real ones when lazy is False, but is not",
    ),
    "inputs without a BOS": (
        lambda: ss.mle().propose(TARGETS).inputs,
        r"`specials\.bos` must be given for `inputs` \(.*\), but is None",
    ),
    "plain targets when not lazy": (
        lambda: on_own_prefixes().head(HIDDEN, WEIGHT, TARGETS),
        r"`candidates` must be from `propose` when lazy is False, so that samples are decoded, but is plain targets",
    ),
    "reduction unknown": (lambda: head(reduction="x"), rf"`reduction` must be one of {REDUCTIONS}, but is 'x'"),
    "num_items 0": (lambda: head(num_items=0), r"`num_items` must be greater than 0, but is 0"),
    "num_items with a sum": (
        lambda: head(reduction="sum", num_items=3),
        r"`num_items` must be left out with reduction='sum', but is 3",
    ),
}

PRESETS: Cases = {
    "mle entropy -1": (lambda: ss.mle(entropy=-1), r"`entropy` must be a finite number, 0 or more, but is -1"),
    "label_smoothing 1.5": (lambda: ss.label_smoothing(1.5), r"`epsilon` must be between 0 and 1, but is 1\.5"),
    "tok tau 0": (lambda: ss.tok(EMBEDDINGS, 0, 0.5), r"`tau` must be greater than 0, but is 0"),
    "tok alpha 2": (lambda: ss.tok(EMBEDDINGS, 1.0, 2), r"`alpha` must be between 0 and 1, but is 2"),
    "tok beta without counts": (
        lambda: ss.tok(EMBEDDINGS, 1.0, 0.5, beta=0.1),
        r"`counts` must be given when `beta` is greater than 0, but is None",
    ),
    "tok a zero embedding": (
        lambda: ss.tok(changed(EMBEDDINGS, 0, 0.0), 1.0, 0.5),
        r"`embeddings` must be of a norm greater than 0 \(.*missing='zeros'\), but is all zeros for token 0",
    ),
    "seq without tau": (lambda: ss.seq(), r"`tau` must be given, or else `rate`, and not both, but is None"),
    "seq both tau and rate": (lambda: ss.seq(1.0, rate=0.5), r"`tau` must be given, or else `rate`, .*, but is 1\.0"),
    "seq alpha 1.5": (lambda: ss.seq(1.0, alpha=1.5), r"`alpha` must be between 0 and 1, but is 1\.5"),
    "seq pool unknown": (lambda: ss.seq(1.0, pool="x"), rf"`pool` must be one of {POOLS}, but is 'x'"),
    "seq lazy a word": (lambda: ss.seq(1.0, lazy="no"), r"`lazy` must be True or False, but is 'no'"),
    "seq samples 0": (lambda: ss.seq(1.0, samples=0), r"`samples` must be 1 or more, but is 0"),
    "seq samples 0 with a reward": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, samples=0),
        r"`samples` must be 1 or more, but is 0",
    ),
    "seq samples 1 with a reward": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, samples=1),
        r"`samples` must be 2 or more with weights='tilted' \(.*\), but is 1",
    ),
    "seq reward a number": (lambda: ss.seq(1.0, reward=3, reward_tau=1.0), r"`reward` must be callable, but is an int"),
    "seq reward_tau -1": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=-1),
        r"`reward_tau` must be greater than 0, but is -1",
    ),
    "seq weights unknown": (
        lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, weights="x"),
        r"`weights` must be one of 'tilted', 'literal', 'batch', but is 'x'",
    ),
    "seq reward without reward_tau": (
        lambda: ss.seq(1.0, reward=zeros),
        r"`reward_tau` must be given with a `reward`, but is None",
    ),
    "seq reward_tau without a reward": (
        lambda: ss.seq(1.0, reward_tau=2.0),
        r"`reward_tau` must be left out without a `reward`, but is 2\.0",
    ),
    "seq weights without a reward": (
        lambda: ss.seq(1.0, weights="literal"),
        r"`weights` must be left out without a `reward`, but is 'literal'",
    ),
    "tok_seq token_tau -1": (
        lambda: ss.tok_seq(EMBEDDINGS, -1, 0.5, 1.0),
        r"`token_tau` must be greater than 0, but is -1",
    ),
    "tok_seq token_alpha 1.5": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 1.5, 1.0),
        r"`token_alpha` must be between 0 and 1, but is 1\.5",
    ),
    "tok_seq without tau": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5),
        r"`tau` must be given, or else `rate`, and not both, but is None",
    ),
    "tok_seq vocab_size": (
        lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5, 1.0, vocab_size=7),
        r"`vocab_size` must be that of Similarity, 6, but is 7",
    ),
}

SOFT_TARGET: Cases = {
    "ids a list": (lambda: soft([0]), r"`ids` must be a torch\.Tensor, but is a list"),
    "ids of floats": (lambda: soft(LOGPROBS), r"`ids` must be a tensor of whole numbers, but is torch\.float32"),
    "ids a scalar": (
        lambda: soft(torch.tensor(0), torch.tensor(1.0)),
        r"`ids` must be of shape \(\.\.\., K\), but is a scalar",
    ),
    "weights a list": (lambda: soft(weights=[1.0]), r"`weights` must be a torch\.Tensor, but is a list"),
    "weights of integers": (
        lambda: soft(weights=IDS),
        r"`weights` must be a floating-point tensor, but is torch\.int64",
    ),
    "weights of another shape": (
        lambda: soft(weights=LOGPROBS[..., :1]),
        r"`weights` must be of the shape of `ids`, \(2, 3, 2\), but is \(2, 3, 1\)",
    ),
    "rows not in a tuple": (
        lambda: ss.SoftTarget(FIRST, ONES, Rows(TABLE, FIRST, ONES)),
        r"`rows` must be a tuple of Rows, but is a Rows",
    ),
    "rows of something else": (
        lambda: ss.SoftTarget(FIRST, ONES, (TABLE,)),
        r"`rows` must be a tuple of Rows, but is one with a DenseTable",
    ),
    "rows.index of floats": (
        lambda: pointing(ONES),
        r"`rows\.index` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "rows.weights of integers": (
        lambda: pointing(weights=FIRST),
        r"`rows\.weights` must be a floating-point tensor, but is torch\.int64",
    ),
    "rows for other positions": (
        lambda: pointing(FIRST[:1], ONES[:1]),
        r"`rows\.index` must be of shape \(2, J\), as `rows\.weights`, but is \(1, 1\)",
    ),
    "rows of unequal shapes": (
        lambda: pointing(FIRST, torch.ones(B, 2)),
        r"`rows\.index` must be of shape \(2, J\), as `rows\.weights`, but is \(2, 1\)",
    ),
    "rows beyond the table": (
        lambda: entropy(target=pointing(FIRST + 2)),
        r"`rows\.index` must be ids in \[0, 2\), but is 2 at its highest",
    ),
    "rows beyond a table of one": (
        lambda: entropy(target=pointing(FIRST + 1, table=ONE_ROW)),
        r"`rows\.index` must be ids in \[0, 1\), but is 1 at its highest",
    ),
    "rows beyond a sparse table": (
        lambda: entropy(target=pointing(FIRST + 2, table=SPARSE)),
        r"`rows\.index` must be ids in \[0, 2\), but is 2 at its highest",
    ),
    "from_labels a list": (
        lambda: ss.SoftTarget.from_labels([0]),
        r"`labels` must be a torch\.Tensor, but is a list",
    ),
    "from_labels of floats": (
        lambda: ss.SoftTarget.from_labels(LOGITS),
        r"`labels` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "from_dense of integers": (
        lambda: ss.SoftTarget.from_dense(TARGETS),
        r"`probabilities` must be a floating-point tensor, but is torch\.int64",
    ),
    "from_dense a scalar": (
        lambda: ss.SoftTarget.from_dense(torch.tensor(1.0)),
        r"`probabilities` must be of shape \(\.\.\., V\), but is a scalar",
    ),
    "from_dense a list": (
        lambda: ss.SoftTarget.from_dense([1.0]),
        r"`probabilities` must be a torch\.Tensor, but is a list",
    ),
    "from_topk ids of floats": (
        lambda: ss.SoftTarget.from_topk(LOGPROBS, LOGPROBS),
        r"`ids` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "from_topk a scalar": (
        lambda: ss.SoftTarget.from_topk(torch.tensor(0), torch.tensor(-1.0)),
        r"`ids` must be of shape \(\.\.\., K\), but is a scalar",
    ),
    "from_topk logprobs of integers": (
        lambda: ss.SoftTarget.from_topk(IDS, IDS),
        r"`logprobs` must be a floating-point tensor, but is torch\.int64",
    ),
    "from_topk logprobs of another shape": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS[:1]),
        r"`logprobs` must be of the shape of `ids`, \(2, 3, 2\), but is \(1, 3, 2\)",
    ),
    "from_topk probabilities": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS.exp()),
        r"`logprobs` must be logarithms of probabilities, of 1 at most in all, but is of 2\.89",
    ),
    "from_topk NaN": (
        lambda: ss.SoftTarget.from_topk(IDS, NAN * LOGPROBS),
        r"`logprobs` must be free of NaN, but is NaN somewhere",
    ),
    "from_topk tail unknown": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="rest"),
        r"`tail` must be one of 'zero', 'uniform', 'renormalise', but is 'rest'",
    ),
    "from_topk tail without V": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform"),
        r"`vocab_size` must be given when `tail` is 'uniform', but is None",
    ),
    "from_topk V 0": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform", vocab_size=0),
        r"`vocab_size` must be 1 or more, but is 0",
    ),
    "from_topk V -3": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform", vocab_size=-3),
        r"`vocab_size` must be 1 or more, but is -3",
    ),
    "from_topk V 1.5": (
        lambda: ss.SoftTarget.from_topk(IDS, LOGPROBS, tail="uniform", vocab_size=1.5),
        r"`vocab_size` must be a whole number, but is 1\.5",
    ),
    "from_topk ids beyond V": (
        lambda: ss.SoftTarget.from_topk(IDS + 5, LOGPROBS, tail="uniform", vocab_size=V),
        r"`ids` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "dense ids beyond V": (lambda: soft().dense(1), r"`target\.ids` must be ids in \[0, 1\), but is 1 at its highest"),
    "dense V of another table": (
        lambda: pointing().dense(3),
        r"`vocab_size` must be over the 6 tokens of the target, but is over 3",
    ),
    "dense V 0": (lambda: soft().dense(0), r"`vocab_size` must be 1 or more, but is 0"),
    "where of another shape": (
        lambda: soft().where(torch.ones(5, dtype=torch.bool)),
        r"`mask` must be of shape \(2, 3\), as the target, but is \(5,\)",
    ),
    "where of floats": (
        lambda: soft().where(torch.ones(B, T)),
        r"`mask` must be a mask \(torch\.bool\), but is torch\.float32",
    ),
    "where a list": (lambda: soft().where([True]), r"`mask` must be a torch\.Tensor, but is a list"),
}

CROSS_ENTROPY: Cases = {
    "logits a list": (lambda: entropy([[0.0]]), r"`logits` must be a torch\.Tensor, but is a list"),
    "logits of integers": (
        lambda: entropy(LABELS.unsqueeze(-1)),
        r"`logits` must be a floating-point tensor, but is torch\.int64",
    ),
    "logits complex": (
        lambda: entropy(LOGITS[:, 0].to(torch.complex64)),
        r"`logits` must be a floating-point tensor, but is torch\.complex64",
    ),
    "logits of other positions": (
        lambda: entropy(LOGITS[:1, 0]),
        r"`logits` must be of shape \(2, V\), as the target, but is \(1, 6\)",
    ),
    "logits in torch's order": (
        lambda: entropy(LOGITS.transpose(1, 2), TARGETS),
        r"`logits` must be of shape \(2, 3, V\), as the target, but is \(2, 6, 3\)",
    ),
    "logits a scalar": (
        lambda: entropy(torch.tensor(1.0), torch.tensor(0)),
        r"`logits` must be of shape \(V\), as the target, but is \(\)",
    ),
    "logits over nothing": (
        lambda: entropy(torch.zeros(2, 0)),
        r"`logits` must be over 1 token or more, but is over 0",
    ),
    "logits over other tokens": (
        lambda: entropy(LOGITS[:, 0, :5], pointing()),
        r"`logits` must be over the 6 tokens of the target, but is over 5",
    ),
    "logits elsewhere": (
        lambda: entropy(LOGITS[:, 0].to("meta")),
        r"`logits` must be on cpu, as the rest, but is on meta",
    ),
    "target a list": (
        lambda: entropy(target=[0, 1]),
        r"`target` must be a SoftTarget or a tensor of labels, but is a list",
    ),
    "target None": (
        lambda: entropy(target=None),
        r"`target` must be a SoftTarget or a tensor of labels, but is None",
    ),
    "target of floats": (
        lambda: entropy(target=LOGITS[:, 0].softmax(-1)),
        r"`target` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "target a mask": (
        lambda: entropy(target=LABELS > 2),
        r"`target` must be a tensor of whole numbers, but is torch\.bool",
    ),
    "target beyond": (
        lambda: entropy(target=LABELS + 1),
        r"`target\.ids` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "target negative": (
        lambda: entropy(target=LABELS - 1),
        r"`target\.ids` must be ids in \[0, 6\), but is -1 at its lowest",
    ),
    "another id ignored": (
        lambda: entropy(target=torch.tensor([0, -100]), ignore_index=-1),
        r"`target\.ids` must be ids in \[0, 6\), but is -100 at its lowest",
    ),
    "reduction unknown": (
        lambda: entropy(reduction="batchmean"),
        rf"`reduction` must be one of {REDUCTIONS}, but is 'batchmean'",
    ),
    "num_items 0": (lambda: entropy(num_items=0), r"`num_items` must be greater than 0, but is 0"),
    "num_items NaN": (lambda: entropy(num_items=NAN), r"`num_items` must be a number, but is nan"),
    "num_items True": (lambda: entropy(num_items=True), r"`num_items` must be a number, but is True"),
    "num_items with a sum": (
        lambda: entropy(reduction="sum", num_items=2),
        r"`num_items` must be left out with reduction='sum', but is 2",
    ),
    "num_items with none": (
        lambda: entropy(reduction="none", num_items=2),
        r"`num_items` must be left out with reduction='none', but is 2",
    ),
    "num_items a tensor of zero": (
        lambda: entropy(num_items=torch.tensor(0)),
        r"`num_items` must be greater than 0, but is 0",
    ),
    "num_items a row": (
        lambda: entropy(num_items=torch.ones(B)),
        r"`num_items` must be a single number, but is of shape \(2,\)",
    ),
    "ignore_index 1.5": (lambda: entropy(ignore_index=1.5), r"`ignore_index` must be a whole number, but is 1\.5"),
    "ignore_index None": (lambda: entropy(ignore_index=None), r"`ignore_index` must be a whole number, but is None"),
}

LINEAR: Cases = {
    "hidden of integers": (
        lambda: linear(LABELS.unsqueeze(-1)),
        r"`hidden` must be a floating-point tensor, but is torch\.int64",
    ),
    "hidden of other positions": (
        lambda: linear(HIDDEN[0, 0]),
        r"`hidden` must be of shape \(2, D\), as the target, but is \(4,\)",
    ),
    "hidden and weight swapped": (
        lambda: linear(WEIGHT, HIDDEN[:, 0]),
        r"`hidden` must be of shape \(2, D\), as the target, but is \(6, 4\)",
    ),
    "hidden a scalar": (
        lambda: linear(torch.tensor(1.0), WEIGHT, torch.tensor(0)),
        r"`hidden` must be of shape \(D\), as the target, but is \(\)",
    ),
    "weight of integers": (
        lambda: linear(weight=WEIGHT.long()),
        r"`weight` must be a floating-point tensor, but is torch\.int64",
    ),
    "weight turned": (
        lambda: linear(weight=WEIGHT.T),
        r"`weight` must be of shape \(V, D\) = \(\*, 4\), but is \(4, 6\)",
    ),
    "weight a row": (
        lambda: linear(weight=WEIGHT[0]),
        r"`weight` must be of shape \(V, D\) = \(\*, 4\), but is \(4,\)",
    ),
    "weight over nothing": (lambda: linear(weight=WEIGHT[:0]), r"`weight` must be over 1 token or more, but is over 0"),
    "weight over other tokens": (
        lambda: linear(weight=WEIGHT[:5], target=pointing()),
        r"`weight` must be over the 6 tokens of the target, but is over 5",
    ),
    "weight of another type": (
        lambda: linear(weight=WEIGHT.double()),
        r"`weight` must be of the type of `hidden`, torch\.float32, but is torch\.float64",
    ),
    "weight elsewhere": (
        lambda: linear(weight=WEIGHT.to("meta")),
        r"`weight` must be on cpu, as the rest, but is on meta",
    ),
    "bias elsewhere": (
        lambda: linear(bias=torch.zeros(V, device="meta")),
        r"`bias` must be on cpu, as the rest, but is on meta",
    ),
    "hidden elsewhere": (
        lambda: linear(HIDDEN[:, 0].to("meta")),
        r"`hidden` must be on cpu, as the rest, but is on meta",
    ),
    "ignore_index 1.5": (lambda: linear(ignore_index=1.5), r"`ignore_index` must be a whole number, but is 1\.5"),
    "bias a number": (lambda: linear(bias=0.5), r"`bias` must be a torch\.Tensor, but is a float"),
    "bias of integers": (
        lambda: linear(bias=torch.zeros(V, dtype=torch.long)),
        r"`bias` must be a floating-point tensor, but is torch\.int64",
    ),
    "bias of another size": (
        lambda: linear(bias=torch.zeros(D)),
        r"`bias` must be of shape \(V,\) = \(6,?\), but is \(4,\)",
    ),
    "bias of another type": (
        lambda: linear(bias=torch.zeros(V, dtype=torch.float16)),
        r"`bias` must be of the type of `hidden`, torch\.float32, but is torch\.float16",
    ),
    "target None": (
        lambda: linear(target=None),
        r"`target` must be a SoftTarget or a tensor of labels, but is None",
    ),
    "target of floats": (
        lambda: linear(target=torch.zeros(B)),
        r"`target` must be a tensor of whole numbers, but is torch\.float32",
    ),
    "target beyond": (
        lambda: linear(target=LABELS + 1),
        r"`target\.ids` must be ids in \[0, 6\), but is 6 at its highest",
    ),
    "chunk 0": (lambda: linear(chunk=0), r"`chunk` must be 1 or more, but is 0"),
    "chunk -1": (lambda: linear(chunk=-1), r"`chunk` must be 1 or more, but is -1"),
    "chunk 1.5": (lambda: linear(chunk=1.5), r"`chunk` must be a whole number, but is 1\.5"),
    "reduction unknown": (lambda: linear(reduction="x"), rf"`reduction` must be one of {REDUCTIONS}, but is 'x'"),
    "num_items 0": (lambda: linear(num_items=0), r"`num_items` must be greater than 0, but is 0"),
    "num_items with a sum": (
        lambda: linear(reduction="sum", num_items=2),
        r"`num_items` must be left out with reduction='sum', but is 2",
    ),
}

MISTAKES = [
    pytest.param(mistake, sentence, id=f"{room}: {name}")
    for room, cases in {
        "Specials": SPECIALS,
        "Hamming": HAMMING,
        "Edit": EDIT,
        "Rewarded": REWARDED,
        "Similarity": SIMILARITY,
        "Teacher": TEACHER,
        "Uniform": UNIFORM,
        "Objective": OBJECTIVE,
        "propose": PROPOSE,
        "call": CALL,
        "head": HEAD,
        "presets": PRESETS,
        "SoftTarget": SOFT_TARGET,
        "cross_entropy": CROSS_ENTROPY,
        "linear_cross_entropy": LINEAR,
    }.items()
    for name, (mistake, sentence) in cases.items()
]


@pytest.mark.parametrize(("mistake", "sentence"), MISTAKES)
def test_a_mistake_gets_its_sentence(mistake: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}") as caught:
        mistake()
    assert SENTENCE.match(str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ss.mle(entrpy=0.1), "entrpy"),
        (lambda: ss.label_smoothing(epsilo=0.1), "epsilo"),
        (lambda: ss.tok(EMBEDDINGS, 1.0, 0.5, count=COUNTS), "count"),
        (lambda: ss.seq(1.0, smaples=3), "smaples"),
        (lambda: ss.seq(1.0, reward=zeros, reward_tau=1.0, reward_taus=3), "reward_taus"),
        (lambda: ss.tok_seq(EMBEDDINGS, 1.0, 0.5, 1.0, smaples=3), "smaples"),
        (lambda: ss.Objective(lasy=True), "lasy"),
    ],
    ids=["mle", "label_smoothing", "tok", "seq", "seq with a reward", "tok_seq", "Objective"],
)
def test_a_misspelt_option_is_refused(call: Callable[[], object], name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        call()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second kind of device")
def test_a_generator_of_the_wrong_device() -> None:
    with pytest.raises(ValueError, match=r"^`generator` must be on the device of the targets, cpu, but is cuda"):
        propose(generator=torch.Generator("cuda"))


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
