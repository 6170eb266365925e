"""The clock of the GPU, where there is one."""

from __future__ import annotations

import pytest
import torch

from seqsmooth.bench.clock import Clock, GpuClock, clock_of

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def test_the_device_chooses_the_clock() -> None:
    assert type(clock_of(torch.device("cpu"))) is Clock
    with pytest.raises(RuntimeError, match="no graphs"):
        Clock(torch.device("cpu")).capture(lambda: None)


@gpu
def test_a_graph_is_replayed_and_takes_no_longer_than_the_call() -> None:
    clock = GpuClock(torch.device("cuda"))
    total = torch.zeros(1000, device="cuda")

    def step() -> None:
        for _ in range(20):
            total.add_(1)

    replay = clock.capture(step)
    before = float(total[0])
    took = min(clock.replay(replay) for _ in range(5))
    assert float(total[0]) == before + 5 * 20
    assert took <= min(clock.eager(step) for _ in range(5))


@gpu
def test_what_waits_for_the_gpu_cannot_be_captured_and_leaves_no_harm() -> None:
    clock = GpuClock(torch.device("cuda"))
    with pytest.raises(RuntimeError, match="synchroniz"):
        clock.capture(lambda: torch.ones(1, device="cuda").item())
    torch.rand(3, device="cuda")
    clock.capture(lambda: torch.rand(3, device="cuda"))


@gpu
def test_after_a_failed_capture_another_succeeds() -> None:
    clock = GpuClock(torch.device("cuda"))
    times = iter(range(10))

    def step() -> None:
        torch.rand(3, device="cuda")
        if next(times) == 1:  # not in the trial before the capture, but in the capture
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        clock.capture(step)
    torch.rand(3, device="cuda")
    clock.replay(clock.capture(step))


@gpu
def test_extra_memory_is_what_is_neither_input_nor_result() -> None:
    clock = GpuClock(torch.device("cuda"))
    given = torch.ones(2**20, device="cuda")
    assert clock.extra_bytes(lambda: given * 2) == 0
    assert clock.extra_bytes(lambda: (given * 2) * 3) == 4 * 2**20
