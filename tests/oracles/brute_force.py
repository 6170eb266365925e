"""The paper's definitions, written out over all sequences with loops and `math`. The library is not used here."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

Sentence = tuple[int, ...]
Law = dict[Sentence, float]
Matrix = list[list[float]]


def normalise(weights: dict[Sentence, float]) -> Law:
    total = math.fsum(weights.values())
    return {sentence: weight / total for sentence, weight in weights.items()}


def hamming_law(truth: Sentence, pools: Sequence[Iterable[int]], tau: float) -> Law:
    """r(y|y*) by its definition: exp(-d/tau) over every sequence whose tokens are in their pool or the truth's own."""
    support = [sorted({token, *pool}) for token, pool in zip(truth, pools, strict=True)]
    return normalise(
        {
            sentence: math.exp(-sum(a != b for a, b in zip(sentence, truth, strict=True)) / tau)
            for sentence in itertools.product(*support)
        }
    )


def rate_law(truth: Sentence, pools: Sequence[Iterable[int]], rate: float) -> Law:
    """Each position is replaced with the same probability, by any of the others alike."""
    law: Law = {}
    others = [sorted(set(pool) - {token}) for token, pool in zip(truth, pools, strict=True)]
    for sentence in itertools.product(*[[token, *rest] for token, rest in zip(truth, others, strict=True)]):
        probability = 1.0
        for token, own, rest in zip(sentence, truth, others, strict=True):
            flip = rate if rest else 0.0
            probability *= 1 - flip if token == own else flip / len(rest)
        law[sentence] = law.get(sentence, 0.0) + probability
    return law


def substitute_law(truth: Sentence, flips: Sequence[float], rows: Matrix, drawable: set[int]) -> Law:
    """Positions change with the given probabilities; new tokens follow the row of the token they replace."""
    law: Law = {}
    for sentence in itertools.product(range(len(rows)), repeat=len(truth)):
        probability = 1.0
        for token, own, flip in zip(sentence, truth, flips, strict=True):
            total = math.fsum(rows[own][other] for other in drawable if other != own)
            flip = flip if total > 0 else 0.0
            if token == own:
                probability *= 1 - flip
            else:
                probability *= flip * rows[own][token] / total if token in drawable and total > 0 else 0.0
        if probability > 0:
            law[sentence] = probability
    return law


def edit_law(truth: Sentence, pool: Sequence[int], tau: float, most: int) -> Law:
    """Every edit script, written out: keep, replace or delete each word; insert words into the gaps, at most `most`."""
    weights: defaultdict[Sentence, float] = defaultdict(float)
    choices = [[("keep", own), ("delete", -1), *(("put", new) for new in pool if new != own)] for own in truth]
    for script in itertools.product(*choices):
        cost = sum(kind != "keep" for kind, _ in script)
        for gaps in itertools.product(range(most + 1), repeat=len(truth) + 1):
            if sum(gaps) > most:
                continue
            for inserted in itertools.product(pool, repeat=sum(gaps)):
                rest, sentence = list(inserted), []
                for position, gap in enumerate(gaps):
                    sentence += [rest.pop(0) for _ in range(gap)]
                    if position < len(truth) and script[position][0] != "delete":
                        sentence.append(script[position][1])
                weights[tuple(sentence)] += math.exp(-(cost + sum(gaps)) / tau)
    return normalise(weights)


def edit_distance(one: Sentence, other: Sentence) -> int:
    if not one or not other:
        return len(one) + len(other)
    return min(
        edit_distance(one[1:], other) + 1,
        edit_distance(one, other[1:]) + 1,
        edit_distance(one[1:], other[1:]) + (one[0] != other[0]),
    )


def rewarded_law(proposal: Law, reward: Callable[[Sentence], float], tau: float, kind: str) -> Law:
    """Proportional to q exp(R / tau) ("tilted"), or to exp(R / tau) over what q reaches ("literal", Eq. 8)."""
    return normalise(
        {
            sentence: (probability if kind == "tilted" else 1.0) * math.exp(reward(sentence) / tau)
            for sentence, probability in proposal.items()
            if probability > 0
        }
    )


def mixture(truth: Sentence, law: Law, alpha: float) -> Law:
    mixed = {sentence: alpha * probability for sentence, probability in law.items()}
    mixed[truth] = mixed.get(truth, 0.0) + 1 - alpha
    return mixed


def identity(size: int) -> Matrix:
    return [[float(i == j) for j in range(size)] for i in range(size)]


def uniform_matrix(size: int, excluded: Iterable[int] = ()) -> Matrix:
    inside = [v for v in range(size) if v not in set(excluded)]
    return [[1 / len(inside) if v in inside else 0.0 for v in range(size)] for _ in range(size)]


def similarity_matrix(
    vectors: Matrix, tau: float, beta: float = 0.0, counts: Sequence[float] | None = None, missing: Iterable[int] = ()
) -> Matrix:
    """r(v|y) proportional to exp((cos(v, y) - beta * min(f_v / f_y, f_y / f_v)) / tau)."""
    size, without = len(vectors), set(missing)

    def cosine(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))

    rows = []
    for y in range(size):
        if y in without:
            rows.append([float(v == y) for v in range(size)])
            continue
        row = [0.0] * size
        for v in range(size):
            if v not in without:
                penalty = beta * min(counts[v] / counts[y], counts[y] / counts[v]) if counts is not None else 0.0
                row[v] = math.exp((cosine(vectors[v], vectors[y]) - penalty) / tau)
        total = math.fsum(row)
        rows.append([entry / total for entry in row])
    return rows


def kernel(share: float, rows: Matrix) -> Matrix:
    """M = (1 - share) I + share S."""
    return [[(1 - share) * (i == j) + share * rows[i][j] for j in range(len(rows))] for i in range(len(rows))]


def expected_loss(
    truth: Sentence,
    law: Law,
    matrix: Callable[[int], Matrix],
    log_probs: Callable[[Sentence], Sequence[float]],
    *,
    lazy: bool,
) -> float:
    """E over the law of sum_t - sum_v M_t(v|y_t) ln p(v | prefix), the prefix y*_<t when lazy and y_<t otherwise."""
    total = []
    for sentence, probability in law.items():
        for t, token in enumerate(sentence):
            scores = log_probs((truth if lazy else sentence)[:t])
            total.append(-probability * math.fsum(q * s for q, s in zip(matrix(t)[token], scores, strict=True)))
    return math.fsum(total)


def log_softmax(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    total = top + math.log(math.fsum(math.exp(score - top) for score in scores))
    return [score - total for score in scores]
