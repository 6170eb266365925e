"""A fixed encoder of pictures: from pixels to one vector.

In the manner of HMAX (Riesenhuber and Poggio 1999; Serre et al. 2007): opponent colours and oriented edges at each
place; then the likeness to templates, the greatest over the picture and over its quarters, and how much there is of it;
beside that, a histogram of colours. Templates are patches of training pictures at random places, the palette is drawn
from their pixels, and principal components make it all short. Nothing of it is told what the pictures show.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from seqsmooth.ops import checks

Pixels = NDArray[np.uint8]  # (N, H, W, 3)
ORIENTATIONS = 6
OPPONENTS = 6  # red, blue, light, and their opposites
# What templates are made of, their side in cells of two pixels, and how many there are.
TEMPLATES = (("edges", 6, 96), ("edges", 9, 96), ("both", 6, 96))
ALIKE = 0.8  # what counts as a find
PALETTE = 40
NEAR = 0.06  # how far colours are from each other that are alike, of 1
SIZES = {"colours": 64, "edges": 96, "both": 64}  # components kept of each kind of feature
SAMPLE = 400  # pictures that templates and palette are taken from
PORTION = 32  # pictures at once: what is made of them stays in the cache


class Pictures(Protocol):
    """Pictures as an array (N, H, W, 3) of bytes, or what makes parts of one when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: slice | NDArray[np.int64], /) -> Pixels: ...


@dataclass(frozen=True, eq=False)
class Encoder:
    """From pictures to features of three kinds; make one with `Encoder.fit`."""

    templates: tuple[Tensor, ...]  # one for each of TEMPLATES: (n, channels, side, side), each of norm 1
    palette: Tensor  # (PALETTE, 3)

    @classmethod
    def fit(
        cls,
        pictures: Pictures,
        seed: int = 0,
        known: int | None = None,
    ) -> Encoder:
        """Take templates and a palette from some of the first `known` pictures, those of the training split."""
        known = checks.at_least("pictures", len(pictures) if known is None else known, 1)
        random = np.random.default_rng(seed)
        chosen = random.choice(known, min(known, SAMPLE), replace=False)
        maps = _first_stage(pictures[chosen])
        templates = tuple(_patches(maps, what, side, number, random) for what, side, number in TEMPLATES)
        return cls(templates, _palette(maps["cells"], random))

    def __call__(self, pictures: Pictures) -> dict[str, Tensor]:  # (N, F) float32 each
        """The features of pictures, by their kind.

        A second thread sees one portion while this one takes the next: where pictures are drawn as they are asked for,
        the two work at the same time.
        """
        portions = (pictures[start : start + PORTION] for start in range(0, len(pictures), PORTION))
        with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)) as other:
            parts = list(other.map(self._see, portions))
        return {kind: torch.cat([part[kind] for part in parts]) for kind in SIZES}

    @torch.no_grad()
    def _see(self, pictures: Pixels) -> dict[str, Tensor]:
        maps = _first_stage(pictures)
        features: dict[str, list[Tensor]] = {kind: [] for kind in SIZES}
        for (what, side, _), templates in zip(TEMPLATES, self.templates, strict=True):
            seen = maps[what]
            norms = functional.avg_pool2d((seen**2).sum(1, keepdim=True), side, 1) * side**2
            # Where there is next to nothing, nothing is alike.
            likeness = functional.conv2d(seen, templates).div_(norms.sqrt().add(1.0 if what == "edges" else 0.5))
            quarters = _greatest_of_quarters(likeness)
            features[what] += [quarters.amax(-1), quarters.flatten(1)]
            # How much of it there is: things are counted.
            features[what].append(likeness.sub_(ALIKE).clamp_min_(0).mean((2, 3)))
        apart = (maps["cells"].flatten(2).transpose(1, 2)[:, :, None] - self.palette).square().sum(-1)
        shares = torch.softmax(apart / (-2 * NEAR**2), -1).transpose(1, 2)
        shares = shares.reshape(len(shares), PALETTE, *maps["cells"].shape[2:])
        # The root: a small thing is a small share of the picture, and no less to talk about.
        features["colours"] = [functional.adaptive_avg_pool2d(shares, parts).flatten(1).sqrt() for parts in (1, 2)]
        return {kind: torch.cat(several, 1) for kind, several in features.items()}


