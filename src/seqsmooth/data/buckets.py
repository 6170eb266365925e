"""Which sequences share a shape: few shapes, little padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqsmooth.ops import checks


@dataclass(frozen=True)
class Buckets:
    """A partition by length.

    Attributes:
        widths: of each bucket, one for each kind of length.
        member: the bucket of each row.
    """

    widths: tuple[tuple[int, ...], ...]
    member: NDArray[np.int8]  # (n,)


def make_buckets(
    lengths: NDArray[np.integer[Any]],  # (n, D): of the target, and of the source where there is one
    batch_size: int,
    most: int,
) -> Buckets:
    """Split the rows again and again, each time where it saves the most padding.

    A bucket costs its batches, filled up, times the sum of its widths; so a bucket of a few rows never pays.

    Args:
        lengths: of each row.
        batch_size: rows in a batch.
        most: the greatest number of buckets.
    """
    checks.at_least("buckets", most, 1)
    checks.must(most <= 127, "buckets", "127 or fewer", most)
    # Rows of the same lengths stay together, so that there is little to look at however many rows there are.
    sizes = tuple(int(size) + 1 for size in lengths.max(0))
    key = np.ravel_multi_index(tuple(lengths.T), sizes)
    counts = np.bincount(key)
    present = np.flatnonzero(counts)
    distinct, counts = np.stack(np.unravel_index(present, sizes), 1), counts[present]
    parts = [np.arange(len(distinct))]
    splits = [_best_split(distinct, counts, parts[0], batch_size)]
    while len(parts) < most:
        place = max(range(len(parts)), key=lambda k: splits[k][0])
        saved, low, high = splits[place]
        if saved <= 0:
            break
        parts[place : place + 1] = [low, high]
        splits[place : place + 1] = [_best_split(distinct, counts, part, batch_size) for part in (low, high)]
    parts.sort(key=lambda part: tuple(distinct[part].max(0)))
    bucket = np.zeros(present[-1] + 1, dtype=np.int8)
    for number, part in enumerate(parts):
        bucket[present[part]] = number
    widths = tuple(tuple(int(width) for width in distinct[part].max(0)) for part in parts)
    return Buckets(widths, bucket[key])


def _best_split(
    lengths: NDArray[Any], counts: NDArray[np.int64], part: NDArray[np.int64], batch_size: int
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    # What the best cut of a part in two, along any one length, saves; and the two.
    best = (0, part, part[:0])
    whole = _cost(counts[part].sum(), lengths[part].max(0), batch_size)
    for along in range(lengths.shape[1]):
        order = part[np.argsort(lengths[part, along], kind="stable")]
        sizes = np.cumsum(counts[order])
        upwards = np.maximum.accumulate(lengths[order], 0)
        downwards = np.maximum.accumulate(lengths[order][::-1], 0)[::-1]
        cuts = np.flatnonzero(np.diff(lengths[order, along])) + 1
        if len(cuts) == 0:
            continue
        low = _cost(sizes[cuts - 1], upwards[cuts - 1], batch_size)
        high = _cost(sizes[-1] - sizes[cuts - 1], downwards[cuts], batch_size)
        place = int(np.argmin(low + high))
        saved = int(whole - (low + high)[place])
        if saved > best[0]:
            best = (saved, order[: cuts[place]], order[cuts[place] :])
    return best


def _cost(rows: NDArray[np.int64], widths: NDArray[Any], batch_size: int) -> NDArray[np.int64]:
    filled: NDArray[np.int64] = -(-rows // batch_size) * batch_size * widths.sum(-1, dtype=np.int64)
    return filled
