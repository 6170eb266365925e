"""Scenes: a setting, one or two groups of things, and the place of the first as seen from the second."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np

GROUND = ("house", "tree", "car", "cat", "flower", "mushroom")
WATER = ("boat", "duck", "fish")
SKY = ("balloon", "kite", "bird", "rocket")
KINDS = GROUND + WATER + SKY
COLOURS = ("red", "yellow", "green", "blue", "purple", "pink", "white", "black")
SIZES = ("small", "medium", "large")
SETTINGS = ("meadow", "beach", "sea", "snow", "night", "desert", "city")
RELATIONS = ("left", "right", "above", "below")

# How often each is met: some things are rare, as in the world.
_SETTINGS = (24, 18, 18, 12, 10, 7, 11)
_COLOURS = (24, 17, 13, 17, 8, 7, 9, 5)
_GROUND = (26, 22, 20, 16, 10, 6)
_WATER = (50, 30, 20)
_SKY = (36, 20, 34, 10)
_COUNTS = (55, 22, 14, 9)
_SIZES = (30, 45, 25)
_COMPANY = 0.7  # the share of scenes with a second group


@dataclass(frozen=True)
class SceneGroup:
    """Things of one kind that look alike."""

    kind: str
    colour: str
    size: str
    count: int


@dataclass(frozen=True)
class Scene:
    """The content of a picture."""

    setting: str
    first: SceneGroup
    second: SceneGroup | None = None
    relation: str | None = None
    """Where the first group is as seen from the second."""


def invent(random: np.random.Generator) -> Scene:
    """Draw a scene."""
    setting = SETTINGS[draw_index(random, _SETTINGS)]
    first = _group(setting, random)
    if random.random() >= _COMPANY:
        return Scene(setting, first)
    second = _group(setting, random, other_than=first)
    flies = first.kind in SKY, second.kind in SKY
    if flies == (True, False):
        relation = "above"
    elif flies == (False, True):
        relation = "below"
    else:
        relation = "left" if random.random() < 0.5 else "right"
    return Scene(setting, first, second, relation)


def invent_different(random: np.random.Generator) -> Iterator[Scene]:
    """Draw scenes without end, none twice."""
    met: set[Scene] = set()
    while True:
        scene = invent(random)
        if scene not in met:
            met.add(scene)
            yield scene


def _group(setting: str, random: np.random.Generator, other_than: SceneGroup | None = None) -> SceneGroup:
    low = (WATER, _WATER) if setting == "sea" else (GROUND, _GROUND)
    while True:
        kinds, weights = (SKY, _SKY) if random.random() < 0.35 else low
        kind = kinds[draw_index(random, weights)]
        if other_than is None or kind != other_than.kind:
            break
    # Four large houses would hide each other.
    count = 1 + draw_index(random, _COUNTS)
    size = SIZES[draw_index(random, _SIZES if count == 1 else _SIZES[:2] if count < 4 else _SIZES[:1])]
    return SceneGroup(kind, COLOURS[draw_index(random, _COLOURS)], size, count)


def draw_index(random: np.random.Generator, weights: tuple[int, ...], sharpness: float = 1.0) -> int:
    """Draw a place by the weights to a power: far faster than `random.choice` for a few."""
    sums = _sums(weights, sharpness)
    return bisect(sums, random.random() * sums[-1])


@cache
def _sums(weights: tuple[int, ...], sharpness: float) -> list[float]:
    return list(accumulate(weight**sharpness for weight in weights))
