"""Features of images: one memory-mapped array, and an index that says whose rows they are."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqsmooth import checks
from seqsmooth.data.arrays import ArrayWriter, open_array
from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.reading import read_record

KIND = "seqsmooth features 1"
Id = int | str
_BLOCK = 1 << 26  # bytes that are copied at a time


class FeatureSource(ABC):
    """Features that can be written as a store, wherever they are.

    Attributes:
        ids: of the images, one a row.
        shape: of one image: (F,), or (R, D) for at most R regions; (3, S, S) for a picture.
        row_shape: of a row of the array on disk: of an image, or of a region where their number varies.
        dtype: of the values.
        counts: the number of regions of each image; None where all have as many.
        encoder: what made the features, and how it read the pictures; None where that is unknown.
    """

    ids: Sequence[Id]
    shape: tuple[int, ...]
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    counts: NDArray[np.int64] | None = None  # (N,)
    encoder: str | None = None

    @cached_property
    def places(self) -> Mapping[Id, int]:
        """The row of each id; an id that is there twice is refused."""
        rows = {name: row for row, name in enumerate(self.ids)}
        if len(rows) < len(self.ids):
            row, twice = next((row, name) for row, name in enumerate(self.ids) if rows[name] != row)
            repetition = f"{twice!r} in rows {row + 1} and {rows[twice] + 1}"
            raise checks.wrong("ids of the features", "all different", repetition)
        return rows

    def rows(self, ids: Iterable[Id]) -> NDArray[np.int64]:
        """Find the rows of some ids, all of which must be there."""
        rows = []
        for name in ids:
            place = self.places.get(name)
            checks.must(place is not None, "features", f"there for the image {name!r}", "missing")
            rows.append(place)
        return np.array(rows, dtype=np.int64)

    @property
    def images_at_once(self) -> int:
        """How many images are copied at a time."""
        return max(1, _BLOCK // max(1, int(np.prod(self.shape)) * self.dtype.itemsize))

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        """The values of some rows, some at a time."""
        for begin in range(0, len(rows), self.images_at_once):
            yield self.values(rows[begin : begin + self.images_at_once])

    @abstractmethod
    def values(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The values of a few rows; the regions of several images one after the other where their number varies."""


