"""Pictures from files, by Pillow."""

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
        path: any format that Pillow knows; grey and transparent pictures become RGB.
        side: S.
        resize: scale it to so many pixels a side before the middle is cut out; the authors' 256. None: nothing is cut.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise checks.missing("Pillow", "pictures", "toolkit") from error
    whole = side if resize is None else resize
    checks.at_least("side", side, 1)
    checks.must(whole >= side, "resize", f"{side} or more, as `side`", whole)
    path = check_source("image", path)
    try:
        with Image.open(path) as picture:
            scaled = picture.convert("RGB").resize((whole, whole), Image.Resampling.BILINEAR)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # what Pillow's readers raise
        raise ValueError(f"`image` must be a whole picture, but {path} is damaged or none at all instead.") from error
    edge = (whole - side) // 2
    cut = np.array(scaled, dtype=np.uint8)[edge : edge + side, edge : edge + side]
    return torch.from_numpy(cut).permute(2, 0, 1).contiguous()


def read_images(
    paths: Sequence[str | os.PathLike[str]], side: int = 224, *, resize: int | None = None, workers: int = 2
) -> Tensor:  # (N, 3, S, S) uint8
    """Read pictures in their order, some at a time: decoding holds no lock."""
    checks.must(len(paths) > 0, "paths", "one or more", "none")
    with ThreadPoolExecutor(checks.at_least("workers", workers, 1)) as pool:
        return torch.stack(list(pool.map(partial(read_image, side=side, resize=resize), paths)))
