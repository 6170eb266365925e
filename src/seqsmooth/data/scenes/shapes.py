"""Things as layers of paint: where each layer is, and what colour.

A thing lives in a square of its own, x from -1 (left) to 1, y from -1 (top) to 1 (what it stands on). A layer is a
function from points to "inside or not"; layers are painted one over the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Inside = Callable[[Floats, Floats], Mask]
Rgb = tuple[float, float, float]

OWN = (-1.0, -1.0, -1.0)  # the colour of the thing itself
DARK, INK, WOOD, LEAF, LIGHT, GLASS, GOLD, STEM = (
    (0.30, 0.30, 0.34),
    (0.13, 0.13, 0.16),
    (0.48, 0.33, 0.20),
    (0.25, 0.55, 0.25),
    (0.97, 0.96, 0.92),
    (0.75, 0.90, 0.97),
    (0.98, 0.75, 0.20),
    (0.93, 0.88, 0.78),
)


@dataclass(frozen=True)
class Layer:
    """Paint of one colour; `shade` makes that of the thing darker (below 1) or lighter (above)."""

    inside: Inside
    colour: Rgb = OWN
    shade: float = 1.0


def disc(x0: float, y0: float, rx: float, ry: float | None = None) -> Inside:
    """An ellipse."""
    tall = rx if ry is None else ry
    return lambda x, y: ((x - x0) / rx) ** 2 + ((y - y0) / tall) ** 2 <= 1


def box(x0: float, y0: float, x1: float, y1: float) -> Inside:
    """An upright rectangle, from its upper left corner to its lower right one."""
    return lambda x, y: (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)


def polygon(*corners: tuple[float, float]) -> Inside:
    """A convex polygon; its corners clockwise as seen on the picture."""

    def inside(x: Floats, y: Floats) -> Mask:
        within = np.ones(np.broadcast_shapes(x.shape, y.shape), dtype=bool)
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
            within &= (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= 0
        return within

    return inside


def upper(inside: Inside, y0: float) -> Inside:
    """What of a shape is above a line."""
    return lambda x, y: inside(x, y) & (y <= y0)


def lower(inside: Inside, y0: float) -> Inside:
    """What of a shape is below a line."""
    return lambda x, y: inside(x, y) & (y >= y0)


def wave(y0: float, y1: float, width: float, swing: float, turns: float) -> Inside:
    """A string that hangs from y0 to y1."""
    return lambda x, y: (np.abs(x - swing * np.sin(turns * (y - y0))) <= width) & (y >= y0) & (y <= y1)


def several(parts: Sequence[Inside]) -> Inside:
    """All the parts at once."""
    return lambda x, y: np.logical_or.reduce([part(x, y) for part in parts])


_PETALS = several(
    [disc(0.42 * float(np.cos(a)), -0.42 + 0.42 * float(np.sin(a)), 0.32) for a in np.arange(5) * 2 * np.pi / 5]
)
_CROWN = several([disc(0.0, -0.5, 0.5), disc(-0.38, -0.2, 0.42), disc(0.38, -0.2, 0.42)])

THINGS: dict[str, tuple[Layer, ...]] = {
    "house": (
        Layer(box(0.38, -0.92, 0.58, -0.3), DARK),
        Layer(box(-0.72, -0.2, 0.72, 1.0)),
        Layer(polygon((-0.98, -0.15), (0.0, -1.0), (0.98, -0.15)), shade=0.55),
        Layer(box(-0.5, 0.28, -0.1, 1.0), WOOD),
        Layer(box(0.14, 0.12, 0.54, 0.52), GLASS),
    ),
    "tree": (Layer(box(-0.14, 0.0, 0.14, 1.0), WOOD), Layer(_CROWN), Layer(disc(-0.18, -0.5, 0.2, 0.16), shade=1.25)),
    "car": (
        Layer(polygon((-0.55, 0.25), (-0.38, -0.3), (0.32, -0.3), (0.6, 0.25))),
        Layer(polygon((-0.36, 0.2), (-0.25, -0.18), (-0.04, -0.18), (-0.04, 0.2)), GLASS),
        Layer(polygon((0.06, 0.2), (0.06, -0.18), (0.26, -0.18), (0.42, 0.2)), GLASS),
        Layer(box(-1.0, 0.2, 1.0, 0.72)),
        Layer(several([disc(-0.55, 0.74, 0.26), disc(0.55, 0.74, 0.26)]), INK),
        Layer(several([disc(-0.55, 0.74, 0.11), disc(0.55, 0.74, 0.11)]), LIGHT),
        Layer(box(0.86, 0.3, 1.0, 0.46), GOLD),
    ),
    "cat": (
        Layer(lambda x, y: (np.abs(np.hypot(x - 0.55, y - 0.45) - 0.38) < 0.09) & (x > 0.5)),
        Layer(disc(0.1, 0.55, 0.5, 0.45)),
        Layer(polygon((-0.82, -0.3), (-0.78, -1.0), (-0.35, -0.55))),
        Layer(polygon((-0.2, -0.55), (0.22, -1.0), (0.26, -0.3))),
        Layer(disc(-0.28, -0.2, 0.52, 0.46)),
        Layer(several([disc(-0.48, -0.25, 0.1, 0.12), disc(-0.08, -0.25, 0.1, 0.12)]), GOLD),
        Layer(several([disc(-0.48, -0.25, 0.04, 0.1), disc(-0.08, -0.25, 0.04, 0.1)]), INK),
        Layer(polygon((-0.35, -0.04), (-0.21, -0.04), (-0.28, 0.06)), (0.95, 0.55, 0.6)),
    ),
    "flower": (
        Layer(box(-0.06, -0.3, 0.06, 1.0), LEAF),
        Layer(disc(0.26, 0.5, 0.26, 0.11), LEAF),
        Layer(_PETALS),
        Layer(disc(0.0, -0.42, 0.22), GOLD),
    ),
    "mushroom": (
        Layer(polygon((-0.22, 0.0), (0.22, 0.0), (0.32, 1.0), (-0.32, 1.0)), STEM),
        Layer(upper(disc(0.0, 0.1, 0.85, 0.95), 0.1)),
        Layer(several([disc(-0.4, -0.2, 0.14), disc(0.08, -0.48, 0.16), disc(0.46, -0.14, 0.12)]), LIGHT),
    ),
    "boat": (
        Layer(box(-0.05, -0.95, 0.05, 0.5), WOOD),
        Layer(polygon((0.1, 0.32), (0.1, -0.92), (0.72, 0.32)), LIGHT),
        Layer(polygon((-0.1, 0.32), (-0.58, 0.32), (-0.1, -0.7)), (0.88, 0.87, 0.82)),
        Layer(polygon((-0.98, 0.45), (0.98, 0.45), (0.62, 1.0), (-0.62, 1.0))),
    ),
    "duck": (
        Layer(polygon((0.7, 0.35), (1.0, 0.0), (0.95, 0.6))),
        Layer(lower(disc(0.1, 0.3, 0.82, 0.7), 0.25)),
        Layer(box(-0.62, -0.4, -0.3, 0.4)),
        Layer(disc(-0.46, -0.45, 0.38)),
        Layer(polygon((-1.0, -0.4), (-0.78, -0.52), (-0.78, -0.24)), (0.98, 0.55, 0.12)),
        Layer(disc(-0.55, -0.55, 0.08), INK),
        Layer(lower(disc(0.22, 0.4, 0.42, 0.34), 0.4), shade=0.7),
    ),
    "fish": (
        Layer(polygon((0.45, 0.1), (1.0, -0.35), (1.0, 0.55))),
        Layer(polygon((-0.2, -0.2), (0.2, -0.65), (0.3, -0.2)), shade=0.7),
        Layer(disc(-0.15, 0.1, 0.75, 0.45)),
        Layer(lambda x, y: disc(-0.15, 0.1, 0.75, 0.45)(x, y) & (np.abs(x - 0.05) < 0.08), shade=0.7),
        Layer(disc(-0.52, 0.0, 0.12), LIGHT),
        Layer(disc(-0.54, 0.0, 0.06), INK),
    ),
    "balloon": (
        Layer(wave(0.2, 1.0, 0.035, 0.08, 9.0), DARK),
        Layer(polygon((0.0, 0.15), (0.12, 0.36), (-0.12, 0.36)), shade=0.7),
        Layer(disc(0.0, -0.38, 0.55, 0.62)),
        Layer(disc(-0.2, -0.6, 0.12, 0.16), shade=1.45),
    ),
    "kite": (
        Layer(wave(0.3, 1.0, 0.035, 0.14, 10.0), DARK),
        Layer(polygon((0.0, -1.0), (0.62, -0.42), (0.0, 0.42), (-0.62, -0.42))),
        Layer(polygon((0.0, -1.0), (0.62, -0.42), (0.0, -0.42)), shade=0.65),
        Layer(polygon((-0.62, -0.42), (0.0, -0.42), (0.0, 0.42)), shade=0.65),
        Layer(several([disc(0.1, 0.62, 0.12, 0.07), disc(-0.1, 0.86, 0.12, 0.07)]), GOLD),
    ),
    "bird": (
        Layer(polygon((0.5, 0.05), (1.0, -0.2), (0.95, 0.25))),
        Layer(disc(0.0, 0.1, 0.62, 0.36)),
        Layer(disc(-0.55, -0.15, 0.28)),
        Layer(polygon((-1.0, -0.1), (-0.78, -0.24), (-0.78, 0.02)), GOLD),
        Layer(polygon((-0.2, 0.05), (0.25, -0.95), (0.42, 0.05)), shade=0.65),
        Layer(disc(-0.62, -0.2, 0.07), INK),
    ),
    "rocket": (
        Layer(polygon((-0.18, 0.55), (0.18, 0.55), (0.0, 1.0)), GOLD),
        Layer(polygon((-0.3, 0.1), (-0.3, 0.62), (-0.68, 0.72), (-0.62, 0.42)), shade=0.6),
        Layer(polygon((0.3, 0.1), (0.62, 0.42), (0.68, 0.72), (0.3, 0.62)), shade=0.6),
        Layer(box(-0.32, -0.45, 0.32, 0.6)),
        Layer(upper(disc(0.0, -0.4, 0.32, 0.6), -0.4), shade=0.6),
        Layer(disc(0.0, -0.15, 0.16), GLASS),
    ),
}
