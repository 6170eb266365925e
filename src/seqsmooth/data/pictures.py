"""Pictures as they are, for a model that sees them itself: bytes in one memory-mapped array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.data.features import Id, places
from seqsmooth.ops import checks

_AT_A_TIME = 64  # so that progress is seen to move


class Pictures:
    """Files of pictures that can be written as a store of shape (N, 3, S, S), a `FeatureSource`.

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
        self.read = read
        self.encoder = encoder

    @cached_property
    def places(self) -> Mapping[Id, int]:
        """The row of each id."""
        return places(self.ids)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of a picture."""
        return (3, self.side, self.side)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Bytes."""
        return np.dtype(np.uint8)

    @property
    def counts(self) -> None:
        """A picture is one row."""
        return

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        """The pictures of some rows, some at a time."""
        for begin in range(0, len(rows), _AT_A_TIME):
            some = [self.files[row] for row in rows[begin : begin + _AT_A_TIME]]
            pictures = self.read(some)
            checks.shape("images", pictures, len(some), *self.row_shape, letters="(n, 3, S, S)")
            checks.must(pictures.dtype == torch.uint8, "images", "bytes", pictures.dtype)
            yield pictures.numpy()
