"""Several metrics of one system at once; one that is absent does not stop the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from seqsmooth.metrics import ptb
from seqsmooth.metrics.coco_bleu import bleus
from seqsmooth.metrics.coco_cider import cider
from seqsmooth.metrics.coco_rouge import rouge_l
from seqsmooth.metrics.corpus import Corpus, Tokens
from seqsmooth.metrics.meteor_jar import meteor
from seqsmooth.metrics.scores import Absent, Scores
from seqsmooth.metrics.sentences import Written
from seqsmooth.metrics.spice_jar import spice
from seqsmooth.metrics.translation import sacrebleu
from seqsmooth.ops import checks
from seqsmooth.text.ptb import PtbTokeniser

BLEUS = ("bleu-1", "bleu-2", "bleu-3", "bleu-4")
CAPTIONS = (*BLEUS, "rouge-l", "cider", "meteor", "spice")
TRANSLATIONS = ("sacrebleu", "sacrebleu-13a")
NAMES = (*CAPTIONS, *TRANSLATIONS)
TOKENISATIONS = ("none", "lower", "ptb", "ptb-jar")


def score(
    hypotheses: Mapping[str, Written],
    references: Mapping[str, Sequence[Written]],
    names: Sequence[str] = CAPTIONS,
    *,
    tokenise: str = "none",
    corenlp: str | os.PathLike[str] | None = None,
    timeout: float = 600.0,
) -> tuple[dict[str, Scores], dict[str, str]]:
    """Calculate metrics by their names: the scores, and why the others are absent.

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
    for name in names:
        checks.one_of("metrics", name, NAMES)
    checks.one_of("tokenise", tokenise, TOKENISATIONS)
    corpus = tokenised(hypotheses, references, tokenise, timeout=timeout)
    ours = dict(zip(corpus.ids, corpus.hypotheses, strict=True))
    theirs = dict(zip(corpus.ids, corpus.references, strict=True))
    plain = {key: hypotheses[key].text for key in references}
    plain_references = {key: [written.text for written in several] for key, several in references.items()}
    counted = bleus(corpus, tokenised=tokenise) if set(names) & set(BLEUS) else []
    known: dict[str, Callable[[], Scores]] = {
        "rouge-l": lambda: rouge_l(ours, theirs, tokenised=tokenise),
        "cider": lambda: cider(ours, theirs, tokenised=tokenise),
        "meteor": lambda: meteor(ours, theirs, timeout=timeout, tokenised=tokenise),
        "spice": lambda: spice(ours, theirs, corenlp=corenlp, timeout=timeout, tokenised=tokenise),
        "sacrebleu": lambda: sacrebleu(ours, theirs),
        "sacrebleu-13a": lambda: sacrebleu(plain, plain_references, tokenise="13a", lowercase=False),
    }
    scores, absent = dict(zip(BLEUS, counted, strict=False)), {}
    for name in names:
        if name not in BLEUS:
            try:
                scores[name] = known[name]()
            except Absent as why:
                absent[name] = str(why)
    return {name: scores[name] for name in names if name in scores}, absent


def tokenised(
    hypotheses: Mapping[str, Written], references: Mapping[str, Sequence[Written]], how: str, *, timeout: float = 600.0
) -> Corpus:
    """Tokenise both sides, all sentences at once."""
    everything = [hypotheses[key] for key in references]
    everything += [written for several in references.values() for written in several]
    words: list[Tokens]
    if how == "ptb":
        split = PtbTokeniser()
        words = [tuple(split(written.text)) for written in everything]
    elif how == "ptb-jar":
        words = [tuple(made) for made in ptb.tokenise([written.text for written in everything], timeout=timeout)]
    elif how == "lower":
        words = [tuple(word.lower() for word in written.words()) for written in everything]
    else:
        words = [written.words() for written in everything]
    made = iter(words)
    ours = {key: next(made) for key in references}
    return Corpus.align(ours, {key: [next(made) for _ in several] for key, several in references.items()})
