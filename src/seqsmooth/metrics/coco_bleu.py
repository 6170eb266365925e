"""BLEU of captions, as coco-caption calculates it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from seqsmooth import checks
from seqsmooth.metrics.evaluation_set import EvaluationSet, Id, Sentence
from seqsmooth.metrics.ngram_matches import count_matches
from seqsmooth.metrics.scores import Scores, sign

Floats = NDArray[np.float64]
_TINY, _SMALL = 1e-15, 1e-9  # coco-caption has them beside every count


def bleu(
    hypotheses: Mapping[Id, Sentence],
    references: Mapping[Id, Sequence[Sentence]],
    order: int = 4,
    *,
    tokenised: str = "none",
) -> Scores:
    """BLEU of Papineni et al. (2002) over a corpus and of each item, between 0 and 1.

    The reference length of an item is that of the reference closest in length, the shorter of two.

    Args:
        hypotheses: one sentence for each id, as tokens, ids or a string of words.
        references: the references of each id.
        order: the length of the longest n-grams.
        tokenised: how the sentences were tokenised, for the signature.

    Examples:
        >>> scores = bleu({1: "a man rides a horse"}, {1: ["a man rides a horse", "a man on a horse"]}, order=2)
        >>> f"{scores.value:.4f}"
        '1.0000'
        >>> f"{bleu({1: 'a man rides'}, {1: ['a man rides a horse']}, order=2).value:.4f}"  # exp(1 - 5 / 3)
        '0.5134'
    """
    return score_bleus(EvaluationSet.align(hypotheses, references), order, tokenised=tokenised)[-1]


def score_bleus(corpus: EvaluationSet, order: int = 4, *, tokenised: str = "none") -> list[Scores]:
    """Calculate BLEU-1 to BLEU-`order`; the n-grams are counted once."""
    checks.at_least("order", order, 1)
    counts = count_matches(corpus.hypotheses, corpus.references, order)
    # The matches and the n-grams of each order side by side, as in the files that hold them.
    columns = [0, 1, *(place + which for place in range(2, 2 + order) for which in (0, order))]
    statistics = counts[:, columns].astype(np.float64)
    scores = []
    for n in range(1, order + 1):
        each = total(statistics, 1, order=n)
        value = float(total(statistics.sum(0, keepdims=True), len(corpus), order=n)[0])
        signature = sign(f"bleu:{n}|smooth:coco|len:closest", corpus, tokenised)
        items = dict(zip(corpus.ids, each.tolist(), strict=True))
        scores.append(Scores(f"BLEU-{n}", value, items, signature, statistics, partial(total, order=n)))
    return scores


def total(
    sums: Floats,  # (M, 2 + 2 order)
    number: int,
    order: int,
) -> Floats:  # (M,)
    """BLEU from sums of lengths and, for each order, of matches and n-grams."""
    lengths, closest = sums[:, 0], sums[:, 1]
    matched, ngrams = sums[:, 2 : 2 + 2 * order : 2], sums[:, 3 : 3 + 2 * order : 2]
    precision = np.prod((matched + _TINY) / (ngrams + _SMALL), axis=1) ** (1 / order)
    ratio = (lengths + _TINY) / (closest + _SMALL)
    penalty = np.exp(np.minimum(0, 1 - 1 / ratio))
    return np.asarray(precision * penalty, dtype=np.float64)
