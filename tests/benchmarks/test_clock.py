"""The clock of the GPU: what it asks of torch, and where there is a GPU, what comes of it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from benchmarks.clock import Clock, GpuClock, clock_of

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def test_the_device_chooses_the_clock() -> None:
    assert type(clock_of(torch.device("cpu"))) is Clock
    with pytest.raises(RuntimeError, match="no graphs"):
        Clock(torch.device("cpu")).capture(lambda: None)


class FakeCuda:
    """Stands in for torch.cuda, writes down what it is asked for, and counts a byte for each entry of `held`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held: list[int] = []
        self.peak = 0
        self.sync_mode: object = 0
        self.free = 100
        self.graphs_of: Counter[object] = Counter()  # graphs alive in each pool that was ever used

    def hold(self, size: int) -> None:
        self.held.append(size)
        self.peak = max(self.peak, sum(self.held))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                fake.asked.append("record")

            def synchronize(self) -> None:
                fake.asked.append("wait")

            def elapsed_time(self, other: object) -> float:
                return 1.5

        class Graph:
            def replay(self) -> None:
                fake.asked.append("replay")

        def leave(pool: object) -> None:
            fake.graphs_of[pool] -= 1

        @contextmanager
        def graph(graph: object, pool: object = None) -> Iterator[None]:
            if pool in fake.graphs_of and not fake.graphs_of[pool]:
                raise RuntimeError("it->second->use_count > 0 INTERNAL ASSERT FAILED")
            fake.graphs_of[pool] += 1
            weakref.finalize(graph, leave, pool)
            fake.asked.append("begin")
            try:
                yield
            finally:
                fake.asked.append("end")

        def set_mode(mode: object) -> None:
            fake.sync_mode = mode

        replaced = {
            "Event": Event,
            "CUDAGraph": Graph,
            "graph": graph,
            "graph_pool_handle": lambda: object(),
            "synchronize": lambda device: fake.asked.append("settle"),
            "_sleep": lambda cycles: fake.asked.append("spin"),
            "get_sync_debug_mode": lambda: fake.sync_mode,
            "set_sync_debug_mode": set_mode,
            "reset_peak_memory_stats": lambda device: setattr(fake, "peak", sum(fake.held)),
            "memory_allocated": lambda device: sum(fake.held),
            "max_memory_allocated": lambda device: fake.peak,
            "mem_get_info": lambda device: (fake.free, 100),
            "empty_cache": lambda: fake.asked.append("empty"),
        }
        for name, value in replaced.items():
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    stand_in = FakeCuda()
    stand_in.install(monkeypatch)
    return stand_in


def clock() -> GpuClock:
    return GpuClock(torch.device("cpu"))  # where the fake keeps its tensors


def test_a_call_is_timed_on_an_idle_gpu(fake: FakeCuda) -> None:
    assert clock().eager(lambda: fake.asked.append("call")) == 1.5
    assert fake.asked == ["settle", "record", "call", "record", "wait"]


def test_the_gpu_spins_until_the_graph_is_submitted(fake: FakeCuda) -> None:
    assert clock().replay(lambda: fake.asked.append("call")) == 1.5
    assert fake.asked == ["settle", "spin", "record", "call", "record", "wait"]


def test_a_capture_is_tried_where_waiting_is_an_error(fake: FakeCuda) -> None:
    modes: list[object] = []

    def step() -> None:
        modes.append(fake.sync_mode)
        fake.asked.append("call")

    clock().capture(step)()
    assert modes == ["error", 0]
    asked = [word for word in fake.asked if word != "settle"]
    assert asked == [
        "begin",
        "end",
        "call",
        "begin",
        "call",
        "end",
        "replay",
    ]  # the first is the graph that does nothing


