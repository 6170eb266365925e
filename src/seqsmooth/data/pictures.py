"""Pictures as they are, for a model that sees them itself: bytes in one memory-mapped array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.data.features import FeatureSource, Id
from seqsmooth.ops import checks


class Pictures(FeatureSource):
    """Files of pictures that can be written as a store of shape (N, 3, S, S).

    Args:
        files: of each picture, by its id.
        side: S.
        read: from files to (n, 3, S, S) uint8.
        encoder: how they are read, to be kept with them.
    """

    def __init__(
        self,
        files: Mapping[Id, Path],
        side: int,
        read: Callable[[Sequence[Path]], Tensor],
        encoder: str | None = None,
    ) -> None:
        checks.must(len(files) > 0, "images", "one or more", "none")
        self.ids: Sequence[Id] = list(files)
        self.files = list(files.values())
        self.side = checks.at_least("side", side, 1)
        self.row_shape = self.shape = (3, side, side)
        self.dtype = np.dtype(np.uint8)
        self.read = read
        self.encoder = encoder

    @property
    def images_at_once(self) -> int:
        """Few, so that progress is seen to move."""
        return 64

    def values(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The pictures of a few rows."""
        pictures = self.read([self.files[row] for row in rows])
        checks.shape("images", pictures, len(rows), *self.shape, letters="(n, 3, S, S)")
        checks.must(pictures.dtype == torch.uint8, "images", "bytes", pictures.dtype)
        return pictures.numpy()
