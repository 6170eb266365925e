"""Peak memory of calls whose allocations are known."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import resident

MIB = 2**20
COUNTED = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counted by Linux")
NOISE = 2 * MIB
"""What the interpreter does meanwhile, and the error of the kernel's counters."""


def ones(mebibytes: int) -> torch.Tensor:
    return torch.ones(mebibytes * MIB // 4)


@COUNTED
def test_extra_memory_is_what_is_neither_input_nor_result() -> None:
    given = ones(64)
    assert resident.extra_bytes(lambda: (given * 2,)) <= NOISE
    extra = resident.extra_bytes(lambda: (given * 2 * 3,))
    assert extra == pytest.approx(64 * MIB, abs=NOISE)
    extra = resident.extra_bytes(lambda: (given * 2, ones(48).sum()))
    assert extra == pytest.approx(48 * MIB, abs=NOISE)


@COUNTED
def test_memory_of_other_allocators_counts_too() -> None:
    extra = resident.extra_bytes(lambda: np.ones(40 * MIB // 8).sum())
    assert extra == pytest.approx(40 * MIB, abs=NOISE)


@COUNTED
def test_memory_that_an_earlier_call_has_freed_is_not_taken_unseen() -> None:
    def many_small() -> int:
        return sum(len(piece) for piece in [bytearray(50_000) for _ in range(600)])

    extra = [resident.extra_bytes(many_small) for _ in range(3)]
    assert all(size == pytest.approx(30 * 10**6, abs=2 * NOISE) for size in extra)


def test_results_that_share_memory_count_once() -> None:
    one = torch.ones(10)
    assert resident._bytes_of((one, one[2:], torch.ones(5), None)) == 60
    assert resident._bytes_of(3) == 0


def test_where_nobody_counts_there_is_no_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resident, "STATUS", tmp_path / "none")
    monkeypatch.setattr(resident, "REFERENCES", tmp_path / "other")
    assert resident.extra_bytes(lambda: ()) is None
