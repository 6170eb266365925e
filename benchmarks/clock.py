"""How long a call takes and how much memory: by the events of the GPU, or by the clocks of the host."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage
from typing import Any

import torch

from benchmarks import resident
from benchmarks.records import Mode

Step = Callable[[], object]
Pool = Any  # torch's name for it is private
SPIN_CYCLES = 200_000
"""About a tenth of a millisecond: longer than the host needs to submit a graph."""
CROWDED = 0.4
"""Below this share of free memory, cached memory is given back between contestants."""
TIRING_MS = 5.0
"""Calls that take longer are followed by a rest."""
SPINNING_S = 0.01
"""Longer than the threads of a parallel call wait for more work before they sleep."""


@dataclass(frozen=True)
class Lap:
    """The times of one call, in milliseconds."""

    times: dict[Mode, float]
    system: float | None = None
    """What the kernel of the operating system took of the CPU time, as far as its ticks tell: right on average only."""


class Clock:
    """The clocks of the host, for calls on the CPU. Times are in milliseconds."""

    captures = False
    """Whether a call can be captured as a graph."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def settle(self) -> None:
        """Wait until the device has nothing to do: threads that still wait for work would be on the next one's bill."""
        if torch.get_num_threads() > 1:
            time.sleep(SPINNING_S)

    def lap(self, step: Step) -> Lap:
        """Time a call that is done when it returns: CPU time of all threads of the process, and that on the wall."""
        self.settle()
        system = getrusage(RUSAGE_SELF).ru_stime
        start, used = time.perf_counter(), time.process_time()
        step()
        used, took = time.process_time() - used, time.perf_counter() - start
        system = getrusage(RUSAGE_SELF).ru_stime - system
        return Lap({"cpu": 1000 * used, "wall": 1000 * took}, 1000 * system)

    def host(self, step: Step) -> float:
        """The time of a call that is done when it returns."""
        self.settle()
        start = time.perf_counter()
        step()
        return 1000 * (time.perf_counter() - start)

    def eager(self, step: Step) -> float:
        """The time of a call submitted to an idle device: what the host takes to submit it is in it."""
        return self.host(step)

    def capture(self, step: Step) -> Step:
        """The call as a graph; raises where that cannot be."""
        raise RuntimeError("there are no graphs on the CPU")

    def replay(self, replay: Step) -> float:
        """The time of a captured call on the device alone."""
        return self.host(replay)

    def extra_bytes(self, step: Step) -> int | None:
        """Peak memory of a call beyond its inputs and its results; None where nobody counts."""
        return resident.extra_bytes(step)

    def relieve(self) -> None:
        """Give back memory that nobody needs."""
        gc.collect()
        resident.trim()


class GpuClock(Clock):
    """The events of the GPU."""

    captures = True

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._start, self._end = _event(), _event()
        self._last = 0.0
        self._pool: Pool | None = None
        self._anchor: torch.cuda.CUDAGraph | None = None

    def settle(self) -> None:
        """Wait for the GPU."""
        torch.cuda.synchronize(self.device)

    def lap(self, step: Step) -> Lap:
        """Time one call submitted to an idle GPU."""
        return Lap({"eager": self.eager(step)})

    def eager(self, step: Step) -> float:
        """The GPU is idle at the first event, so the time ends when the last kernel that was submitted does."""
        self._rest()
        return self._between(step)

    def replay(self, replay: Step) -> float:
        """The GPU spins while the host submits the graph and the events around it."""
        self._rest()
        torch.cuda._sleep(SPIN_CYCLES)  # type: ignore[no-untyped-call]
        return self._between(replay)

    def _rest(self) -> None:
        """A GPU at its limit of power is clocked down; after a pause as long as the last call, all start alike."""
        self.settle()
        if self._last > TIRING_MS:
            time.sleep(self._last / 1000)

    def _between(self, step: Step) -> float:
        self._start.record()
        step()
        self._end.record()
        self._end.synchronize()
        self._last = float(self._start.elapsed_time(self._end))
        return self._last

    def capture(self, step: Step) -> Step:
        """All graphs share one pool of memory, for nobody reads what a replay wrote."""
        self.settle()
        pool = self._shared_pool()
        # A call that waits for the GPU cannot be captured, and trying leaves torch's generator and allocator in
        # disorder; here it is found out without harm.
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode(before)
        self.settle()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=pool):
                step()
        except BaseException:
            self._recover()
            raise
        self.settle()
        return graph.replay

    def extra_bytes(self, step: Step) -> int | None:
        """Count the peak, less what was there before and less what stays, which are the results."""
        self.settle()
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        results = step()
        peak = torch.cuda.max_memory_allocated(self.device)
        kept = torch.cuda.memory_allocated(self.device) - before
        del results
        return peak - before - kept

    def relieve(self) -> None:
        """Empty the cache of the allocator, where memory is getting scarce."""
        free, total = torch.cuda.mem_get_info(self.device)
        if free < CROWDED * total:
            gc.collect()
            with suppress(RuntimeError):  # the allocator refuses after a capture that failed
                torch.cuda.empty_cache()

    def _shared_pool(self) -> Pool:
        """The pool of all graphs. It dies with the last of them, so one that does nothing is never given up."""
        if self._pool is None or self._anchor is None:
            self._pool = torch.cuda.graph_pool_handle()
            self._anchor = self._idle_graph(self._pool)
        return self._pool

    def _idle_graph(self, pool: Pool | None = None) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        scrap = torch.zeros(1, device=self.device)
        with torch.cuda.graph(graph, pool=pool):
            scrap.add_(1)
        return graph

    def _recover(self) -> None:
        # Nobody knows what state the pool is in: the next capture makes another one.
        self._pool = self._anchor = None
        with suppress(RuntimeError):
            torch.cuda.synchronize(self.device)
        # After a capture that failed, the generator believes that one is under way until another one ends.
        with suppress(RuntimeError):
            self._idle_graph()


def clock_of(device: torch.device) -> Clock:
    """The clock for a device."""
    return GpuClock(device) if device.type == "cuda" else Clock(device)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
