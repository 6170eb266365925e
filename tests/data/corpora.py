"""Small corpora for the tests of the data room."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from seqsmooth.data import Corpus, FeatureStore, Side, write_captions, write_pairs

WORDS = [f"w{number}" for number in range(40)]


def sentence(source: random.Random, longest: int = 20) -> list[str]:
    return [source.choice(WORDS) for _ in range(source.randint(1, longest))]


def captions(
    images: int, seed: int = 0, most: int = 7, least: int = 1, name: str = "i"
) -> list[tuple[int | str, list[list[str]]]]:
    source = random.Random(seed)
    return [
        (f"{name}{number}", [sentence(source) for _ in range(source.randint(least, most))]) for number in range(images)
    ]


def caption_corpus(folder: Path, images: int = 60, *, varying: bool = False, most: int = 7, seed: int = 0) -> Corpus:
    splits = {"train": captions(images, seed, most), "val": captions(5, seed + 1, name="v")}
    ids = [identity for several in splits.values() for identity, _ in several]
    numbers = np.random.default_rng(seed)
    if varying:
        offsets = np.concatenate([[0], np.cumsum(numbers.integers(1, 6, len(ids)))])
        store = FeatureStore(ids, numbers.normal(size=(offsets[-1], 4)).astype(np.float16), offsets)
    else:
        store = FeatureStore(ids, numbers.normal(size=(len(ids), 4)).astype(np.float16))
    return write_captions(folder, splits, store, side=Side(min_count=1))


def pair_corpus(folder: Path, pairs: int = 150, seed: int = 0) -> Corpus:
    source = random.Random(seed)
    splits = {
        "train": [(sentence(source), sentence(source)) for _ in range(pairs)],
        "test": [(sentence(source), (sentence(source), sentence(source))) for _ in range(9)],
    }
    return write_pairs(folder, splits, source=Side(min_count=1), target=Side(min_count=1))
