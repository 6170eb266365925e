from __future__ import annotations

import platform

import pytest

from benchmarks.memory import compare


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_both_ways_are_measured() -> None:
    found = compare("show_tell", "mle", steps=2, rounds=1, tiny=True)
    assert set(found) == {"without", "with"}
    for one in found.values():
        assert one["user"] >= 0
        assert one["peak"] > 10
