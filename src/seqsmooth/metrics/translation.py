"""BLEU of translations, by sacreBLEU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqsmooth import checks
from seqsmooth.metrics.evaluation_set import EvaluationSet, Id, Sentence, Tokens, join
from seqsmooth.metrics.ngram_matches import count_matches
from seqsmooth.metrics.scores import Absent, Scores

Floats = NDArray[np.float64]
ORDER = 4
"""The length of the longest n-grams of sacreBLEU."""


def sacrebleu(
    hypotheses: Mapping[Id, Sentence],
    references: Mapping[Id, Sequence[Sentence]],
    *,
    tokenise: str = "none",
    lowercase: bool = True,
) -> Scores:
    """EvaluationSet BLEU in points, 0 to 100, with the signature of sacreBLEU (Post 2018).

    The default is what Elbayad et al. (2018) report: sentences that are tokenised already, case-insensitive. For
    sentences as people write them, and numbers that compare between papers, `tokenise="13a"`. The score of a single
    item is sacreBLEU's sentence BLEU with effective order.

    Args:
        hypotheses: one sentence for each id; tokens are joined by blanks.
        references: the references of each id.
        tokenise: one of sacreBLEU's tokenisers, as in "none", "13a", "intl", "char". Some need other packages; `Absent`
            says which.
        lowercase: whether case does not matter.

    Examples:
        >>> scores = sacrebleu({1: "A dog runs ."}, {1: ["a dog runs ."]})
        >>> f"{scores.value:.1f}"  # case does not matter, unless asked
        '100.0'
        >>> scores.signature.split("|")[1]
        'case:lc'
    """
    corpus = EvaluationSet.align(hypotheses, references)
    texts = [_text(hypotheses[key], own) for key, own in zip(corpus.ids, corpus.hypotheses, strict=True)]
    gold = [
        [_text(*pair) for pair in zip(references[key], several, strict=True)]
        for key, several in zip(corpus.ids, corpus.references, strict=True)
    ]
    return score_sacrebleu(corpus, (texts, gold), tokenise=tokenise, lowercase=lowercase)


def score_sacrebleu(
    corpus: EvaluationSet,
    texts: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None,
    *,
    tokenise: str = "none",
    lowercase: bool = True,
) -> Scores:
    """Calculate sacreBLEU of tokens that are aligned, or of the texts that they come from, in the same order."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        rule = "the package sacrebleu, which is not installed: `pip install sacrebleu`"
        raise Absent(f"sacreBLEU needs {rule}.") from error
    checks.one_of("tokenise", tokenise, sorted(BLEU.TOKENIZERS))
    checks.flag("lowercase", lowercase)
    ours, gold = texts or (list(map(join, corpus.hypotheses)), [list(map(join, row)) for row in corpus.references])
    options: dict[str, Any] = {"tokenize": tokenise, "lowercase": lowercase, "force": True, "smooth_method": "exp"}
    try:
        metric = BLEU(**options)
    except (ImportError, RuntimeError, OSError) as error:  # a package or a file that this tokeniser needs
        raise Absent(f"sacreBLEU has no tokeniser {tokenise!r} here: {' '.join(str(error).split())}") from error

    def words(text: str) -> Tokens:
        return tuple(metric.tokenizer((text.lower() if lowercase else text).rstrip()).split())

    # Counted once, for the corpus and for each item; sacreBLEU counts again for each sentence score.
    tokens = [words(text) for text in ours], [list(map(words, several)) for several in gold]
    counts = count_matches(*tokens, ORDER).astype(np.float64)
    value = float(total(counts.sum(0, keepdims=True), len(corpus))[0])
    each = dict(zip(corpus.ids, total(counts, 1, effective_order=True).tolist(), strict=True))
    signature = f"{_signature(metric, gold)}|items:{len(corpus)}|refs:{corpus.checksum}"
    name = f"sacreBLEU ({tokenise}{', lc' if lowercase else ''})"
    return Scores(name, value, each, signature, counts, total, scale=1.0)


def total(
    sums: Floats,  # (M, 2 + 2 order)
    number: int,
    *,
    effective_order: bool = False,
) -> Floats:  # (M,)
    """BLEU from sums of lengths, matches and n-grams, by sacreBLEU's own formula and its default smoothing."""
    from sacrebleu.metrics.bleu import BLEU

    order = (sums.shape[1] - 2) // 2
    scores = [
        BLEU.compute_bleu(
            row[2 : 2 + order], row[2 + order :], row[0], row[1], "exp", effective_order=effective_order
        ).score
        for row in sums.round().astype(int).tolist()
    ]
    return np.array(scores)


def _signature(metric: Any, gold: Sequence[Sequence[str]]) -> str:
    """Write sacreBLEU's signature, which knows the number of references once something was scored."""
    numbers = sorted({len(several) for several in gold})
    # Where an item has fewer references than others, sacreBLEU passes over None.
    streams = [list(stream) for stream in zip_longest(*([""] * number for number in numbers))]
    metric.corpus_score([""] * len(numbers), streams)
    return str(metric.get_signature())


def _text(sentence: Sentence, tokens: Tokens) -> str:
    return sentence if isinstance(sentence, str) else join(tokens)
