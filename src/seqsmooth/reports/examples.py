"""Items with the texts that the rows of a table wrote for them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from seqsmooth.data import Corpus
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.metrics.tasks import TASKS
from seqsmooth.reports.rows import Row
from seqsmooth.training.runs import Run

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True)
class Example:
    """An item of a split.

    Attributes:
        name: its id.
        outputs: the text of each row, in the order of the rows, and the score of that text.
        references: the texts of people; none where only records are there.
        source: the text to translate; empty for captions.
        picture: the picture itself as an address of a page; empty where there is none.
    """

    name: str
    outputs: tuple[tuple[str, float | None], ...]
    references: tuple[str, ...] = ()
    source: str = ""
    picture: str = ""

    @cached_property
    def known(self) -> frozenset[str]:
        """The words of the references."""
        return frozenset(word for text in self.references for word in text.split())

    def odd(self, word: str) -> bool:
        """Whether none of the references has a word."""
        return len(self.references) > 0 and word not in self.known


def draw_examples(rows: Sequence[Row], number: int, seed: int, pictures: Path | None = None) -> list[Example]:
    """Draw items at random. Each row is shown by the run of its first seed; of records, the items are those they have.

    Args:
        rows: of one table.
        number: of items.
        seed: the items follow from it.
        pictures: a folder of images, named by the ids of the items or as COCO names them.
    """
    runs = [row.first.run for row in rows if row.first.run is not None]
    if len(runs) < len(rows):
        return _draw_from_records(rows, number, seed)
    split = rows[0].first.split
    corpus, texts = runs[0].corpus(), [dict(run.hypotheses(split)) for run in runs]
    scores = [_item_scores(run, split, TASKS[corpus.task].main) for run in runs]
    references, sources = corpus.references(split), read_sources(corpus, split)
    examples = []
    for place in _draw(len(corpus.ids(split)), number, seed):
        name = corpus.ids(split)[place]
        outputs = []
        for hypotheses, known in zip(texts, scores, strict=True):
            best = hypotheses.get(name)
            words = corpus.vocabulary.sentence(best[0].tokens) if best else []
            outputs.append((" ".join(words), known.get(str(name))))
        theirs = tuple(" ".join(words) for words in references[place])
        picture = "" if pictures is None else _inline_picture(pictures, name)
        examples.append(Example(str(name), tuple(outputs), theirs, sources[place] if sources else "", picture))
    return examples


def _draw_from_records(rows: Sequence[Row], number: int, seed: int) -> list[Example]:
    texts = [{output.item: output.text for output in row.first.examples} for row in rows]
    shared = [item for item in texts[0] if all(item in known for known in texts)]
    names = [shared[place] for place in _draw(len(shared), number, seed)]
    return [Example(name, tuple((known[name], None) for known in texts)) for name in names]


def _draw(items: int, number: int, seed: int) -> list[int]:
    chosen: list[int] = np.random.default_rng(seed).choice(items, min(number, items), replace=False).tolist()
    return sorted(chosen)


def _item_scores(run: Run, split: str, metric: str) -> Mapping[str, float]:
    """The score of each item in the unit of papers, where the run was scored."""
    if not run.scores(split).is_file():
        return {}
    scores = Scorecard.load(run.scores(split)).scores.get(metric)
    return {} if scores is None else {str(name): scores.scale * value for name, value in scores.each.items()}


def read_sources(corpus: Corpus, split: str) -> list[str]:
    """The texts to translate, in words; none for captions."""
    vocabulary = corpus.source_vocabulary
    if vocabulary is None:
        return []
    return [" ".join(vocabulary.join(line.split(" "))) for line in corpus.texts(split, "sources")]


def _inline_picture(folder: Path, name: int | str) -> str:
    """A picture as a data: address."""
    names = [f"{name}{ending}" for ending in TYPES]
    if isinstance(name, int):
        names += [f"COCO_{part}2014_{name:012d}.jpg" for part in ("val", "train")] + [f"{name:012d}.jpg"]
    for file in (folder / each for each in names):
        if file.is_file():
            return f"data:{TYPES[file.suffix]};base64,{base64.b64encode(file.read_bytes()).decode()}"
    return ""
