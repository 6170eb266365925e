"""One split of a prepared corpus: items, what people wrote for each, and where their inputs are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.data.features import FeatureStore
from seqsmooth.data.tokens import TokenStore

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Split:
    """Items in order; nothing of it is read before it is asked for.

    Attributes:
        targets: what people wrote, the texts of one item after those of the other.
        firsts: the first target of each item, and after all the number of targets.
        sources: the source sentence of each item, in translation.
        features: of the images, or the pictures themselves, in captioning.
        feature_rows: the row of each item in `features`.
    """

    targets: TokenStore
    firsts: NDArray[np.int64]  # (N + 1,)
    sources: TokenStore | None = None
    features: FeatureStore | None = None
    feature_rows: NDArray[np.int64] | None = None  # (N,)

    def __len__(self) -> int:
        return len(self.firsts) - 1

    @cached_property
    def most(self) -> int:
        """The most targets that an item has."""
        return int(np.diff(self.firsts).max(initial=0))

    @cached_property
    def paired(self) -> bool:
        """Whether each item has exactly one target."""
        return self.most == 1 and len(self.targets) == len(self)

    @property
    def pictures(self) -> bool:
        """Whether the model reads pictures."""
        return self.features is not None and self.features.pictures

    def item_of(self, targets: Ints) -> NDArray[np.int64]:
        """The item of each target."""
        if self.paired:
            return np.asarray(targets, dtype=np.int64)
        return np.searchsorted(self.firsts, targets, side="right") - 1

    def beside(
        self,
        targets: Ints,  # (n,); the number of targets means none
        references: int,
    ) -> NDArray[np.int64]:  # (n, references)
        """List the targets of the same items, the given one first; none where there are no more."""
        none = len(self.targets)
        item = np.minimum(self.item_of(targets), len(self) - 1)
        first = self.firsts[item]
        count = self.firsts[item + 1] - first
        turn = np.arange(references)
        places = first[:, None] + (np.asarray(targets)[:, None] - first[:, None] + turn) % np.maximum(count, 1)[:, None]
        there = (turn < count[:, None]) & (np.asarray(targets) < none)[:, None]
        return np.where(there, places, none)

    def inputs(self, items: Ints, source_width: int | None = None) -> tuple[Tensor, ...]:
        """What the model reads of some items; sources are as wide as their longest unless told."""
        return self.as_read(self.stored_inputs(items, source_width))

    def stored_inputs(self, items: Ints, source_width: int | None = None) -> tuple[Tensor, ...]:
        """What the model reads of some items, with features in the type that they have on disk."""
        if self.sources is not None:
            width = source_width or int(self.sources.lengths[items].max(initial=1))
            return (torch.from_numpy(self.sources.rows(np.asarray(items), width)),)
        if self.features is None or self.feature_rows is None:
            return ()
        # Several captions of an image come together, and its features may be large: they are read once.
        distinct, place = np.unique(items, return_inverse=True)
        features = self.features.read(self.feature_rows[distinct])
        which = torch.from_numpy(place.reshape(-1))
        return tuple(torch.from_numpy(values).index_select(0, which) for values in features)

    def as_read(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Convert stored inputs to single precision, on whatever device; pictures stay bytes."""
        if self.sources is not None or self.pictures:
            return inputs
        return tuple(values if values.dtype == torch.bool else values.float() for values in inputs)
