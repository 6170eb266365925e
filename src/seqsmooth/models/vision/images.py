"""Read pictures from files with Pillow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

from seqsmooth.files.paths import check_source
from seqsmooth.ops import checks


def read_image(
    path: str | os.PathLike[str], side: int = 224, *, resize: int | None = None
) -> Tensor:  # (3, S, S) uint8
    """Read a picture as a square of `side` pixels.

    Args:
        path: a file of any format that Pillow reads; grey and transparent pictures become RGB.
        side: S.
        resize: scale to this side and cut out the middle; the authors' 256. None scales to `side` and cuts nothing.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise checks.missing("Pillow", "pictures", "toolkit") from error
    full = side if resize is None else resize
    checks.at_least("side", side, 1)
    checks.must(full >= side, "resize", f"{side} or more, as `side`", full)
    path = check_source("image", path)
    try:
        with Image.open(path) as picture:
            scaled = picture.convert("RGB").resize((full, full), Image.Resampling.BILINEAR)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # what Pillow's readers raise
        raise ValueError(f"The image {path} cannot be read as a picture; it may be damaged.") from error
    edge = (full - side) // 2
    cut = np.array(scaled, dtype=np.uint8)[edge : edge + side, edge : edge + side]
    return torch.from_numpy(cut).permute(2, 0, 1).contiguous()


def read_images(
    paths: Sequence[str | os.PathLike[str]], side: int = 224, *, resize: int | None = None, workers: int = 2
) -> Tensor:  # (N, 3, S, S) uint8
    """Read pictures in their order, `workers` at a time; decoding releases the interpreter's lock."""
    checks.must(len(paths) > 0, "paths", "one or more", "none")
    with ThreadPoolExecutor(checks.at_least("workers", workers, 1)) as pool:
        return torch.stack(list(pool.map(partial(read_image, side=side, resize=resize), paths)))
