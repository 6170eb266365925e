"""Scenes as pictures: a background, then things from far to near, smooth at the edges by sampling each pixel often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqsmooth.data.scenes.shapes import OWN, THINGS, Floats, Mask, Rgb
from seqsmooth.data.scenes.world import SKY, Scene, SceneGroup

SIDE = 64
FINE = 3  # samples a pixel, each way
Picture = NDArray[np.uint8]  # (SIDE, SIDE, 3)

PAINT = {
    "red": (0.86, 0.16, 0.16),
    "yellow": (0.98, 0.84, 0.14),
    "green": (0.13, 0.62, 0.24),
    "blue": (0.16, 0.36, 0.86),
    "purple": (0.53, 0.22, 0.70),
    "pink": (0.97, 0.52, 0.72),
    "white": (0.96, 0.96, 0.96),
    "black": (0.14, 0.14, 0.16),
}
RADIUS = {"small": 7.0, "medium": 10.0, "large": 15.0}
# The sky at its top and at the horizon, the ground at the horizon and at its bottom.
LAND = {
    "meadow": ((0.42, 0.70, 0.95), (0.80, 0.92, 0.99), (0.55, 0.78, 0.40), (0.36, 0.62, 0.28)),
    "beach": ((0.30, 0.66, 0.95), (0.75, 0.92, 0.98), (0.96, 0.88, 0.66), (0.88, 0.76, 0.50)),
    "sea": ((0.45, 0.74, 0.96), (0.86, 0.95, 0.99), (0.25, 0.58, 0.80), (0.08, 0.34, 0.62)),
    "snow": ((0.66, 0.76, 0.88), (0.88, 0.92, 0.97), (0.97, 0.98, 1.00), (0.84, 0.89, 0.96)),
    "night": ((0.04, 0.05, 0.18), (0.16, 0.16, 0.38), (0.16, 0.25, 0.22), (0.08, 0.14, 0.13)),
    "desert": ((0.98, 0.76, 0.46), (0.99, 0.90, 0.70), (0.87, 0.63, 0.36), (0.74, 0.48, 0.25)),
    "city": ((0.62, 0.76, 0.90), (0.86, 0.90, 0.95), (0.52, 0.53, 0.56), (0.40, 0.41, 0.44)),
}


@dataclass(frozen=True)
class Placed:
    """A thing and where it is, in pixels."""

    kind: str
    colour: str
    x: float
    y: float
    radius: float


def draw(scene: Scene, random: np.random.Generator) -> Picture:
    """Paint a scene; places, light and the background's details come from `random`."""
    horizon = random.uniform(0.46, 0.56) * SIDE
    canvas = _background(scene.setting, horizon, random)
    things = sorted(place(scene, horizon, random), key=lambda thing: thing.y + thing.radius)
    for thing in things:
        _paint(canvas, thing, random)
    light = random.uniform(0.92, 1.06)
    corners = [canvas[down::FINE, across::FINE] for down in range(FINE) for across in range(FINE)]
    noisy = sum(corners) * (light / FINE**2) + random.normal(0.0, 0.015, (SIDE, SIDE, 3))
    return np.round(255 * noisy.clip(0, 1)).astype(np.uint8)


def place(scene: Scene, horizon: float, random: np.random.Generator) -> list[Placed]:
    """Find a place for each thing: what flies in the sky, the rest below the horizon; sides as the relation says."""
    if scene.second is None:
        return _in_a_row(scene.first, 0.0, SIDE, horizon, random)
    if scene.relation in ("above", "below"):
        middle = random.uniform(0.38, 0.62) * SIDE
        rows = [_in_a_row(group, 0.0, SIDE, horizon, random, middle) for group in (scene.first, scene.second)]
    else:
        west, east = (scene.first, scene.second) if scene.relation == "left" else (scene.second, scene.first)
        border = SIDE * _width(west) / (_width(west) + _width(east))
        rows = [_in_a_row(west, 0.0, border, horizon, random), _in_a_row(east, border, SIDE, horizon, random)]
    return [thing for row in rows for thing in row]


def _width(group: SceneGroup) -> float:
    return group.count * 2 * RADIUS[group.size] + 6


def _in_a_row(
    group: SceneGroup,
    left: float,
    right: float,
    horizon: float,
    random: np.random.Generator,
    middle: float | None = None,
) -> list[Placed]:
    """Things side by side between two columns, each moved a little."""
    radius = min(RADIUS[group.size], (right - left) / (2.1 * group.count)) * random.uniform(0.92, 1.08)
    step = min(2.3 * radius, (right - left) / group.count)
    half = step * group.count / 2
    low, high = left + half, right - half
    middle = random.uniform(min(low, high), max(low, high)) if middle is None else float(np.clip(middle, low, high))
    top, bottom = (radius + 1, horizon - 0.6 * radius) if group.kind in SKY else (horizon + 1, SIDE - radius - 2)
    level = random.uniform(top, max(top, bottom))
    places = middle + step * (np.arange(group.count) - (group.count - 1) / 2)
    wobble = random.uniform(-0.25, 0.25, group.count) * radius
    return [
        Placed(group.kind, group.colour, float(x), float(np.clip(level + up, radius, SIDE - radius)), float(radius))
        for x, up in zip(places, wobble, strict=True)
    ]


