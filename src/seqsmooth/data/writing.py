"""From texts to a prepared corpus: words, vocabulary, token arrays, features; the folder is there whole or not at all.

Texts are written, tokenised, as they come, and encoded in a second pass, when the vocabulary is known: what has to be
in memory is the vocabulary and the ids of the items, not the texts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seqsmooth.data.arrays import ArrayWriter
from seqsmooth.data.corpus import KIND, Corpus, open_corpus
from seqsmooth.data.features import FeatureSource, Id, rows_of, write_features
from seqsmooth.data.tokens import write_tokens
from seqsmooth.ops import checks
from seqsmooth.ops.files import folder_written_whole, text_written_whole
from seqsmooth.text import Tokeniser, Vocabulary, WhitespaceTokeniser, WordCounts, document_frequencies

Text = str | Sequence[str]
MOST_DOCUMENTS = 1_000_000  # beyond, document frequencies would not fit into memory

Progress = Callable[[str, int], None]


def silent(what: str, done: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Side:
    """How the texts of one side become ids.

    Attributes:
        tokeniser: splits texts; those given as lists of words are split already.
        min_count: words that are rarer in training become UNK.
        most_words: keep no more than so many words, the most frequent.
        vocabulary: one that is given; the other two are not asked then.
    """

    tokeniser: Tokeniser = field(default_factory=WhitespaceTokeniser)
    min_count: int = 5
    most_words: int | None = None
    vocabulary: Vocabulary | None = None

    def words(self, text: Text) -> Sequence[str]:
        """The words of a text."""
        return self.tokeniser(text) if isinstance(text, str) else text

    def build(self, counts: WordCounts) -> Vocabulary:
        """The vocabulary of the words that occur often enough."""
        if self.vocabulary is not None:
            return self.vocabulary
        signature = self.tokeniser.signature
        return counts.vocabulary(min_count=self.min_count, max_words=self.most_words, tokeniser=signature)


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
        splits: for each the images, an id and captions each; "train" makes the vocabulary. Iterators will do.
        features: of the images, by their ids.
        side: how captions become ids.
        max_words: cut targets after so many words (the paper: 16); references for scores stay whole.
        missing: what to do with images without features: "refuse", or "drop" them.
        empty: what to do with captions without words: "refuse", or "drop" them; and the image, where none is left.
        dtype: of the features on disk; as they are by default.
        made_from: what to remember of where it comes from.
        progress: called with what is being done and how many items are done.
    """
    checks.one_of("missing", missing, ("refuse", "drop"))
    checks.one_of("empty", empty, ("refuse", "drop"))
    side = side or Side()
    _check_splits(splits)
    with folder_written_whole(folder) as out:
        counts, without, emptied = {}, {}, {}
        order: list[Id] = []
        words: Counter[str] = Counter()
        sentences = 0
        for name, images in splits.items():
            ids: list[Id] = []
            without[name] = emptied[name] = total = 0
            with text_written_whole(out / f"{name}.targets.txt") as file, _firsts(out, name) as firsts:
                for identity, captions in images:
                    if features is not None and identity not in features.places:
                        told = f"missing for {identity!r} of {name}"
                        checks.must(missing == "drop", "features", "there for every image", told)
                        without[name] += 1
                        continue
                    written = []
                    for number, text in enumerate(captions, 1):
                        split = side.words(text)
                        if not split and empty == "drop":
                            emptied[name] += 1
                            continue
                        _check_words(split, f"caption {number} of the image {identity!r} of {name}")
                        written.append(split)
                    if captions and not written:
                        continue
                    file.writelines(" ".join(split) + "\n" for split in written)
                    if name == "train":
                        for split in written:
                            words.update(split)
                        sentences += len(written)
                    ids.append(identity)
                    total += len(written)
                    firsts.append(np.array([total]))
                    progress(f"images of {name}", len(ids))
            rule = "a split with images" + (" that have features" if without[name] else "")
            checks.must(len(ids) > 0, name, rule, "empty")
            with text_written_whole(out / f"{name}.items.json") as file:
                json.dump(ids, file)
            counts[name] = len(ids)
            if features is not None:
                with ArrayWriter(out / f"{name}.features.npy", np.int64) as writer:
                    writer.append(np.arange(len(order), len(order) + len(ids)))
                order += ids
        vocabulary = side.build(WordCounts(words, sentences))
        vocabulary.save(out / "vocabulary.json")
        _encode(out, counts, "targets", vocabulary, max_words, progress)
        _count_documents(out, counts, vocabulary, progress)
        if features is not None:
            rows = rows_of(features, order)
            write_features(out / "features", features, rows, dtype, lambda done: progress("features", done))
        how = {
            "tokeniser": vocabulary.tokeniser,
            "max_words": max_words,
            "images_without_features": without,
            "empty_captions": emptied,
        }
        _write_index(out, "captions", counts, how | dict(made_from or {}), features is not None, progress)
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
    """
    checks.one_of("longer", longer, ("cut", "drop"))
    checks.one_of("empty", empty, ("refuse", "drop"))
    sides = {"sources": source or Side(), "targets": target or Side()}
    _check_splits(splits)
    with folder_written_whole(folder) as out:
        counts, dropped, emptied, sentences = {}, 0, 0, 0
        words: dict[str, Counter[str]] = {side: Counter() for side in sides}
        for name, pairs in splits.items():
            training, done, total = name == "train", 0, 0
            with (
                text_written_whole(out / f"{name}.sources.txt") as sources,
                text_written_whole(out / f"{name}.targets.txt") as targets,
                _firsts(out, name) as firsts,
            ):
                for number, (text, several) in enumerate(pairs, 1):
                    read = sides["sources"].words(text)
                    split = several if isinstance(several, tuple) else (several,)
                    written = [sides["targets"].words(one) for one in split]
                    if training and empty == "drop" and not (read and all(written)):
                        emptied += 1
                        continue
                    _check_words(read, f"source {number} of {name}")
                    checks.must(len(written) > 0, f"pair {number} of {name}", "one with a target", "one without")
                    for one in written:
                        _check_words(one, f"target {number} of {name}")
                    if training:
                        longest = max(len(read), *map(len, written))
                        if longer == "drop" and max_words is not None and longest > max_words:
                            dropped += 1
                            continue
                        words["sources"].update(read)
                        for one in written:
                            words["targets"].update(one)
                        sentences += len(written)
                    sources.write(" ".join(read) + "\n")
                    targets.writelines(" ".join(one) + "\n" for one in written)
                    done, total = done + 1, total + len(written)
                    firsts.append(np.array([total]))
                    if done % 1000 == 0:
                        progress(f"pairs of {name}", done)
            checks.must(done > 0, name, "a split with pairs", "empty")
            progress(f"pairs of {name}", done)
            counts[name] = done
        for side, how in sides.items():
            vocabulary = how.build(WordCounts(words[side], counts["train"] if side == "sources" else sentences))
            vocabulary.save(out / ("vocabulary.json" if side == "targets" else "source.vocabulary.json"))
            for name in counts:
                cut = max_words if name == "train" else None
                _encode(out, {name: counts[name]}, side, vocabulary, cut, progress)
            if side == "targets":
                _count_documents(out, counts, vocabulary, progress)
        told = {
            "source_tokeniser": sides["sources"].tokeniser.signature,
            "tokeniser": sides["targets"].tokeniser.signature,
            "max_words": max_words,
            "longer": longer,
            "longer_pairs": dropped,
            "empty_pairs": emptied,
        }
        _write_index(out, "translation", counts, told | dict(made_from or {}), False, progress)
    return open_corpus(folder)


def _check_splits(splits: Mapping[str, Any]) -> None:
    checks.must("train" in splits, "splits", "some with a train among them", ", ".join(splits) or "none")
    for name in splits:
        plain = name.replace("_", "").replace("-", "").isalnum()
        checks.must(plain, "splits", "names of letters and digits", repr(name))


def _check_words(words: Sequence[str], place: str) -> None:
    checks.must(len(words) > 0, place, "a text with words", "empty")
    joined = "".join(words)
    # Words are kept in lines, a space between them.
    whole = all(words) and " " not in joined and "\n" not in joined
    checks.must(whole, place, "words without white space", repr(list(words))[:60])


def _firsts(out: Path, name: str) -> ArrayWriter:
    writer = ArrayWriter(out / f"{name}.firsts.npy", np.int64)
    writer.append(np.zeros(1, dtype=np.int64))
    return writer


def _sentences(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n").split(" ")


def _encode(
    out: Path,
    splits: Iterable[str],
    side: str,
    vocabulary: Vocabulary,
    max_words: int | None,
    progress: Progress,
) -> None:
    for name in splits:
        progress(f"ids of the {side} of {name}", 0)
        write_tokens(out / f"{name}.{side}", _sentences(out / f"{name}.{side}.txt"), vocabulary, max_words)


def _count_documents(out: Path, counts: Mapping[str, int], vocabulary: Vocabulary, progress: Progress) -> None:
    if counts["train"] > MOST_DOCUMENTS:
        return
    progress("n-grams of train", 0)
    sizes = np.diff(np.load(out / "train.firsts.npy")).tolist()
    sentences = _sentences(out / "train.targets.txt")
    documents = ([next(sentences) for _ in range(size)] for size in sizes)
    document_frequencies(documents, vocabulary).save(out / "document_frequencies.npz")


def _write_index(
    out: Path, task: str, counts: Mapping[str, int], told: Mapping[str, Any], features: bool, progress: Progress
) -> None:
    progress("fingerprint", 0)
    fingerprint = hashlib.sha256()
    # Texts and counts of n-grams follow from these.
    for path in sorted(path for path in out.iterdir() if path.suffix in (".npy", ".json")):
        with path.open("rb") as file:
            fingerprint.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    held = {
        "kind": KIND,
        "task": task,
        "splits": dict(counts),
        "fingerprint": fingerprint.hexdigest(),
        "features": "features.json" if features else None,
        "made_from": dict(told),
    }
    with text_written_whole(out / "corpus.json") as file:
        json.dump(held, file, indent=1, ensure_ascii=False)
        file.write("\n")
