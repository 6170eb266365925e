"""From texts to a prepared corpus: words, vocabulary, token arrays, features; the folder is there whole or not at all.

Texts are written, tokenised, as they come, and encoded in a second pass, when the vocabulary is known: what has to be
in memory is the vocabulary and the ids of the items, not the texts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqsmooth.data.arrays import ArrayWriter
from seqsmooth.data.corpus import KIND, Corpus, open_corpus
from seqsmooth.data.features import FeatureSource, Id, is_picture, write_features
from seqsmooth.data.sides import Lines, Side, Text, check_words, encode, sentences
from seqsmooth.files.atomic import atomic_folder, atomic_write_text
from seqsmooth.ops import checks
from seqsmooth.text import Vocabulary, WordCounts, document_frequencies

MOST_DOCUMENTS = 1_000_000  # beyond, the n-grams of all documents would not fit into memory
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
    with atomic_folder(folder) as out:
        items: dict[str, list[Id]] = {}
        left_out: dict[str, dict[str, int]] = {f"images_without_{what}": {}, "empty_captions": {}}
        words = WordCounts({}, 0)
        for name, images in splits.items():
            items[name], without, emptied = [], 0, 0
            seen: set[Id] = set()
            with Lines(out / f"{name}.targets.txt", counted=name == "train") as lines, _firsts(out, name) as firsts:
                for identity, texts in images:
                    if features is not None and identity not in features.places:
                        lack = f"missing for {identity!r} of {name}"
                        checks.must(missing == "drop", what, "there for every image", lack)
                        without += 1
                        continue
                    checks.must(identity not in seen, name, "a split with each image once", f"{identity!r} twice")
                    seen.add(identity)
                    listed = not isinstance(texts, str)  # or else its letters would be captions
                    checks.must(listed, f"captions of the image {identity!r} of {name}", "a list of texts", repr(texts))
                    captions = [side.words(text) for text in texts]
                    some = [caption for caption in captions if caption or empty == "refuse"]
                    emptied += len(captions) - len(some)
                    if captions and not some:
                        continue
                    for number, caption in enumerate(some, 1):
                        check_words(caption, f"caption {number} of the image {identity!r} of {name}")
                        lines.write(caption)
                    firsts.append(np.array([lines.written]))
                    items[name].append(identity)
                    progress(f"images of {name}", len(items[name]))
            rule = "a split with images" + (f" that have {what}" if without else "")
            checks.must(len(items[name]) > 0, name, rule, "empty")
            left_out[f"images_without_{what}"][name] = without
            left_out["empty_captions"][name] = emptied
            words = lines.counts() if name == "train" else words
            with atomic_write_text(out / f"{name}.items.json") as file:
                json.dump(items[name], file)
        vocabulary = side.build(words)
        vocabulary.save(out / "vocabulary.json")
        progress("token ids", 0)
        encode(out, splits, "targets", vocabulary, max_words)
        _count_documents(out, len(items["train"]), vocabulary, progress)
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
    made_from: Mapping[str, Any] | None = None,
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
        made_from: what to remember of where it comes from.
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
    longest = max_words if longer == "drop" else None
    with atomic_folder(folder) as out:
        counts: dict[str, int] = {}
        left_out = {"longer_pairs": 0, "empty_pairs": 0}
        words = (WordCounts({}, 0), WordCounts({}, 0))
        for name, pairs in splits.items():
            training = name == "train"
            with (
                Lines(out / f"{name}.sources.txt", counted=training) as sources,
                Lines(out / f"{name}.targets.txt", counted=training) as targets,
                _firsts(out, name) as firsts,
            ):
                for number, pair in enumerate(pairs, 1):
                    paired = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
                    checks.must(paired, f"pair {number} of {name}", "a source and a target", repr(pair))
                    text, several = pair
                    read = source.words(text)
                    written = [target.words(one) for one in (several if isinstance(several, tuple) else (several,))]
                    if training and empty == "drop" and not (read and written and all(written)):
                        left_out["empty_pairs"] += 1
                        continue
                    if training and longest is not None and max(map(len, (read, *written))) > longest:
                        left_out["longer_pairs"] += 1
                        continue
                    check_words(read, f"source {number} of {name}")
                    checks.must(len(written) > 0, f"pair {number} of {name}", "one with a target", "one without")
                    sources.write(read)
                    for one in written:
                        check_words(one, f"target {number} of {name}")
                        targets.write(one)
                    firsts.append(np.array([targets.written]))
                    if sources.written % 1000 == 0:
                        progress(f"pairs of {name}", sources.written)
            checks.must(sources.written > 0, name, "a split with pairs", "empty")
            counts[name] = sources.written
            words = (sources.counts(), targets.counts()) if training else words
        vocabularies = source.build(words[0]), target.build(words[1])
        for side, file, vocabulary in zip(("sources", "targets"), ("source.", ""), vocabularies, strict=True):
            vocabulary.save(out / f"{file}vocabulary.json")
            progress(f"token ids of the {side}", 0)
            encode(out, ["train"], side, vocabulary, max_words)
            encode(out, [name for name in splits if name != "train"], side, vocabulary, None)
        _count_documents(out, counts["train"], vocabularies[1], progress)
        origin = {
            "source_tokeniser": vocabularies[0].tokeniser,
            "tokeniser": vocabularies[1].tokeniser,
            "max_words": max_words,
            "longer": longer,
        }
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


def _count_documents(out: Path, documents: int, vocabulary: Vocabulary, progress: Progress) -> None:
    if documents > MOST_DOCUMENTS:
        return
    progress("n-grams of train", 0)
    sizes = np.diff(np.load(out / "train.firsts.npy")).tolist()
    texts = sentences(out / "train.targets.txt")
    document_frequencies(([next(texts) for _ in range(size)] for size in sizes), vocabulary).save(
        out / "document_frequencies.npz"
    )


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
