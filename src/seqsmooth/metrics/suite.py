"""Several metrics of one system; one that is absent does not stop the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from seqsmooth import checks
from seqsmooth.metrics import ptb
from seqsmooth.metrics.coco_bleu import score_bleus
from seqsmooth.metrics.coco_rouge import score_rouge_l
from seqsmooth.metrics.evaluation_set import EvaluationSet, Id, Tokens
from seqsmooth.metrics.meteor_jar import score_meteor
from seqsmooth.metrics.scores import Absent, Scores
from seqsmooth.metrics.sentences import Segment
from seqsmooth.metrics.spice_jar import score_spice
from seqsmooth.metrics.tasks import BLEUS, TASKS, check_names
from seqsmooth.metrics.translation import sacrebleu, score_sacrebleu
from seqsmooth.text.ptb import PtbTokeniser

TOKENISATIONS = ("none", "lower", "ptb", "ptb-jar")
Texts = tuple[Mapping[Id, str], Mapping[Id, Sequence[str]]]


def score(
    hypotheses: Mapping[str, Segment],
    references: Mapping[str, Sequence[Segment]],
    names: Sequence[str] = TASKS["captions"].metrics,
    *,
    tokenise: str = "none",
    corenlp: str | os.PathLike[str] | None = None,
    timeout: float = 600.0,
) -> tuple[dict[str, Scores], dict[str, str]]:
    """Tokenise sentences of files and calculate metrics: the scores, and why the others are absent.

    Args:
        hypotheses: one sentence for each id.
        references: the references of each id.
        names: the metrics, out of `NAMES`.
        tokenise: "none" for tokens as they are (text is split at white space), "lower" for these in lower case, "ptb"
            for coco-caption's tokeniser in pure Python, "ptb-jar" for its own in Java. "sacrebleu-13a" has its own, and
            takes the text as it is.
        corenlp: the folder of Stanford CoreNLP, for SPICE.
        timeout: how many seconds each subprocess may take.
    """
    checks.one_of("tokenise", tokenise, TOKENISATIONS)
    check_names(names)
    corpus = align_segments(hypotheses, references, tokenise, timeout=timeout)
    texts = (
        {key: hypotheses[key].text for key in references},
        {key: [segment.text for segment in several] for key, several in references.items()},
    )
    return score_set(corpus, names, texts=texts, tokenised=tokenise, corenlp=corenlp, timeout=timeout)


def score_set(
    corpus: EvaluationSet,
    names: Sequence[str],
    *,
    texts: Texts | None = None,
    tokenised: str = "none",
    corenlp: str | os.PathLike[str] | None = None,
    timeout: float = 600.0,
) -> tuple[dict[str, Scores], dict[str, str]]:
    """Calculate metrics of tokens that are aligned: the scores, and why the others are absent.

    Args:
        corpus: the tokens.
        names: the metrics, out of `NAMES`.
        texts: hypotheses and references before they were tokenised, for "sacrebleu-13a"; the tokens with blanks between
            them by default.
        tokenised: how, for the signatures.
        corenlp: the folder of Stanford CoreNLP, for SPICE.
        timeout: how many seconds each subprocess may take.
    """
    check_names(names)
    known: dict[str, Callable[[], Scores]] = {
        "rouge-l": lambda: score_rouge_l(corpus, tokenised=tokenised),
        "cider": lambda: _score_cider(corpus, tokenised),
        "meteor": lambda: score_meteor(corpus, timeout=timeout, tokenised=tokenised),
        "spice": lambda: score_spice(corpus, corenlp=corenlp, timeout=timeout, tokenised=tokenised),
        "sacrebleu": lambda: score_sacrebleu(corpus),
        "sacrebleu-13a": lambda: (
            score_sacrebleu(corpus, tokenise="13a", lowercase=False)
            if texts is None
            else sacrebleu(*texts, tokenise="13a", lowercase=False)
        ),
    }
    bleus = score_bleus(corpus, tokenised=tokenised) if set(names) & set(BLEUS) else []
    scores, absent = dict(zip(BLEUS, bleus, strict=False)), {}
    for name in names:
        if name not in BLEUS:
            try:
                scores[name] = known[name]()
            except Absent as why:
                absent[name] = str(why)
    return {name: scores[name] for name in names if name in scores}, absent


def _score_cider(corpus: EvaluationSet, tokenised: str) -> Scores:
    from seqsmooth.metrics.coco_cider import score_cider  # the one metric that needs torch

    return score_cider(corpus, tokenised=tokenised)


def align_segments(
    hypotheses: Mapping[str, Segment], references: Mapping[str, Sequence[Segment]], how: str, *, timeout: float = 600.0
) -> EvaluationSet:
    """Tokenise both sides, all sentences at once, and align them."""
    segments = [hypotheses[key] for key in references]
    segments += [segment for several in references.values() for segment in several]
    words: list[Tokens]
    if how == "ptb":
        split = PtbTokeniser()
        words = [tuple(split(segment.text)) for segment in segments]
    elif how == "ptb-jar":
        words = [tuple(line) for line in ptb.tokenise([segment.text for segment in segments], timeout=timeout)]
    elif how == "lower":
        words = [tuple(word.lower() for word in segment.words()) for segment in segments]
    else:
        words = [segment.words() for segment in segments]
    rest = iter(words)
    ours = {key: next(rest) for key in references}
    return EvaluationSet.align(ours, {key: [next(rest) for _ in several] for key, several in references.items()})
