"""CIDEr-D of a corpus, as coco-caption calculates it under the name CIDEr."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from seqsmooth.metrics.evaluation_set import EvaluationSet, Id, Sentence, Tokens
from seqsmooth.metrics.scores import Scores, mean_scores
from seqsmooth.rewards import Cider, DocumentFrequencies

_ORDER, _SIGMA = 4, 6.0
_PORTION = 1024  # items padded together


def cider(
    hypotheses: Mapping[Id, Sentence], references: Mapping[Id, Sequence[Sentence]], *, tokenised: str = "none"
) -> Scores:
    """CIDEr-D of Vedantam et al. (2015), between 0 and 10, with the document frequencies of these references.

    The corpus score is the mean. It depends on the items scored together: fewer items, other frequencies.

    Args:
        hypotheses: one sentence for each id, as tokens, ids or a string of words.
        references: the references of each id.
        tokenised: how the sentences were tokenised, for the signature.

    Examples:
        >>> references = {1: ["a man rides a horse"], 2: ["two dogs in the snow"]}
        >>> scores = cider({1: "a man rides a horse", 2: "a red bus"}, references)
        >>> f"{scores[1]:.3f} {scores[2]:.3f} {scores.value:.3f}"  # 10 for the reference itself; the mean
        '10.000 0.000 5.000'
    """
    return score_cider(EvaluationSet.align(hypotheses, references), tokenised=tokenised)


def score_cider(corpus: EvaluationSet, *, tokenised: str = "none") -> Scores:
    """Calculate CIDEr-D of tokens that are aligned."""
    numbers: dict[Hashable, int] = {}
    ours = [_number(sentence, numbers) for sentence in corpus.hypotheses]
    theirs = [[_number(sentence, numbers) for sentence in several] for several in corpus.references]
    reward = Cider(DocumentFrequencies.build(theirs, _ORDER), _ORDER, _SIGMA, dtype=torch.float64)
    # Items of like length together, so that little of a tensor is padding.
    order = sorted(range(len(ours)), key=lambda item: max(map(len, (ours[item], *theirs[item]))))
    each = np.zeros(len(ours))
    for start in range(0, len(order), _PORTION):
        chosen = order[start : start + _PORTION]
        padded = _pad([theirs[item] for item in chosen])
        scores = reward(_pad([[ours[item]] for item in chosen]), padded)[:, 0].numpy()
        # The reward passes over empty references; coco-caption counts them, and they score 0.
        there = (padded >= 0).any(-1).sum(-1).numpy()
        each[chosen] = scores * there / [len(theirs[item]) for item in chosen]
    return mean_scores("CIDEr-D", f"cider:D|n:{_ORDER}|sigma:{_SIGMA:g}|df:refs", corpus, each, tokenised)


def _number(sentence: Tokens, numbers: dict[Hashable, int]) -> list[int]:
    return [numbers.setdefault(token, len(numbers)) for token in sentence]


def _pad(rows: Sequence[Sequence[Sequence[int]]]) -> Tensor:  # (B, R, T)
    number = max(len(row) for row in rows)
    length = max(1, *(len(sentence) for row in rows for sentence in row))
    ids = np.full((len(rows), number, length), -1, dtype=np.int64)
    for place, row in enumerate(rows):
        for which, sentence in enumerate(row):
            ids[place, which, : len(sentence)] = sentence
    return torch.from_numpy(ids)
