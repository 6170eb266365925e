"""Arrays of numbers as text inside JSON.

{"dtype": "<f4", "shape": [4407, 1], "data": "eNrt..."}: the values row by row, little-endian, compressed by zlib, in
base64. Nothing but numbers comes out of it, whoever wrote it.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqsmooth.metrics.scores import Floats

WHOLE = ("<u1", "<u2", "<u4")
KINDS = (*WHOLE, "<f4")


def pack(values: Floats) -> dict[str, Any]:
    """Pack an array: counts in the fewest bytes that hold them, other numbers in single precision.

    >>> packed = pack(np.array([[3.0, 1.0], [300.0, 0.0]]))
    >>> packed["dtype"], packed["shape"]
    ('<u2', [2, 2])
    >>> unpack(packed).tolist()
    [[3.0, 1.0], [300.0, 0.0]]
    """
    counts = values.size > 0 and bool((values >= 0).all() and (values == np.round(values)).all())
    fits = [kind for kind in WHOLE if counts and values.max() <= np.iinfo(kind).max]
    kind = fits[0] if fits else "<f4"
    data = zlib.compress(np.ascontiguousarray(values, dtype=kind).tobytes(), 9)
    return {"dtype": kind, "shape": list(values.shape), "data": base64.b64encode(data).decode("ascii")}


def unpack(packed: Mapping[str, Any]) -> Floats:
    """Read an array that `pack` wrote; raise ValueError for anything else."""
    kind, shape = packed["dtype"], packed["shape"]
    if kind not in KINDS or not _is_shape(shape):
        raise ValueError("it is no packed array")
    size = math.prod(shape) * np.dtype(kind).itemsize
    try:
        worker = zlib.decompressobj()
        data = worker.decompress(base64.b64decode(packed["data"], validate=True), size + 1)  # never more than it says
    except (binascii.Error, zlib.error, TypeError) as error:
        raise ValueError("its data is damaged") from error
    if len(data) != size:
        raise ValueError("its data is not of its shape")
    return np.frombuffer(data, dtype=kind).reshape(shape).astype(np.float64)


def _is_shape(shape: object) -> bool:
    return isinstance(shape, Sequence) and all(isinstance(size, int) and size >= 0 for size in shape)