class FeatureStore(FeatureSource):
    """Features by the id of their image: pooled (N, F), regions (N, R, D), or so many regions an image as it has.

    Or the pictures themselves: (N, 3, S, S), bytes.

    Attributes:
        ids: of the images, one a row.
        array: (N, F), (N, R, D) or (N, 3, S, S), or with `offsets` (M, D): the regions of all images, one after the
            other.
        offsets: (N + 1,) where the regions of each image start; None where all have as many.
        encoder: what made them, and how it read the pictures; None where that is unknown.

    Examples:
        >>> store = FeatureStore([42, 7], np.array([[0.5, 1.0], [2.0, 3.0]], dtype=np.float32))
        >>> store.read(store.rows([7]))[0]
        array([[2., 3.]], dtype=float32)
    """

    def __init__(
        self,
        ids: Sequence[Id],
        array: NDArray[Any],  # (N, F), (N, R, D), (N, 3, S, S), or (M, D)
        offsets: NDArray[np.int64] | None = None,  # (N + 1,)
        encoder: str | None = None,
    ) -> None:
        numbers = isinstance(getattr(array, "dtype", None), np.dtype) and array.ndim > 0
        checks.must(numbers, "features", "an array of numpy, a row an image", checks.describe(array))
        rows = len(array) if offsets is None else len(offsets) - 1
        checks.must(len(ids) == rows, "ids", f"one for each of the {rows} rows of features", f"{len(ids)} of them")
        dimensions = (2,) if offsets is not None else (2, 3)
        rule = "(N, F) or (N, R, D), or pictures (N, 3, S, S) of bytes" if offsets is None else "(M, D)"
        fits = array.ndim in dimensions or (offsets is None and is_picture(array.shape[1:], array.dtype))
        checks.must(fits, "features", f"of shape {rule}", f"{array.shape} of {array.dtype}")
        checks.must(array.dtype.kind in "fiu", "features", "numbers", array.dtype)
        if offsets is not None:
            ordered = int(offsets[0]) == 0 and int(offsets[-1]) == len(array) and bool((np.diff(offsets) > 0).all())
            checks.must(ordered, "offsets", f"ascending from 0 to {len(array)}, an image at least one region", "not")
        self.ids = ids
        self.array = array
        self.offsets = offsets
        self.encoder = encoder
        self.dtype = array.dtype
        self.row_shape = self.shape = tuple(array.shape[1:])
        if offsets is not None:
            self.counts = np.diff(offsets)
            self.shape = (int(self.counts.max(initial=0)), *self.row_shape)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def pictures(self) -> bool:
        """Whether these are pictures, which nothing has looked at yet."""
        return is_picture(self.row_shape, self.dtype)

    def read(
        self,
        rows: NDArray[np.integer[Any]],  # (n,)
    ) -> tuple[NDArray[Any], ...]:
        """Features of some rows, as `array`; with `offsets` padded (n, R, D), and their mask (n, R) after them."""
        if self.offsets is None:
            return (self.array[rows],)
        start = self.offsets[rows]
        column = np.arange(self.shape[0])
        there = column < (self.offsets[np.asarray(rows) + 1] - start)[:, None]
        place = np.where(there, start[:, None] + column, start[:, None])
        return np.where(there[..., None], self.array[place], 0), there

    def values(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The values of a few rows."""
        if self.offsets is None:
            return self.array[rows]
        return np.concatenate([self.array[self.offsets[row] : self.offsets[row + 1]] for row in rows])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write PATH.npy, PATH.json and, where the number of regions varies, PATH.offsets.npy."""
        write_features(path, self)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FeatureStore:
        """Map what `save` wrote at `path` (with or without its .json)."""
        name = str(path).removesuffix(".json")

        def parse(value: Any) -> tuple[list[Id], bool, str | None]:
            return list(value["ids"]), bool(value["varying"]), value.get("encoder")

        rule = "a file written by `FeatureStore.save`"
        ids, varying, encoder = read_record(f"{name}.json", parse, rule, name="features", kind=KIND)
        offsets = open_array(f"{name}.offsets.npy", dimensions=1) if varying else None
        return cls(ids, open_array(f"{name}.npy"), offsets, encoder)


def write_features(
    path: str | os.PathLike[str],
    source: FeatureSource,
    rows: NDArray[np.int64] | None = None,
    dtype: DTypeLike | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Write features as a store, some at a time.

    Args:
        path: the name that the files begin with.
        source: where they are.
        rows: write only these, in this order; all by default.
        dtype: as in "float16"; as they are by default.
        progress: called with the number of rows of the array that are done.
    """
    rows = np.arange(len(source.ids)) if rows is None else rows
    with ArrayWriter(Path(f"{path}.npy"), dtype or source.dtype, source.row_shape) as writer:
        for block in source.blocks(rows):
            images: list[Id] = []
            if source.counts is None:  # else a row of the block is a region
                images = [source.ids[row] for row in rows[writer.rows : writer.rows + len(block)]]
            writer.append(convert(block, writer.dtype, images))
            progress(writer.rows)
    if source.counts is not None:
        with ArrayWriter(Path(f"{path}.offsets.npy"), np.int64) as offsets:
            offsets.append(np.concatenate([[0], np.cumsum(source.counts[rows])]))
    index: dict[str, Any] = {"kind": KIND, "varying": source.counts is not None}
    index |= {} if source.encoder is None else {"encoder": source.encoder}
    index["ids"] = [source.ids[row] for row in rows]
    with atomic_write_text(f"{path}.json") as file:
        json.dump(index, file)


def is_picture(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Whether a row of this shape and type is a picture (3, S, S) of bytes."""
    return len(shape) == 3 and shape[0] == 3 and shape[1] == shape[2] and dtype == np.uint8


def convert(block: NDArray[Any], dtype: np.dtype[Any], images: Sequence[Id] = ()) -> NDArray[Any]:
    """Convert features to a type, in which all must be finite; `images` names the rows for the error."""
    with np.errstate(over="ignore"):
        values = block.astype(dtype, copy=False)
    if dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.isfinite(values).reshape(len(values), -1).all(1).argmin())
        finite = bool(np.isfinite(block[row]).all())
        problem = f"too large for {dtype}" if finite else "infinite or not a number"
        where = f"for the image {images[row]!r}" if images else "somewhere"
        raise ValueError(f"`features` must be finite, but are {problem} {where}.")
    return values
