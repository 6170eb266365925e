"""Prepared corpora that are made in a moment: a caption says which of its image's features are high."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from seqsmooth.data import Corpus, FeatureStore, Side, write_captions, write_pairs
from seqsmooth.text import WordVectors

NOUNS = ("dog", "cat", "bird", "horse", "boat", "tree")
PATTERNS = ("a {0} and a {1}", "there is a {0} near the {1}", "the {0} beside the {1}", "a {0} with a {1}", "one {0}")


def captions(
    folder: Path,
    *,
    regions: int | None = None,
    train: int = 60,
    seed: int = 0,
    vectors: int | None = 8,
    side: int | None = None,
) -> Corpus:
    """Images with five captions each; features of (F,), of (R, D) where there are `regions`; pictures with a `side`."""
    source = np.random.default_rng(seed)
    names = [f"image{number}" for number in range(train + 20)]
    pairs = [source.choice(len(NOUNS), 2, replace=False) for _ in names]
    shape = (len(names), len(NOUNS)) if regions is None else (len(names), regions, len(NOUNS))
    features = source.normal(0, 0.1, shape).astype(np.float32)
    for row, (one, other) in enumerate(pairs):
        features[row, ..., one] += 1
        features[row, ..., other] += 0.5
    if side is not None:  # the pattern of a noun in either half
        patterns = source.integers(0, 256, (len(NOUNS), 3, side, side // 2), dtype=np.uint8)
        features = np.concatenate([patterns[[pair[half] for pair in pairs]] for half in (0, 1)], axis=-1)

    def items(first: int, last: int) -> list[tuple[int | str, list[str]]]:
        return [
            (names[row], [pattern.format(*(NOUNS[word] for word in pairs[row])) for pattern in PATTERNS])
            for row in range(first, last)
        ]

    splits = {"train": items(0, train), "val": items(train, train + 10), "test": items(train + 10, train + 20)}
    corpus = write_captions(folder, splits, FeatureStore(names, features), side=Side(min_count=1))
    if vectors is not None:
        glove(corpus, vectors)
    return corpus


def pairs(folder: Path, *, train: int = 120, seed: int = 0, vectors: int | None = 8) -> Corpus:
    """Sentences of nonsense words, whose translation is word by word, backwards."""
    source = np.random.default_rng(seed)

    def items(count: int) -> list[tuple[str, str]]:
        made = []
        for _ in range(count):
            words = [f"w{number}" for number in source.integers(0, 12, source.integers(2, 9))]
            made.append((" ".join(words), " ".join(f"x{word[1:]}" for word in reversed(words))))
        return made

    splits = {"train": items(train), "val": items(20), "test": items(20)}
    corpus = write_pairs(folder, splits, source=Side(min_count=1), target=Side(min_count=1))
    if vectors is not None:
        glove(corpus, vectors)
    return corpus


def glove(corpus: Corpus, size: int) -> None:
    """Random vectors for all words and EOS, in the folder of the corpus."""
    words = ("<eos>", *corpus.vocabulary.words[4:])
    values = torch.randn(len(words), size, generator=torch.Generator().manual_seed(0))
    WordVectors(words, values).save(corpus.folder / "glove.txt")
