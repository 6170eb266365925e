"""METEOR, by the jar that pycocoevalcap brings along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from seqsmooth.metrics import java
from seqsmooth.metrics.evaluation_set import EvaluationSet, Id, Sentence, join
from seqsmooth.metrics.scores import Absent, Scores, sign

Floats = NDArray[np.float64]
_COLUMNS = 23
# The parameters of English in METEOR 1.5: those of Table 1 of Denkowski and Lavie (2014), by their names there.
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.20, 0.60, 0.75
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # of exact, stem, synonym and paraphrase matches


def meteor(
    hypotheses: Mapping[Id, Sentence],
    references: Mapping[Id, Sequence[Sentence]],
    *,
    timeout: float = 600.0,
    tokenised: str = "none",
) -> Scores:
    """METEOR 1.5 of Denkowski and Lavie (2014) in English, as coco-caption calls it, between 0 and 1.

    Raises `Absent` where there is no Java or no jar, or where the jar takes longer than `timeout` seconds.

    Args:
        hypotheses: one sentence for each id.
        references: the references of each id.
        timeout: how many seconds the jar may take.
        tokenised: how the sentences were tokenised, for the signature.

    Examples:
        >>> from seqsmooth.metrics import Absent
        >>> try:
        ...     scores = meteor({1: "a dog"}, {1: ["a dog"]}, timeout=0.001)
        ... except Absent as reason:  # too slow for so little time; or no Java, or no jar: the sentence says which
        ...     print(str(reason)[:6])
        METEOR
    """
    return score_meteor(EvaluationSet.align(hypotheses, references), timeout=timeout, tokenised=tokenised)


def score_meteor(corpus: EvaluationSet, *, timeout: float = 600.0, tokenised: str = "none") -> Scores:
    """Calculate METEOR of tokens that are aligned."""
    path = java.jar("METEOR", "meteor", "meteor-1.5.jar")
    command = [java.program("METEOR"), "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", str(path)]
    command += ["-", "-", "-stdio", "-l", "en", "-norm"]
    lines = [
        " ||| ".join(["SCORE", *(_line(reference) for reference in several), _line(hypothesis)])
        for hypothesis, several in zip(corpus.hypotheses, corpus.references, strict=True)
    ]
    with java.conversation("METEOR", command, folder=path.parent, timeout=timeout) as talk:
        counts = talk.ask(lines, len(lines))
        answers = talk.ask([" ||| ".join(["EVAL", *counts])], len(lines) + 1)
    try:
        statistics = np.array([line.split() for line in counts], dtype=np.float64)
        each = [float(line) for line in answers]
        if statistics.shape[1] != _COLUMNS:
            raise ValueError(f"{statistics.shape[1]} counts an item, not {_COLUMNS}")
    except ValueError as error:
        raise Absent(f"METEOR's Java answered with something else than numbers ({error}).") from error
    # The one chunk of a perfect match is not counted, neither alone nor in a sum.
    perfect = (statistics[:, 21:23] == statistics[:, 0:2]).all(1) & (statistics[:, 20] == 1)
    statistics[perfect, 20] = 0
    signature = sign("meteor:1.5|lang:en|norm:yes", corpus, tokenised, java.version())
    items = dict(zip(corpus.ids, each, strict=False))
    return Scores("METEOR", each[-1], items, signature, statistics, total)


def total(
    sums: Floats,  # (M, 23)
    number: int,
) -> Floats:  # (M,)
    """METEOR from sums of what the jar counts (section 2 of Denkowski and Lavie 2014).

    The columns: the lengths of hypothesis and reference, the function words of each; for each kind of match the content
    words of hypothesis and reference and the function words of each; the chunks; the matched words of each.
    """
    lengths, function = sums[:, 0:2], sums[:, 2:4]
    matches = sums[:, 4:20].reshape(-1, 4, 2, 2)  # by kind, content or function, hypothesis or reference
    chunks, matched = sums[:, 20], sums[:, 21:23]
    weighted = np.einsum("mkcs,k,c->ms", matches, _WEIGHTS, np.array([_DELTA, 1 - _DELTA]))
    sizes = _DELTA * (lengths - function) + (1 - _DELTA) * function
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (weighted / sizes).T
        mean = 1 / ((1 - _ALPHA) / precision + _ALPHA / recall)
        fragmentation = chunks / matched.mean(1)
        scores = mean * (1 - _GAMMA * fragmentation**_BETA)
    return np.nan_to_num(np.asarray(scores, dtype=np.float64), posinf=0.0, neginf=0.0)


def _line(sentence: tuple[object, ...]) -> str:
    return " ".join(join(sentence).replace("|||", "").split())
