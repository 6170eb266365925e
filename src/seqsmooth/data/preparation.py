"""Prepare a corpus: the work of `seqsmooth prepare`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqsmooth.data.corpus import Corpus
from seqsmooth.data.feature_files import rename_features
from seqsmooth.data.features import FeatureSource, Id
from seqsmooth.data.sides import Side, Text
from seqsmooth.data.writing import Progress, silent, write_captions
from seqsmooth.files.paths import check_new_folder
from seqsmooth.ops import checks
from seqsmooth.text import Tokeniser, WhitespaceTokeniser
from seqsmooth.text.captions import CaptionedImage, read_captions

KARPATHY_SPLITS: Mapping[str, Sequence[str]] = {"train": ("train",), "val": ("val",), "test": ("test",)}


class GivenTokens(WhitespaceTokeniser):
    """The words that a Karpathy json has itself."""

    signature = "karpathy"


def prepare_captions(
    files: Mapping[str, str | os.PathLike[str]] | str | os.PathLike[str],
    out: str | os.PathLike[str],
    features: FeatureSource | None = None,
    *,
    splits: Mapping[str, Sequence[str]] = KARPATHY_SPLITS,
    tokeniser: Tokeniser | None = None,
    min_count: int = 5,
    most_words: int | None = None,
    max_words: int | None = None,
    missing: str = "refuse",
    empty: str = "refuse",
    dtype: str | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Corpus:
    """Prepare captions of images.

    Args:
        files: Karpathy's json, or COCO's annotations by the name of the split that each is.
        out: the folder, made anew.
        features: of the images, by any of their names.
        splits: of Karpathy's json: which of its splits make up each of ours.
        tokeniser: splits captions; by default the words of Karpathy's json are taken.
        min_count: words that are rarer in training become UNK.
        most_words: keep no more than so many words, the most frequent.
        max_words: cut targets after so many words.
        missing: what to do with images without features: "refuse", or "drop" them.
        empty: what to do with captions without words: "refuse", or "drop" them.
        dtype: of the features on disk; as they are by default.
        workers: the number of processes that split captions.
        progress: called with what is being done and how many items are done.
    """
    check_new_folder("out", out)
    images_of: dict[str, list[CaptionedImage]]
    progress("reading", 0)
    if isinstance(files, Mapping):
        images_of = {name: read_captions(path) for name, path in files.items()}
        made_from: dict[str, Any] = {"files": {name: Path(path).name for name, path in files.items()}}
    else:
        images = read_captions(files)
        there = sorted({image.split for image in images})
        rule = "COCO's annotations by split, as in train=captions_train2014.json"
        checks.must(there != [""], "captions", rule, f"{files} without one")
        for several in splits.values():
            for one in several:
                checks.one_of("splits", one, there)
        images_of = {name: [image for image in images if image.split in several] for name, several in splits.items()}
        made_from = {"files": Path(files).name, "splits": {name: list(several) for name, several in splits.items()}}
    if features is not None:
        features = rename_features(features, [image for images in images_of.values() for image in images])
    side = Side(tokeniser or GivenTokens(), min_count, most_words)
    return write_captions(
        out,
        {name: _texts(images, given=tokeniser is None) for name, images in images_of.items()},
        features,
        side=side,
        max_words=max_words,
        missing=missing,
        empty=empty,
        dtype=dtype,
        made_from=made_from,
        workers=workers,
        progress=progress,
    )


def _texts(images: Sequence[CaptionedImage], *, given: bool) -> Iterator[tuple[Id, Sequence[Text]]]:
    for image in images:
        if not given:
            yield image.id, [caption.raw for caption in image.captions]
            continue
        words = [caption.words for caption in image.captions]
        checks.must(None not in words, "tokeniser", "given where the captions are not tokenised", "left out")
        yield image.id, [several for several in words if several is not None]
