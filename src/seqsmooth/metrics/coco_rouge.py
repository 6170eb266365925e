"""ROUGE-L, as coco-caption calculates it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from seqsmooth.metrics.evaluation_set import EvaluationSet, Id, Sentence, Tokens
from seqsmooth.metrics.scores import Scores, mean_scores

_BETA = 1.2


def rouge_l(
    hypotheses: Mapping[Id, Sentence], references: Mapping[Id, Sequence[Sentence]], *, tokenised: str = "none"
) -> Scores:
    """ROUGE-L of Lin (2004), the F-measure of the longest common subsequence with beta = 1.2, between 0 and 1.

    Precision and recall are each the best over the references, which need not be the same one: so does coco-caption.
    The corpus score is the mean.

    Args:
        hypotheses: one sentence for each id, as tokens, ids or a string of words.
        references: the references of each id.
        tokenised: how the sentences were tokenised, for the signature.

    Examples:
        >>> scores = rouge_l({1: "a man rides a horse"}, {1: ["a man on a horse"]})
        >>> f"{scores.value:.2f}"  # four of five words in order, both ways
        '0.80'
    """
    return score_rouge_l(EvaluationSet.align(hypotheses, references), tokenised=tokenised)


def score_rouge_l(corpus: EvaluationSet, *, tokenised: str = "none") -> Scores:
    """Calculate ROUGE-L of tokens that are aligned."""
    each = [f_measure(*item) for item in zip(corpus.hypotheses, corpus.references, strict=True)]
    return mean_scores("ROUGE-L", f"rouge:L|beta:{_BETA}", corpus, each, tokenised)


def f_measure(hypothesis: Tokens, references: Sequence[Tokens]) -> float:
    """The score of one item."""
    hypothesis = hypothesis or ("",)  # coco-caption splits an empty sentence into one empty word
    places: dict[Hashable, int] = {}
    for place, token in enumerate(hypothesis):
        places[token] = places.get(token, 0) | 1 << place
    precision = recall = 0.0
    for reference in references:
        length = _common(places, len(hypothesis), reference or ("",))
        precision = max(precision, length / len(hypothesis))
        recall = max(recall, length / max(1, len(reference)))
    if precision == 0:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _common(places: Mapping[Hashable, int], size: int, other: Tokens) -> int:
    # The longest common subsequence in one sum a token, after Hyyrö (2004): bit i of `row` is 0 where the table of the
    # textbook rises at column i. `places` has the columns of each token, as bits.
    row = full = (1 << size) - 1
    for token in other:
        matches = row & places.get(token, 0)
        row = (row + matches | row - matches) & full
    return size - row.bit_count()
