"""From texts to a prepared corpus: words, vocabulary, token arrays, features; the folder is there whole or not at all.

Texts are read in blocks, which any number of processes split into words; lines are written as they come, ids when the
vocabulary is known, and counts that do not fit into memory are merged from sorted files. What has to be in memory is
the vocabulary, and of captions the ids of the images: not the texts, and nothing that grows with their number.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from seqsmooth.data.arrays import ArrayWriter
from seqsmooth.data.corpus import KIND, Corpus, open_corpus
from seqsmooth.data.features import FeatureSource, Id, is_picture, write_features
from seqsmooth.data.sides import Side, SideWriter, Text
from seqsmooth.files.atomic import atomic_folder, atomic_write_text
from seqsmooth.files.workers import run_blocks
from seqsmooth.ops import checks
from seqsmooth.rewards.document_counter import DocumentCounter
from seqsmooth.text import Vocabulary
from seqsmooth.text.blocks import CaptionSplitter, PairSplitter, blocks_of
from seqsmooth.text.counts import WordCounter
from seqsmooth.text.tokenisers import Tokeniser, is_named

Progress = Callable[[str, int], None]


def silent(what: str, done: int) -> None:
    """Show nothing."""


def write_captions(
    folder: str | os.PathLike[str],
    splits: Mapping[str, Iterable[tuple[Id, Sequence[Text]]]],
    features: FeatureSource | None = None,
    *,
    side: Side | None = None,
    max_words: int | None = None,
    missing: str = "refuse",
    empty: str = "refuse",
    dtype: str | None = None,
    made_from: Mapping[str, Any] | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Corpus:
    """Write captions of images as a prepared corpus.

    Args:
        folder: made anew.
        splits: for each the images, an id and captions each; "train" makes the vocabulary. Iterators will do. A caption
            is a string, or a list of words.
        features: of the images, by their ids; or the pictures themselves (`seqsmooth.data.pictures`).
        side: how captions become ids.
        max_words: cut targets after so many words (the paper: 16); references for scores stay whole.
        missing: what to do with images without features: "refuse", or "drop" them.
        empty: what to do with captions without words: "refuse", or "drop" them; and the image, where none is left.
        dtype: of the features on disk; as they are by default.
        made_from: what to remember of where it comes from.
        workers: the number of processes that split texts; where they are more than one, this one reads and writes. The
            tokeniser must have a name: one of your own stays in this process.
        progress: called with what is being done and how many items are done.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from seqsmooth.data import FeatureStore
        >>> images = [(42, ["a dog runs", "a brown dog"]), (7, ["two cats", "cats on a sofa"])]
        >>> features = FeatureStore([42, 7], np.zeros((2, 16), np.float16))
        >>> corpus = write_captions(tempfile.mkdtemp() + "/corpus", {"train": images}, features, side=Side(min_count=1))
        >>> corpus.feature_shape, len(corpus.vocabulary.words)  # four special tokens and eight words
        ((16,), 12)
    """
    checks.one_of("missing", missing, ("refuse", "drop"))
    checks.one_of("empty", empty, ("refuse", "drop"))
    side = side or Side()
    _check_splits(splits)
    _check_length(max_words)
    known = features is None or isinstance(features, FeatureSource)
    checks.must(known, "features", "a FeatureStore, or None", checks.describe(features))
    pictures = features is not None and is_picture(features.row_shape, features.dtype)
    checks.must(not pictures or dtype is None, "dtype", "left out for pictures, which are bytes", dtype)
    what = "pictures" if pictures else "features"
    workers = _workers(workers, side.tokeniser)
    with atomic_folder(folder) as out, _scratch(out) as scratch:
        items: dict[str, list[Id]] = {}
        left_out: dict[str, dict[str, int]] = {f"images_without_{what}": {}, "empty_captions": {}}
        words, texts = WordCounter(scratch, "targets"), {}
        for name, images in splits.items():
            items[name] = []
            for why in left_out.values():
                why[name] = 0
            wanted = _Wanted(name, images, features, what, missing)
            splitter = CaptionSplitter(name, side.tokeniser, drop_empty=empty == "drop")
            with (
                SideWriter(out / f"{name}.targets", scratch, words if name == "train" else None) as texts[name],
                _firsts(out, name) as firsts,
                closing(run_blocks(splitter, blocks_of(wanted), workers)) as blocks,
            ):
                for block in blocks:
                    firsts.append(np.cumsum(block.captions.items) + texts[name].texts)
                    texts[name].write(block.captions)
                    items[name] += block.ids
                    left_out["empty_captions"][name] += block.empty
                    progress(f"images of {name}", len(items[name]))
            left_out[f"images_without_{what}"][name] = wanted.without
            rule = "a split with images" + (f" that have {what}" if wanted.without else "")
            checks.must(len(items[name]) > 0, name, rule, "empty")
            with atomic_write_text(out / f"{name}.items.json") as file:
                json.dump(items[name], file)
        vocabulary = side.build(words)
        vocabulary.save(out / "vocabulary.json")
        documents = DocumentCounter(scratch)
        for name, writer in texts.items():
            _encode(writer, "token ids", vocabulary, max_words, progress, documents if name == "train" else None)
        documents.save(out / "document_frequencies.npz", lambda n: progress(f"{n}-grams of train", 0))
        if features is not None:
            _write_features(out, items, features, dtype, what, progress)
        origin = {"tokeniser": vocabulary.tokeniser, "max_words": max_words} | left_out | dict(made_from or {})
        counts = {name: len(ids) for name, ids in items.items()}
        _write_index(out, "captions", counts, origin, "features.json" if features is not None else None, progress)
    return open_corpus(folder)


def write_pairs(
    folder: str | os.PathLike[str],
    splits: Mapping[str, Iterable[tuple[Text, Text | tuple[Text, ...]]]],
    *,
    source: Side | None = None,
    target: Side | None = None,
    max_words: int | None = None,
    longer: str = "cut",
    empty: str = "refuse",
    document_frequencies: bool = True,
    made_from: Mapping[str, Any] | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Corpus:
    """Write pairs of sentences as a prepared corpus.

    Args:
        folder: made anew.
        splits: for each the pairs of source and target; "train" makes the vocabularies. Iterators will do. A text is
            a string, or a list of words; a source that has several targets has a tuple of them.
        source: how sources become ids.
        target: how targets become ids.
        max_words: the most words of either side in training.
        longer: what to do with training pairs that have more: "cut" them, or "drop" them. Those of other splits are
            kept whole.
        empty: what to do with training pairs of which a side has no words: "refuse", or "drop" them.
        document_frequencies: whether to count in how many targets each n-gram occurs, for CIDEr.
        made_from: what to remember of where it comes from.
        workers: the number of processes that split texts; where they are more than one, this one reads and writes. The
            tokeniser must have a name: one of your own stays in this process.
        progress: called with what is being done and how many pairs are done.

    Examples:
        >>> import tempfile
        >>> pairs = [("ein Hund", "a dog"), ("zwei Hunde", "two dogs")]
        >>> side = Side(min_count=1)
        >>> corpus = write_pairs(tempfile.mkdtemp() + "/pairs", {"train": pairs}, source=side, target=side)
        >>> (source,) = corpus.inputs("train", [1])
        >>> source.shape  # two words and EOS
        torch.Size([1, 3])
    """
    checks.one_of("longer", longer, ("cut", "drop"))
    checks.one_of("empty", empty, ("refuse", "drop"))
    source, target = source or Side(), target or Side()
    _check_splits(splits)
    _check_length(max_words)
    workers = _workers(workers, source.tokeniser, target.tokeniser)
    with atomic_folder(folder) as out, _scratch(out) as scratch:
        left_out = {"longer_pairs": 0, "empty_pairs": 0}
        words = WordCounter(scratch, "sources"), WordCounter(scratch, "targets")
        read, written = {}, {}
        for name, pairs in splits.items():
            training = name == "train"
            counters = words if training else (None, None)
            longest = max_words if training and longer == "drop" else None
            splitter = PairSplitter(name, source.tokeniser, target.tokeniser, longest, training and empty == "drop")
            with (
                SideWriter(out / f"{name}.sources", scratch, counters[0]) as read[name],
                SideWriter(out / f"{name}.targets", scratch, counters[1]) as written[name],
                _firsts(out, name) as firsts,
                closing(run_blocks(splitter, blocks_of(pairs), workers)) as blocks,
            ):
                for block in blocks:
                    firsts.append(np.cumsum(block.targets.items) + written[name].texts)
                    read[name].write(block.sources)
                    written[name].write(block.targets)
                    for why, number in block.left_out.items():
                        left_out[why] += number
                    progress(f"pairs of {name}", read[name].items)
            checks.must(read[name].items > 0, name, "a split with pairs", "empty")
        vocabularies = source.build(words[0]), target.build(words[1])
        documents = DocumentCounter(scratch)
        for file, writers, vocabulary in (("source.", read, vocabularies[0]), ("", written, vocabularies[1])):
            vocabulary.save(out / f"{file}vocabulary.json")
            for name, writer in writers.items():
                counter = documents if writer is written["train"] and document_frequencies else None
                what = f"token ids of the {'targets' if writers is written else 'sources'}"
                _encode(writer, what, vocabulary, max_words if name == "train" else None, progress, counter)
        if document_frequencies:
            documents.save(out / "document_frequencies.npz", lambda n: progress(f"{n}-grams of train", 0))
        origin = {
            "source_tokeniser": vocabularies[0].tokeniser,
            "tokeniser": vocabularies[1].tokeniser,
            "max_words": max_words,
            "longer": longer,
        }
        counts = {name: writer.items for name, writer in read.items()}
        _write_index(out, "translation", counts, origin | left_out | dict(made_from or {}), None, progress)
    return open_corpus(folder)


def _check_splits(splits: Mapping[str, Any]) -> None:
    checks.must(isinstance(splits, Mapping), "splits", "a mapping from names to items", checks.describe(splits))
    checks.must("train" in splits, "splits", "some with a train among them", ", ".join(splits) or "none")
    for name in splits:
        plain = name.replace("_", "").replace("-", "").isalnum()
        checks.must(plain, "splits", "names of letters and digits", repr(name))


def _check_length(max_words: int | None) -> None:
    if max_words is not None:
        checks.at_least("max_words", max_words, 1)


def _workers(workers: int, *tokenisers: Tokeniser) -> int:
    """The number of processes: one, where a tokeniser is of the user's own, and cannot be made again in another."""
    checks.at_least("workers", workers, 1)
    return workers if all(map(is_named, tokenisers)) else 1


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder for what is not kept."""
    folder = out / "scratch"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


class _Wanted:
    """The images of a split that have features; the others are counted, or refused."""

    def __init__(
        self,
        name: str,
        images: Iterable[tuple[Id, Sequence[Text]]],
        features: FeatureSource | None,
        what: str,
        missing: str,
    ) -> None:
        self._name, self._images, self._features, self._what, self._missing = name, images, features, what, missing
        self.without = 0

    def __iter__(self) -> Iterator[tuple[Id, Sequence[Text]]]:
        seen: set[Id] = set()
        for identity, texts in self._images:
            if self._features is not None and identity not in self._features.places:
                lack = f"missing for {identity!r} of {self._name}"
                checks.must(self._missing == "drop", self._what, "there for every image", lack)
                self.without += 1
                continue
            checks.must(identity not in seen, self._name, "a split with each image once", f"{identity!r} twice")
            seen.add(identity)
            yield identity, texts


def _encode(
    writer: SideWriter,
    what: str,
    vocabulary: Vocabulary,
    max_words: int | None,
    progress: Progress,
    documents: DocumentCounter | None = None,
) -> None:
    """Write the ids of one side of a split, and show their n-grams to who counts them."""
    done = 0
    progress(what, done)
    for ids, sizes, items in writer.encode(vocabulary, max_words):
        if documents is not None:
            documents.add(ids, sizes, items)
        done += len(items)
        progress(what, done)


def _firsts(out: Path, name: str) -> ArrayWriter:
    writer = ArrayWriter(out / f"{name}.firsts.npy", np.int64)
    writer.append(np.zeros(1, dtype=np.int64))
    return writer


def _write_features(
    out: Path,
    items: Mapping[str, Sequence[Id]],
    features: FeatureSource,
    dtype: str | None,
    what: str,
    progress: Progress,
) -> None:
    order: list[Id] = []
    for name, ids in items.items():
        with ArrayWriter(out / f"{name}.features.npy", np.int64) as rows:
            rows.append(np.arange(len(order), len(order) + len(ids)))
        order += ids
    write_features(out / "features", features, features.rows(order), dtype, lambda done: progress(what, done))


def _write_index(
    out: Path,
    task: str,
    counts: Mapping[str, int],
    made_from: Mapping[str, Any],
    features: str | None,
    progress: Progress,
) -> None:
    progress("fingerprint", 0)
    fingerprint = hashlib.sha256()
    # Texts and counts of n-grams follow from these.
    for path in sorted(path for path in out.iterdir() if path.suffix in (".npy", ".json")):
        with path.open("rb") as file:
            fingerprint.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    content = {
        "kind": KIND,
        "task": task,
        "splits": dict(counts),
        "fingerprint": fingerprint.hexdigest(),
        "features": features,
        "made_from": dict(made_from),
    }
    with atomic_write_text(out / "corpus.json") as index:
        json.dump(content, index, indent=1, ensure_ascii=False)
        index.write("\n")