def test_a_call_that_waits_is_not_captured(fake: FakeCuda) -> None:
    def step() -> None:
        if fake.sync_mode == "error":
            raise RuntimeError("called a synchronizing CUDA operation")

    with pytest.raises(RuntimeError, match="synchronizing"):
        clock().capture(step)
    assert fake.sync_mode == 0
    assert fake.asked.count("begin") == 1  # the graph that does nothing


def test_the_pool_outlives_the_graphs_of_a_table(fake: FakeCuda) -> None:
    one = clock()
    for _ in range(2):
        replays = [one.capture(lambda: None) for _ in range(3)]
        assert fake.graphs_of.total() == 1 + len(replays)
        assert len(fake.graphs_of) == 1
        del replays
        assert fake.graphs_of.total() == 1


def test_a_capture_that_fails_is_followed_by_one_that_does_not(fake: FakeCuda) -> None:
    one = clock()
    kept = one.capture(lambda: None)
    times = iter(range(10))

    def step() -> None:
        if next(times) == 1:  # not in the trial before the capture, but in the capture
            raise RuntimeError("on purpose")

    before = fake.asked.count("begin")
    with pytest.raises(RuntimeError, match="on purpose"):
        one.capture(step)
    assert fake.asked.count("begin") == fake.asked.count("end") == before + 2
    del kept
    for _ in range(2):  # in a new pool, which lives on as the first did
        one.capture(step)
    pools = [pool for pool in fake.graphs_of if pool is not None]
    assert [fake.graphs_of[pool] for pool in pools] == [0, 1]


def test_extra_memory_is_peak_less_inputs_less_results(fake: FakeCuda) -> None:
    fake.hold(1000)

    def step() -> None:
        fake.hold(30)
        fake.hold(70)
        fake.held.remove(30)

    assert clock().extra_bytes(step) == 30


def test_memory_is_given_back_only_when_it_is_scarce(fake: FakeCuda) -> None:
    clock().relieve()
    assert "empty" not in fake.asked
    fake.free = 10
    clock().relieve()
    assert "empty" in fake.asked


@gpu
def test_a_graph_is_replayed_and_takes_no_longer_than_the_call() -> None:
    real = GpuClock(torch.device("cuda"))
    total = torch.zeros(1000, device="cuda")

    def step() -> None:
        for _ in range(20):
            total.add_(1)

    replay = real.capture(step)
    before = float(total[0])
    took = min(real.replay(replay) for _ in range(5))
    assert float(total[0]) == before + 5 * 20
    assert took <= min(real.eager(step) for _ in range(5))


@gpu
def test_what_waits_for_the_gpu_cannot_be_captured_and_leaves_no_harm() -> None:
    real = GpuClock(torch.device("cuda"))
    with pytest.raises(RuntimeError, match="synchroniz"):
        real.capture(lambda: torch.ones(1, device="cuda").item())
    torch.rand(3, device="cuda")
    real.capture(lambda: torch.rand(3, device="cuda"))


@gpu
def test_graphs_are_captured_after_all_those_before_are_gone() -> None:
    real = GpuClock(torch.device("cuda"))
    for _ in range(3):
        replays = [real.capture(lambda: torch.rand(1000, device="cuda").sum()) for _ in range(2)]
        for replay in replays:
            real.replay(replay)
        del replay, replays
        torch.cuda.empty_cache()


@gpu
def test_after_a_failed_capture_another_succeeds() -> None:
    real = GpuClock(torch.device("cuda"))
    times = iter(range(10))

    def step() -> None:
        torch.rand(3, device="cuda")
        if next(times) == 1:  # not in the trial before the capture, but in the capture
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        real.capture(step)
    torch.rand(3, device="cuda")
    real.replay(real.capture(step))


@gpu
def test_extra_memory_is_what_is_neither_input_nor_result() -> None:
    real = GpuClock(torch.device("cuda"))
    given = torch.ones(2**20, device="cuda")
    assert real.extra_bytes(lambda: given * 2) == 0
    assert real.extra_bytes(lambda: (given * 2) * 3) == 4 * 2**20
