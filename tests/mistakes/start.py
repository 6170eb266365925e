"""What every mistake starts from: calls that are right, each with room for one thing wrong."""

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
SENTENCE = re.compile(r"^`[^`]+` must be .+; it is .+\.$", re.DOTALL)


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


def listed(**rooms: Cases) -> list[object]:
    """The parameters of a test over all these mistakes."""
    return [
        pytest.param(mistake, sentence, id=f"{room}: {name}")
        for room, cases in rooms.items()
        for name, (mistake, sentence) in cases.items()
    ]


def assert_sentence(mistake: Callable[[], object], sentence: str) -> None:
    """The mistake gets this sentence, which says what must be and what is."""
    with pytest.raises(ValueError, match=f"^{sentence}") as caught:
        mistake()
    assert SENTENCE.match(str(caught.value)), str(caught.value)
