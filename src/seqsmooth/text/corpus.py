"""Tokenised sentences from files: lines of text, or the captions of a json."""

from __future__ import annotations

import os
from collections.abc import Sequence

from seqsmooth import checks
from seqsmooth.files.collector import pause_collector
from seqsmooth.files.paths import check_source
from seqsmooth.files.reading import read_lines
from seqsmooth.text.captions import read_captions
from seqsmooth.text.tokenisers import Tokeniser, WhitespaceTokeniser


@pause_collector()
def read_sentences(
    path: str | os.PathLike[str], tokeniser: Tokeniser | None = None, splits: Sequence[str] = ()
) -> tuple[list[list[str]], str]:
    """Read the sentences of a file, and say what split them into words.

    Args:
        path: lines of text (`.gz` or not), Karpathy's `dataset.json`, or COCO's annotations.
        tokeniser: splits the text; where None, a json's own `tokens` are taken and text is split at white space.
        splits: take only these splits of a json, as in ("train", "restval"); all where empty.
    """
    path = check_source("corpus", path)
    if path.name.removesuffix(".gz").endswith(".json"):
        sentences, signature = _captions(path, tokeniser, splits)
    else:
        checks.must(not splits, "splits", "left out where the corpus is no json", ",".join(splits))
        chosen = tokeniser or WhitespaceTokeniser()
        sentences = [words for line in read_lines(path, "corpus") if (words := chosen(line))]
        signature = chosen.signature
    checks.must(len(sentences) > 0, "corpus", "a file with words in it", str(path))
    return sentences, signature


def _captions(
    path: str | os.PathLike[str], tokeniser: Tokeniser | None, splits: Sequence[str]
) -> tuple[list[list[str]], str]:
    images = read_captions(path, "corpus")
    there = sorted({image.split for image in images if image.split})
    for split in splits:
        checks.one_of("splits", split, there)
    captions = [caption for image in images if not splits or image.split in splits for caption in image.captions]
    if tokeniser is not None:
        return [words for caption in captions if (words := tokeniser(caption.raw))], tokeniser.signature
    rule = "given where the captions are not tokenised"
    checks.must(all(caption.words is not None for caption in captions), "tokeniser", rule, None)
    return [list(caption.words) for caption in captions if caption.words], "karpathy"