def components(
    features: Tensor,  # (N, F)
    known: int,
    size: int,
) -> Tensor:  # (N, size or fewer)
    """The principal components of standardised features; mean, spread and directions are those of the first `known`.

    Each is divided by the root of its spread: half-way between the features as they are, where a few components
    outweigh all others, and white ones, where the smallest, mere noise, weigh as much as the greatest.
    """
    seen = features[:known]
    standard = (features - seen.mean(0)) / seen.std(0, unbiased=False).clamp_min(1e-4)
    _, spreads, directions = torch.linalg.svd(standard[:known], full_matrices=False)
    count = min(size, int((spreads > 1e-3 * spreads[0]).sum()))
    projected = standard @ directions[:count].T / spreads[:count].sqrt()
    scaled: Tensor = projected / projected[:known].std(unbiased=False)
    return scaled.contiguous()


def see(
    pictures: Pictures,
    known: int,
    seed: int = 0,
) -> Tensor:  # (N, F) float32
    """The features of pictures, through an encoder made from the first `known`."""
    views = Encoder.fit(pictures, seed, known)(pictures)
    return torch.cat([components(views[kind], known, size) for kind, size in SIZES.items()], 1)


@torch.no_grad()
def _first_stage(pictures: Pixels) -> dict[str, Tensor]:  # (N, channels, H / 2, W / 2) each
    """Cells of two pixels, the energy of edges in several directions, and that with opponent colours."""
    pixels = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 255
    cells = functional.avg_pool2d(pixels, 2)
    red, green, blue = cells.unbind(1)
    opponents = torch.stack([red - green, blue - (red + green) / 2, cells.mean(1) - 0.5], 1)
    light = functional.pad(pixels.mean(1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    smooth, slope = torch.tensor([0.25, 0.5, 0.25]), torch.tensor([-0.5, 0.0, 0.5])
    across = functional.conv2d(light, (smooth[:, None] * slope[None])[None, None])
    down = functional.conv2d(light, (slope[:, None] * smooth[None])[None, None])
    angles = (torch.arange(ORIENTATIONS) * (math.pi / ORIENTATIONS))[None, :, None, None]
    energy = 2 * functional.avg_pool2d((across * angles.cos() + down * angles.sin()).abs(), 2)
    # Edges count by how they compare with those around them: a shape is one by day and by night.
    around = functional.avg_pool2d(energy.sum(1, keepdim=True), 7, 1, 3, count_include_pad=False)
    both = torch.cat([opponents.clamp_min(0), (-opponents).clamp_min(0), energy], 1)
    return {"cells": cells, "edges": energy / (around + 0.15), "both": both}


def _greatest_of_quarters(
    values: Tensor,  # (N, C, H, W)
) -> Tensor:  # (N, C, 4)
    """The greatest value of each quarter, as `adaptive_max_pool2d` finds it; the middle of an odd side is in both."""
    height, width = values.shape[2:]
    halves = [values[:, :, : (height + 1) // 2].amax(2), values[:, :, height // 2 :].amax(2)]  # (N, C, W) each
    sides = slice(None, (width + 1) // 2), slice(width // 2, None)
    return torch.stack([half[:, :, side].amax(2) for half in halves for side in sides], 2)


def _patches(maps: dict[str, Tensor], what: str, side: int, number: int, random: np.random.Generator) -> Tensor:
    """Patches with something in them: of many at random places, some of those with the strongest edges."""
    seen, energy = maps[what], maps["both"][:, OPPONENTS:]
    rows, columns = (random.integers(0, size - side + 1, 6 * number) for size in seen.shape[2:])
    places = list(zip(random.integers(0, len(seen), 6 * number), rows, columns, strict=True))
    taken = torch.stack([seen[n, :, r : r + side, c : c + side] for n, r, c in places])
    busy = torch.stack([energy[n, :, r : r + side, c : c + side].sum() for n, r, c in places])
    kept = taken[busy.topk(2 * number).indices.sort().values[::2]]
    norms: Tensor = torch.linalg.vector_norm(kept, dim=(1, 2, 3), keepdim=True)
    return kept / norms.clamp_min(1e-6)


def _palette(cells: Tensor, random: np.random.Generator) -> Tensor:  # (PALETTE, 3)
    """Colours that are far from each other, as k-means++ draws its centres: rare colours are among them."""
    pixels = cells.permute(0, 2, 3, 1).reshape(-1, 3).double().numpy()
    pixels = pixels[random.choice(len(pixels), min(len(pixels), 20000), replace=False)]
    chosen = [pixels[0]]
    apart = np.full(len(pixels), np.inf)
    while len(chosen) < PALETTE:
        apart = np.minimum(apart, ((pixels - chosen[-1]) ** 2).sum(1))
        chosen.append(pixels[random.choice(len(pixels), p=apart / apart.sum())])
    return torch.from_numpy(np.stack(chosen)).float()
