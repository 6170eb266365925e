"""The scenes as a corpus: three splits that share no scene, with pictures, captions and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.data.scenes.annotators import annotate
from seqsmooth.data.scenes.drawing import draw
from seqsmooth.data.scenes.seeing import Encoder, components
from seqsmooth.data.scenes.world import Scene, invent_different
from seqsmooth.ops import checks

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Split:
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

    splits: Mapping[str, Split]
    seed: int


def make_scenes(
    seed: int = 0,
    train: int = 2000,
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
    # Streams of their own: more scenes, and those before them stay as they are.
    inventing, drawing, telling = (np.random.default_rng([seed, stream]) for stream in range(3))
    scenes = list(islice(invent_different(inventing), wanted))
    captions = [tuple(annotate(scene, telling)) for scene in scenes]
    pictures = []
    for number, scene in enumerate(scenes, 1):
        pictures.append(draw(scene, drawing))
        if number % 50 == 0 or number == wanted:
            progress(number, wanted)
    stack = np.stack(pictures)
    features = components(Encoder.fit(stack[:train], seed)(stack), train)
    splits, start = {}, 0
    for name, size in sizes.items():
        part = slice(start, start + size)
        ids = tuple(range(start, start + size))
        splits[name] = Split(ids, tuple(scenes[part]), stack[part], tuple(captions[part]), features[part])
        start += size
    return Scenes(splits, seed)
