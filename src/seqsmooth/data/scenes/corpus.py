"""The scenes as a corpus: three splits that share no scene, with pictures, captions and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.data.scenes.annotators import annotate
from seqsmooth.data.scenes.drawing import SIDE, draw
from seqsmooth.data.scenes.seeing import see
from seqsmooth.data.scenes.world import Scene, invent_different
from seqsmooth.ops import checks

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class SceneSplit:
    """The scenes of one split."""

    ids: tuple[int, ...]
    scenes: tuple[Scene, ...]
    pictures: NDArray[np.uint8]  # (N, 64, 64, 3)
    captions: tuple[tuple[str, ...], ...]  # five for each scene
    features: Tensor  # (N, F) float32

    def __len__(self) -> int:
        return len(self.scenes)


@dataclass(frozen=True, eq=False)
class Scenes:
    """The corpus."""

    splits: Mapping[str, SceneSplit]
    seed: int


def make_scenes(
    seed: int = 0,
    train: int = 3000,
    val: int = 300,
    test: int = 500,
    *,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Scenes:
    """Draw the pictures, write the captions, and see the pictures through the encoder.

    Args:
        seed: everything follows from it.
        train: the number of training scenes; the encoder is made from their pictures.
        val: the number of validation scenes.
        test: the number of test scenes. No scene is in two splits.
        progress: told how many pictures are drawn, and of how many.
    """
    sizes = dict(zip(SPLITS, (train, val, test), strict=True))
    for name, size in sizes.items():
        checks.at_least(name, size, 1)
    checks.at_least("seed", seed, 0)
    wanted = sum(sizes.values())
    scenes = _invent_all(seed, wanted)
    captions = [tuple(annotate(scene, _stream(seed, "telling", n))) for n, scene in enumerate(scenes)]
    pictures = _Drawn(scenes, seed, progress)
    features = see(pictures, train, seed)
    stack = pictures[:]
    splits, start = {}, 0
    for name, size in sizes.items():
        part = slice(start, start + size)
        ids = tuple(range(start, start + size))
        splits[name] = SceneSplit(ids, tuple(scenes[part]), stack[part], tuple(captions[part]), features[part])
        start += size
    return Scenes(splits, seed)


def draw_again(seed: int, ids: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
    """The pictures of some scenes of the corpus of this seed, by their ids."""
    scenes = _invent_all(seed, 1 + max(ids, default=-1))
    return {number: draw(scenes[number], _stream(seed, "drawing", number)) for number in ids}


class _Drawn:
    """The pictures of scenes as an array (N, 64, 64, 3), of which each is drawn when it is first asked for."""

    def __init__(self, scenes: Sequence[Scene], seed: int, progress: Callable[[int, int], None]) -> None:
        self.scenes, self.seed, self.progress = scenes, seed, progress
        self.pictures = np.empty((len(scenes), SIDE, SIDE, 3), np.uint8)
        self.there = np.zeros(len(scenes), bool)

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, chosen: slice | NDArray[np.int64]) -> NDArray[np.uint8]:
        for number in np.arange(len(self))[chosen]:
            if not self.there[number]:
                self.pictures[number] = draw(self.scenes[number], _stream(self.seed, "drawing", int(number)))
                self.there[number] = True
                done = int(self.there.sum())
                if done % 50 == 0 or done == len(self):
                    self.progress(done, len(self))
        return self.pictures[chosen]


def _invent_all(seed: int, number: int) -> list[Scene]:
    return list(islice(invent_different(np.random.default_rng([seed, 0])), number))


def _stream(seed: int, what: str, number: int) -> np.random.Generator:
    """Chance for one scene and one purpose: whatever else is made, this scene stays as it is."""
    return np.random.default_rng([seed, 1 + ("drawing", "telling").index(what), number])
