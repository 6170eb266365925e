from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from seqsmooth.reports.packing import pack, unpack

SHAPES = arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6)


@given(values=arrays.arrays(np.float64, SHAPES, elements=st.integers(0, 2**32 - 1).map(float)))
def test_counts_come_back_as_they_were(values: np.ndarray) -> None:
    assert np.array_equal(unpack(pack(values)), values)


@given(values=arrays.arrays(np.float64, SHAPES, elements=st.floats(-1e6, 1e6)))
def test_other_numbers_come_back_in_single_precision(values: np.ndarray) -> None:
    assert np.array_equal(unpack(pack(values)), values.astype(np.float32).astype(np.float64)) or (
        pack(values)["dtype"] != "<f4" and np.array_equal(unpack(pack(values)), values)
    )


def test_the_form_is_as_documented() -> None:
    held = pack(np.array([[1.0, 2.0], [3.0, 255.0]]))
    assert held["dtype"] == "<u1"
    assert zlib.decompress(base64.b64decode(held["data"])) == bytes([1, 2, 3, 255])
    assert [pack(np.array([[top]]))["dtype"] for top in (256.0, 65536.0, 2.0**32, -1.0, 0.5)] == [
        *("<u2", "<u4", "<f4", "<f4", "<f4"),
    ]
    floats = pack(np.array([[0.5, -2.0]]))
    assert zlib.decompress(base64.b64decode(floats["data"])) == np.array([0.5, -2.0], "<f4").tobytes()


GOOD = pack(np.arange(6.0).reshape(3, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "O"},
        {"dtype": "<f8"},
        {"shape": [3, 3]},
        {"shape": [2, 2]},
        {"shape": "32"},
        {"shape": [-3, -2]},
        {"data": "!"},
        {"data": base64.b64encode(b"no zlib").decode()},
        {"data": base64.b64encode(zlib.compress(bytes(10**7))).decode()},
        {"data": 7},
    ],
    ids=lambda change: "-".join(f"{key}:{str(value)[:8]}" for key, value in change.items()),
)
def test_what_is_no_packed_array_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"it is no packed array|its data is"):
        unpack({**GOOD, **change})
