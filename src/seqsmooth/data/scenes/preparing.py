"""The scenes as a prepared corpus, with word vectors: what `seqsmooth prepare` and `seqsmooth glove` would leave."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from seqsmooth.data.corpus import Corpus, open_corpus
from seqsmooth.data.features import FeatureStore
from seqsmooth.data.scenes.corpus import draw_again, make_scenes
from seqsmooth.data.scenes.png import png
from seqsmooth.data.sides import Side
from seqsmooth.data.writing import write_captions
from seqsmooth.files.atomic import atomic_write
from seqsmooth.ops import checks
from seqsmooth.text import GloVe, WordVectors

VECTORS = "glove.txt"
Progress = Callable[[int, int], None]


def prepare_scenes(
    folder: str | os.PathLike[str], seed: int = 0, *, progress: Progress = lambda done, of: None, **sizes: int
) -> Corpus:
    """Make the scenes and write them as a prepared corpus; what is there already, of this seed and size, is opened."""
    folder = Path(folder)
    origin = {"scenes": {"seed": seed, **sizes}}
    if folder.exists():
        corpus = open_corpus(folder)
        rule = f"a folder that is not there yet, or the scenes of seed {seed} and {sizes or 'the usual sizes'}"
        same = corpus.made_from.get("scenes") == origin["scenes"]
        checks.must(same, "data", rule, f"{folder}, which is another corpus")
        return corpus
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    scenes = make_scenes(seed, **sizes, progress=progress)
    ids = [identity for split in scenes.splits.values() for identity in split.ids]
    features = FeatureStore(ids, torch.cat([split.features for split in scenes.splits.values()]).numpy())
    splits = {
        name: [(identity, list(captions)) for identity, captions in zip(split.ids, split.captions, strict=True)]
        for name, split in scenes.splits.items()
    }
    return write_captions(folder, splits, features, side=Side(min_count=2), made_from=origin)


def train_vectors(corpus: Corpus, *, progress: Progress = lambda done, of: None) -> WordVectors:
    """GloVe on the training captions, in the folder of the corpus; trained once."""
    path = corpus.folder / VECTORS
    if path.is_file():
        return WordVectors.load(path)
    sentences = [words for several in corpus.targets("train") for words in several]
    glove = GloVe(dim=50, iterations=30, window=8, x_max=50.0)
    vectors = glove.fit(sentences, corpus.vocabulary, progress=lambda done, of, loss: progress(done, of))
    vectors.save(path)
    return vectors


def draw_pictures(folder: Path, corpus: Corpus, split: str) -> None:
    """Draw the pictures of a split once more, as files named by their ids."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [int(name) for name in corpus.ids(split) if not (folder / f"{name}.png").is_file()]
    for name, picture in draw_again(int(corpus.made_from["scenes"]["seed"]), missing).items():
        with atomic_write(folder / f"{name}.png") as file:
            file.write(png(picture))
