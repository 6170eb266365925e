"""What a captioner sees of a picture: a fixed encoder, from pixels to one vector.

Two stages in the manner of HMAX (Riesenhuber and Poggio 1999; Serre et al. 2007): colours and oriented edges at each
place; then the likeness to templates, the greatest over the whole picture and over parts of it. The templates are
patches of training pictures, taken at random places. Nothing of it is told what the pictures show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from seqsmooth.ops import checks

ORIENTATIONS = 6
CHANNELS = 6 + ORIENTATIONS  # of the first stage
TEMPLATES = {5: 96, 8: 96}  # how many of each side, in cells of two pixels
GRID = 4
PORTION = 64  # pictures at once


@dataclass(frozen=True, eq=False)
class Encoder:
    """From pictures to features; make one with `Encoder.fit`."""

    templates: dict[int, Tensor]  # by side k: (n, CHANNELS, k, k), each of norm 1

    @classmethod
    def fit(
        cls,
        pictures: NDArray[np.uint8],  # (N, H, W, 3), of the training split only
        seed: int = 0,
    ) -> Encoder:
        """Take templates from pictures."""
        checks.at_least("pictures", len(pictures), 1)
        random = np.random.default_rng(seed)
        chosen = random.choice(len(pictures), min(len(pictures), 4 * max(TEMPLATES.values())), replace=False)
        maps = _first_stage(pictures[chosen])
        templates = {side: _patches(maps, side, number, random) for side, number in TEMPLATES.items()}
        return cls(templates)

    @torch.no_grad()
    def __call__(
        self,
        pictures: NDArray[np.uint8],  # (N, H, W, 3)
    ) -> Tensor:  # (N, F) float32
        """The features of pictures."""
        starts = range(0, len(pictures), PORTION)
        return torch.cat([self._see(pictures[start : start + PORTION]) for start in starts])

    def _see(self, pictures: NDArray[np.uint8]) -> Tensor:
        maps = _first_stage(pictures)
        found = [functional.adaptive_avg_pool2d(maps[:, :6], GRID).flatten(1)]
        for side, templates in self.templates.items():
            norms = functional.avg_pool2d((maps**2).sum(1, keepdim=True), side, 1) * side**2
            likeness = functional.conv2d(maps, templates) / norms.sqrt().add(0.5)
            found += [functional.adaptive_max_pool2d(likeness, size).flatten(1) for size in (1, 2)]
            found.append((likeness - 0.8).clamp_min(0).mean((2, 3)))  # how much of it there is: things are counted
        return torch.cat(found, 1)


def _first_stage(
    pictures: NDArray[np.uint8],  # (N, H, W, 3)
) -> Tensor:  # (N, CHANNELS, H / 2, W / 2)
    """Opponent colours, light and dark apart, and the energy of edges in several directions."""
    pixels = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 255
    red, green, blue = pixels.unbind(1)
    opponents = torch.stack([red - green, blue - (red + green) / 2, pixels.mean(1) - 0.5], 1)
    colours = functional.avg_pool2d(opponents, 2)
    light = functional.pad(pixels.mean(1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    smooth, slope = torch.tensor([0.25, 0.5, 0.25]), torch.tensor([-0.5, 0.0, 0.5])
    across = functional.conv2d(light, (smooth[:, None] * slope[None])[None, None])
    down = functional.conv2d(light, (slope[:, None] * smooth[None])[None, None])
    angles = torch.arange(ORIENTATIONS) * (math.pi / ORIENTATIONS)
    edges = (across * angles.cos()[None, :, None, None] + down * angles.sin()[None, :, None, None]).abs()
    return torch.cat([colours.clamp_min(0), (-colours).clamp_min(0), 2 * functional.avg_pool2d(edges, 2)], 1)


def _patches(maps: Tensor, side: int, number: int, random: np.random.Generator) -> Tensor:
    """Patches with something in them: of many at random places, those with the strongest edges."""
    rows, columns = (random.integers(0, size - side + 1, 6 * number) for size in maps.shape[2:])
    which = random.integers(0, len(maps), 6 * number)
    taken = torch.stack([maps[n, :, r : r + side, c : c + side] for n, r, c in zip(which, rows, columns, strict=True)])
    busy = taken[:, 6:].sum((1, 2, 3))
    kept = taken[busy.topk(2 * number).indices.sort().values[::2]]
    norms: Tensor = torch.linalg.vector_norm(kept, dim=(1, 2, 3), keepdim=True)
    return kept / norms.clamp_min(1e-6)


def standardised(
    features: Tensor,  # (N, F)
    known: int,
) -> Tensor:  # (N, F)
    """Features with mean 0 and spread 1 over the first `known` rows, those of the training."""
    seen = features[:known]
    return (features - seen.mean(0)) / seen.std(0, unbiased=False).clamp_min(1e-4)