def _paint(canvas: Floats, thing: Placed, random: np.random.Generator) -> None:
    """Paint one thing, with a dark rim, onto the finely sampled canvas."""
    reach = thing.radius * 1.15
    rows, columns = (slice(max(0, int((c - reach) * FINE)), int((c + reach) * FINE) + 2) for c in (thing.y, thing.x))
    part = canvas[rows, columns]
    y = ((np.arange(rows.start, rows.start + part.shape[0]) + 0.5) / FINE - thing.y)[:, None] / thing.radius
    x = ((np.arange(columns.start, columns.start + part.shape[1]) + 0.5) / FINE - thing.x)[None] / thing.radius
    if random.random() < 0.5:  # things look either way
        x = -x
    own = np.array(PAINT[thing.colour]) * random.uniform(0.92, 1.08)
    masks = [np.broadcast_to(layer.inside(x, y), part.shape[:2]) for layer in THINGS[thing.kind]]
    part[_grow(np.logical_or.reduce(masks))] = own * 0.35
    for layer, mask in zip(THINGS[thing.kind], masks, strict=True):
        colour = own * layer.shade if layer.colour == OWN else np.array(layer.colour)
        part[mask] = colour.clip(0, 1)


def _grow(mask: Mask) -> Mask:
    """A mask and what is next to it."""
    padded = np.pad(mask, 1)
    sides = (padded[1:-1, :-2], padded[1:-1, 2:], padded[:-2, 1:-1], padded[2:, 1:-1])
    grown: Mask = np.logical_or.reduce([mask, *sides])
    return grown


def _background(setting: str, horizon: float, random: np.random.Generator) -> Floats:
    size = SIDE * FINE
    y = ((np.arange(size) + 0.5) / FINE)[:, None]
    x = ((np.arange(size) + 0.5) / FINE)[None]
    top, far, near, bottom = (np.array(colour) for colour in LAND[setting])
    down = (y / horizon).clip(0, 1)[..., None]
    deep = ((y - horizon) / (SIDE - horizon)).clip(0, 1)[..., None]
    column = np.where(y[..., None] < horizon, top + (far - top) * down, near + (bottom - near) * deep)
    canvas = np.broadcast_to(column, (size, size, 3)).copy()
    if setting in ("meadow", "beach", "sea") and random.random() < 0.6:
        _clouds(canvas, horizon, random)
    if setting == "night":
        for _ in range(int(random.integers(6, 14))):
            _dot(canvas, random.uniform(0, SIDE), random.uniform(0, horizon), 0.5, (0.95, 0.95, 0.80))
        _dot(canvas, random.uniform(6, SIDE - 6), random.uniform(5, 12), 4.0, (0.98, 0.96, 0.80))
    elif setting in ("desert", "beach"):
        _dot(canvas, random.uniform(6, SIDE - 6), random.uniform(4, 10), 4.2, (1.0, 0.93, 0.45))
    if setting == "beach":  # a strip of water between sky and sand
        canvas[((y > horizon - 5) & (y < horizon)).ravel()] = (0.18, 0.55, 0.80)
    elif setting == "sea":
        water = canvas[int((horizon + 2) * FINE) :]
        phase = x * random.uniform(0.5, 0.7) + 2.5 * y[-len(water) :] + random.uniform(0, 6)
        water[np.sin(phase.astype(np.float32)) > 0.93] = (0.60, 0.82, 0.94)
    elif setting == "meadow":
        hill = horizon - 3 - 3 * np.sin(x * random.uniform(0.08, 0.12) + random.uniform(0, 6))
        canvas[(y > hill) & (y < horizon)] = (0.46, 0.72, 0.42)
    elif setting == "snow":
        for _ in range(int(random.integers(25, 40))):
            _dot(canvas, random.uniform(0, SIDE), random.uniform(0, SIDE), 0.7, (1.0, 1.0, 1.0))
    elif setting == "desert":
        dune = horizon - 4 * np.abs(np.sin(x * random.uniform(0.05, 0.08) + random.uniform(0, 6)))
        canvas[(y > dune) & (y < horizon)] = (0.91, 0.69, 0.42)
    elif setting == "city":
        _skyline(canvas, x, y, horizon, random)
    return canvas


def _dot(canvas: Floats, x: float, y: float, radius: float, colour: Rgb, flat: float = 1.0) -> None:
    """An ellipse `flat` times as wide as high."""
    rows, columns = (slice(max(0, int((c - radius) * FINE)), int((c + radius) * FINE) + 2) for c in (y, x))
    part = canvas[rows, columns]
    down = (np.arange(rows.start, rows.start + part.shape[0]) + 0.5) / FINE - y
    across = (np.arange(columns.start, columns.start + part.shape[1]) + 0.5) / FINE - x
    part[np.hypot(flat * down[:, None], across[None]) < radius] = colour


def _clouds(canvas: Floats, horizon: float, random: np.random.Generator) -> None:
    for _ in range(int(random.integers(1, 3))):
        cx, cy = random.uniform(6, SIDE - 6), random.uniform(4, 0.4 * horizon)
        for dx, size in ((-4, 2.4), (0, 3.4), (4, 2.6)):
            _dot(canvas, cx + dx, cy, size, (0.99, 0.99, 1.0), flat=1.3)


def _skyline(canvas: Floats, x: Floats, y: Floats, horizon: float, random: np.random.Generator) -> None:
    left = 0.0
    while left < SIDE:
        wide, tall = random.uniform(6, 10), random.uniform(6, 16)
        inside = (x >= left) & (x < left + wide) & (y > horizon - tall) & (y < horizon)
        canvas[inside] = random.uniform(0.58, 0.72)
        canvas[inside & ((x - left) % 3 < 1) & ((y - horizon) % 3.5 < 1.2)] = (0.88, 0.86, 0.66)
        left += wide
    middle = (horizon + SIDE) / 2
    canvas[(np.abs(y - middle) < 0.8) & (x % 10 < 5)] = (0.95, 0.92, 0.80)
