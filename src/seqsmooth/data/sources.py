"""Sources of batches: memory maps on the host, or copies on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqsmooth.data.batch import Batch
from seqsmooth.data.split import Split

_CHUNK = 1 << 16  # sequences that are copied to a device at a time


class Epoch(NamedTuple):
    """Which rows make up each batch of an epoch."""

    items: NDArray[np.int32]  # (batches, B) whose inputs to read
    targets: NDArray[np.int32]  # (batches, B); the number of targets where the batch is filled up
    bucket: NDArray[np.int8]  # (batches,)
    tokens: NDArray[np.int64]  # (batches,) of the targets, over all ranks


class Widths(NamedTuple):
    """The shape of the batches of a bucket."""

    target: int
    source: int  # 0 where there are no sources


class Streamed:
    """Batches on the host, from memory maps: however large the corpus, what it needs is one batch.

    Features keep the type that they have on disk, so that half as much is moved to a GPU; `Split.as_read` comes after.

    Args:
        split: the items.
        widths: of each bucket.
        references: how many to give beside the targets; 0 for none.
        width: of the references.
        shared: so many targets in a row have one row of inputs.
    """

    epoch: Epoch

    def __init__(self, split: Split, widths: tuple[Widths, ...], references: int, width: int, shared: int = 1) -> None:
        self.split = split
        self.shared = shared
        self.widths = widths
        self.references = references
        self.width = width

    def begin(self, epoch: Epoch) -> None:
        """Turn to an epoch."""
        self.epoch = epoch

    def batch(self, number: int) -> Batch:
        """Make a batch."""
        epoch, split = self.epoch, self.split
        items, rows = epoch.items[number], epoch.targets[number]
        target, source = self.widths[epoch.bucket[number]]
        targets = torch.from_numpy(split.targets.rows(rows, target))
        references = None
        if self.references == 1:
            references = targets.unsqueeze(1)
        elif self.references > 1:
            several = split.beside(rows, self.references).reshape(-1)
            references = torch.from_numpy(split.targets.rows(several, self.width))
            references = references.view(len(rows), self.references, self.width)
        shown = np.where(rows < len(split.targets), items, -1).astype(np.int64)
        tokens = torch.tensor(epoch.tokens[number])
        return Batch(
            split.stored_inputs(items[:: self.shared], source), targets, references, tokens, torch.from_numpy(shown)
        )


class Resident:
    """Batches on a device that holds all of the corpus: a batch is a few selections there, and the host waits for none.

    Args:
        split: the items.
        widths: of each bucket.
        references: how many to give beside the targets; 0 for none.
        width: of the references.
        device: where.
        vocabulary: the greatest number of words on either side.
        shared: so many targets in a row have one row of inputs.
    """

    def __init__(
        self,
        split: Split,
        widths: tuple[Widths, ...],
        references: int,
        width: int,
        device: torch.device,
        vocabulary: int,
        shared: int = 1,
    ) -> None:
        self.widths = widths
        self.shared = shared
        self.pictures = split.pictures
        self.width = width
        self.references = references
        self.none = len(split.targets)
        self.device = device
        dtype = id_type(vocabulary)
        widest = max(max(w.target for w in widths), width)
        self.targets = _matrix(split.targets, widest, dtype, device)  # (M + 1, T), PAD in the last row
        self.sources: Tensor | None = None
        self.features: Tensor | None = None
        self.regions: tuple[Tensor, Tensor] | None = None  # where those of each image start, and how many there are
        if split.sources is not None:
            self.sources = _matrix(split.sources, max(w.source for w in widths), dtype, device)
        elif split.features is not None and split.feature_rows is not None:
            self._take_features(split)
        self.beside = None
        if references > 1:
            table = split.beside(np.arange(self.none + 1), references).astype(np.int32)
            self.beside = torch.from_numpy(table).to(device)  # (M + 1, R)

    def begin(self, epoch: Epoch) -> None:
        """Turn to an epoch: its order is copied to the device, once."""
        shown = np.where(epoch.targets < self.none, epoch.items, -1)
        moved = (torch.from_numpy(values.astype(np.int64)).to(self.device) for values in (*epoch[:2], shown))
        self.items, self.rows, self.shown = moved
        self.tokens = torch.from_numpy(epoch.tokens).to(self.device)
        self.bucket = epoch.bucket.tolist()

    def batch(self, number: int) -> Batch:
        """Make a batch."""
        items, rows = self.items[number], self.rows[number]
        target, source = self.widths[self.bucket[number]]
        targets = self.targets[:, :target].index_select(0, rows).long()
        references = None
        if self.references == 1:
            references = targets.unsqueeze(1)
        elif self.beside is not None:
            several = self.beside.index_select(0, rows).view(-1)
            references = self.targets[:, : self.width].index_select(0, several).long()
            references = references.view(len(rows), self.references, self.width)
        inputs = self._inputs(items[:: self.shared], source)
        return Batch(inputs, targets, references, self.tokens[number], self.shown[number])

    def _inputs(self, items: Tensor, source: int) -> tuple[Tensor, ...]:
        if self.sources is not None:
            return (self.sources[:, :source].index_select(0, items).long(),)
        if self.features is None:
            return ()
        if self.regions is None:
            features = self.features.index_select(0, items)
            return (features if self.pictures else features.float(),)
        start, count = (values.index_select(0, items).unsqueeze(1) for values in self.regions)
        there = self.column < count
        place = torch.where(there, start + self.column, start)
        features = self.features.index_select(0, place.view(-1)).view(*place.shape, -1).float()
        return features * there.unsqueeze(-1), there

    def _take_features(self, split: Split) -> None:
        store, rows = split.features, split.feature_rows
        assert store is not None
        assert rows is not None
        sizes = np.ones(len(rows), dtype=np.int64) if store.offsets is None else np.diff(store.offsets)[rows]
        dtype = torch.from_numpy(store.array[:0].copy()).dtype
        shape = (int(sizes.sum()), *store.array.shape[1:])
        self.features = torch.empty(shape, dtype=dtype, device=self.device)
        done = 0
        for block in store.blocks(rows):
            self.features[done : done + len(block)].copy_(torch.from_numpy(np.ascontiguousarray(block)))
            done += len(block)
        if store.offsets is not None:
            ends = np.cumsum(sizes)
            start, count = (torch.from_numpy(one).to(self.device) for one in (ends - sizes, sizes))
            self.regions = (start, count)
            self.column = torch.arange(store.shape[0], device=self.device)


def id_type(vocabulary: int) -> torch.dtype:
    """The smallest type that holds the ids of so many words."""
    return torch.int16 if vocabulary <= 1 << 15 else torch.int32


def resident_bytes(split: Split, widths: tuple[Widths, ...], references: int, width: int, vocabulary: int) -> int:
    """Count the bytes that `Resident` takes."""
    size = id_type(vocabulary).itemsize
    total = (len(split.targets) + 1) * max(max(w.target for w in widths), width) * size
    total += 8 * 3 * len(split.targets)  # the order of an epoch
    if references > 1:
        total += 4 * references * (len(split.targets) + 1)
    if split.sources is not None:
        total += (len(split.sources) + 1) * max(w.source for w in widths) * size
    elif split.features is not None and split.feature_rows is not None:
        array, offsets = split.features.array, split.features.offsets
        rows = len(split) if offsets is None else int(np.diff(offsets)[split.feature_rows].sum())
        total += rows * int(np.prod(array.shape[1:])) * array.dtype.itemsize
    return total


def _matrix(store: Any, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    matrix = torch.zeros(len(store) + 1, width, dtype=dtype, device=device)
    for begin in range(0, len(store), _CHUNK):
        which = np.arange(begin, min(begin + _CHUNK, len(store)))
        matrix[begin : begin + len(which)].copy_(torch.from_numpy(store.rows(which, width)))
    return matrix
