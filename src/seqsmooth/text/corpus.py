"""Tokenised sentences from files: lines of text, or the captions of a Karpathy json."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from typing import Any

from seqsmooth.ops import checks
from seqsmooth.ops.files import check_source
from seqsmooth.text.tokenisers import Tokeniser, WhitespaceTokeniser


def read_sentences(
    path: str | os.PathLike[str], tokeniser: Tokeniser | None = None, splits: Sequence[str] = ()
) -> tuple[list[list[str]], str]:
    """Read the sentences of a file, and say what split them into words.

    Args:
        path: lines of text (`.gz` or not), or a Karpathy `dataset.json`.
        tokeniser: splits the text; where None, a json's own `tokens` are taken and text is split at white space.
        splits: take only these splits of a json, as in ("train", "restval"); all where empty.
    """
    path = check_source("corpus", path)
    opened = gzip.open if path.name.endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            if path.name.removesuffix(".gz").endswith(".json"):
                return _captions(json.load(file), str(path), tokeniser, splits)
            checks.must(not splits, "splits", "left out where the corpus is no json", ",".join(splits))
            chosen = tokeniser or WhitespaceTokeniser()
            sentences = [words for line in file if (words := chosen(line))]
    except UnicodeDecodeError as error:
        raise ValueError(f"`corpus` must be text in UTF-8, but {path} is not.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"`corpus` must be whole JSON, but {path} is damaged at {where} instead.") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"`corpus` must be a whole gzip file, but {path} is damaged instead.") from error
    checks.must(len(sentences) > 0, "corpus", "a file with words in it", str(path))
    return sentences, chosen.signature


def _captions(held: Any, path: str, tokeniser: Tokeniser | None, splits: Sequence[str]) -> tuple[list[list[str]], str]:
    try:
        images = held["images"]
        there = sorted({str(image["split"]) for image in images}) if splits else []
        for split in splits:
            checks.one_of("splits", split, there)
        captions = [
            caption for image in images if not splits or image["split"] in splits for caption in image["sentences"]
        ]
        if tokeniser is None:
            sentences = [[str(word) for word in caption["tokens"]] for caption in captions]
        else:
            sentences = [tokeniser(caption["raw"]) for caption in captions]
    except (KeyError, TypeError, AttributeError) as error:
        rule = "a Karpathy json: `images`, each with `sentences`, each with `tokens` and `raw`"
        raise ValueError(f"`corpus` must be {rule}, but {path} is something else instead.") from error
    sentences = [words for words in sentences if words]
    checks.must(len(sentences) > 0, "corpus", "a file with words in it", path)
    return sentences, "karpathy" if tokeniser is None else tokeniser.signature
