"""Items chosen at random, with what each system wrote for them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqsmooth.data import Corpus
from seqsmooth.ops import checks
from seqsmooth.reports.rows import Row

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True)
class Example:
    """An item.

    Attributes:
        name: its id.
        references: what people wrote.
        written: what each row wrote, in the order of the rows, and the score of that.
        source: what was to be translated; empty for captions.
        picture: as an address for a page, the picture itself inside; empty where there is none.
    """

    name: str
    references: tuple[str, ...]
    written: tuple[tuple[str, float | None], ...]
    source: str = ""
    picture: str = ""


def choose(
    rows: Sequence[Row], corpus: Corpus, split: str, number: int, seed: int, pictures: Path | None = None
) -> list[Example]:
    """Draw items; each row is shown by the run of its first seed."""
    checks.at_least("examples", number, 0)
    checks.at_least("seed", seed, 0)
    ids = corpus.ids(split)
    chosen = sorted(np.random.default_rng(seed).choice(len(ids), min(number, len(ids)), replace=False).tolist())
    references = corpus.references(split)
    metric = "cider" if corpus.task == "captions" else "sacrebleu"
    sources = _sources(corpus, split)
    told = [dict(row.runs[0].hypotheses(split)) for row in rows]
    found = []
    for place in chosen:
        name = ids[place]
        written = []
        for row, hypotheses in zip(rows, told, strict=True):
            best = hypotheses.get(name)
            words = corpus.vocabulary.sentence(best[0].tokens) if best else []
            scores = row.scores[0].get(metric)
            written.append((" ".join(words), None if scores is None else scores.scale * scores.each[str(name)]))
        theirs = tuple(" ".join(words) for words in references[place])
        picture = "" if pictures is None else _inlined(pictures, name)
        found.append(Example(str(name), theirs, tuple(written), sources[place] if sources else "", picture))
    return found


def _sources(corpus: Corpus, split: str) -> list[str]:
    read = corpus.source_vocabulary
    if read is None:
        return []
    return [" ".join(read.join(line.split(" "))) for line in corpus.texts(split, "sources")]


def _inlined(folder: Path, name: int | str) -> str:
    """A picture as a data: address; files are named by the id, or as COCO names them."""
    names = [f"{name}{ending}" for ending in TYPES]
    if isinstance(name, int):
        names += [f"COCO_{part}2014_{name:012d}.jpg" for part in ("val", "train")] + [f"{name:012d}.jpg"]
    for file in (folder / held for held in names):
        if file.is_file():
            return f"data:{TYPES[file.suffix]};base64,{base64.b64encode(file.read_bytes()).decode()}"
    return ""
