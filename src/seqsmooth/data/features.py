"""Features of images: one memory-mapped array, and an index that says whose rows they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqsmooth.data.arrays import ArrayWriter, open_array
from seqsmooth.ops import checks
from seqsmooth.ops.files import text_written_whole

KIND = "seqsmooth features 1"
Id = int | str
_BLOCK = 1 << 26  # bytes that are copied at a time


class FeatureStore:
    """Features by the id of their image: pooled (N, F), regions (N, R, D), or so many regions an image as it has.

    Attributes:
        ids: of the images, one a row.
        array: (N, F) or (N, R, D), or with `offsets` (M, D): the regions of all images, one after the other.
        offsets: (N + 1,) where the regions of each image start; None where all have as many.

    Examples:
        >>> store = FeatureStore([42, 7], np.array([[0.5, 1.0], [2.0, 3.0]], dtype=np.float32))
        >>> store.read(store.rows([7]))[0]
        array([[2., 3.]], dtype=float32)
    """

    def __init__(
        self,
        ids: Sequence[Id],
        array: NDArray[Any],  # (N, F), (N, R, D), or (M, D)
        offsets: NDArray[np.int64] | None = None,  # (N + 1,)
    ) -> None:
        rows = len(array) if offsets is None else len(offsets) - 1
        checks.must(len(ids) == rows, "ids", f"one for each of the {rows} rows of features", f"{len(ids)} of them")
        dimensions = (2,) if offsets is not None else (2, 3)
        rule = "(N, F) or (N, R, D)" if offsets is None else "(M, D)"
        checks.must(array.ndim in dimensions, "features", f"of shape {rule}", array.shape)
        checks.must(array.dtype.kind in "fiu", "features", "numbers", array.dtype)
        if offsets is not None:
            ordered = int(offsets[0]) == 0 and int(offsets[-1]) == len(array) and bool((np.diff(offsets) > 0).all())
            checks.must(ordered, "offsets", f"ascending from 0 to {len(array)}, an image at least one region", "not")
        self.ids = ids
        self.array = array
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of one image: (F,) or (R, D), where R is the most regions that an image has."""
        if self.offsets is None:
            return tuple(self.array.shape[1:])
        return (int(np.diff(self.offsets).max(initial=0)), int(self.array.shape[1]))

    @cached_property
    def places(self) -> dict[Id, int]:
        """The row of each id."""
        found = {name: row for row, name in enumerate(self.ids)}
        checks.must(len(found) == len(self.ids), "ids", "all different", "the same id twice")
        return found

    def rows(self, ids: Iterable[Id]) -> NDArray[np.int64]:
        """The rows of some ids, all of which must be there."""
        places, found = self.places, []
        for name in ids:
            place = places.get(name)
            checks.must(place is not None, "features", f"there for the image {name!r}", "missing")
            found.append(place)
        return np.array(found, dtype=np.int64)

    def read(
        self,
        rows: NDArray[np.integer[Any]],  # (n,)
    ) -> tuple[NDArray[Any], ...]:
        """Features of some rows: (n, F) or (n, R, D); with `offsets` padded, and their mask (n, R) after them."""
        if self.offsets is None:
            return (self.array[rows],)
        start = self.offsets[rows]
        column = np.arange(self.shape[0])
        there = column < (self.offsets[np.asarray(rows) + 1] - start)[:, None]
        place = np.where(there, start[:, None] + column, start[:, None])
        return np.where(there[..., None], self.array[place], 0), there

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        """What is held of some rows, some at a time."""
        size = max(1, int(np.prod(self.shape)) * self.array.dtype.itemsize)
        step = max(1, _BLOCK // size)
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            if self.offsets is None:
                yield self.array[some]
            else:
                parts = [self.array[self.offsets[row] : self.offsets[row + 1]] for row in some]
                yield np.concatenate(parts)

    def save(
        self, path: str | os.PathLike[str], rows: NDArray[np.int64] | None = None, dtype: DTypeLike | None = None
    ) -> None:
        """Write PATH.npy, PATH.json and, where counts vary, PATH.offsets.npy.

        Args:
            path: the name that the files begin with.
            rows: write only these, in this order; all by default.
            dtype: as in "float16"; that of the array by default.
        """
        rows = np.arange(len(self)) if rows is None else rows
        with ArrayWriter(Path(f"{path}.npy"), dtype or self.array.dtype, self.array.shape[1:]) as writer:
            for block in self.blocks(rows):
                writer.append(_converted(block, writer.dtype))
        if self.offsets is not None:
            sizes = np.diff(self.offsets)[rows]
            with ArrayWriter(Path(f"{path}.offsets.npy"), np.int64) as to:
                to.append(np.concatenate([[0], np.cumsum(sizes)]))
        held = {"kind": KIND, "varying": self.offsets is not None, "ids": [self.ids[row] for row in rows]}
        with text_written_whole(f"{path}.json") as file:
            json.dump(held, file)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FeatureStore:
        """Map what `save` wrote at `path` (with or without its .json)."""
        name = str(path).removesuffix(".json")
        rule = "a file written by `FeatureStore.save`"
        try:
            held = json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))
            if held["kind"] != KIND:
                raise ValueError(f"it is of the kind {held['kind']!r}")
            ids, varying = list(held["ids"]), bool(held["varying"])
        except OSError as error:
            raise ValueError(f"`features` must be {rule}, but {name}.json cannot be read: {error.strerror}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"`features` must be {rule}, but {name}.json is damaged or something else.") from error
        offsets = open_array(f"{name}.offsets.npy", dimensions=1) if varying else None
        return cls(ids, open_array(f"{name}.npy"), offsets)


def _converted(block: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        converted = block.astype(dtype, copy=False)
    if dtype.kind == "f" and not np.isfinite(converted).all():
        finite = bool(np.isfinite(block).all())
        told = f"too large for {dtype} somewhere" if finite else "infinite or not a number somewhere"
        raise ValueError(f"`features` must be finite, but are {told}.")
    return converted
