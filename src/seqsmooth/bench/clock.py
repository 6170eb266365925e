"""How long a call takes: by the events of the GPU, or by the clock of the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import torch

Step = Callable[[], object]
SPIN_CYCLES = 200_000
"""About a tenth of a millisecond: longer than the host needs to submit a graph."""


class Clock:
    """Times calls on one device, in milliseconds."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.on_gpu = device.type == "cuda"
        if self.on_gpu:
            self._start, self._end = _event(), _event()
            self._pool = torch.cuda.graph_pool_handle()

    def settle(self) -> None:
        """Wait until the device has nothing to do."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def host(self, step: Step) -> float:
        """The time of a call that is done when it returns."""
        start = time.perf_counter()
        step()
        return 1000 * (time.perf_counter() - start)

    def eager(self, step: Step) -> float:
        """The time of a call submitted to an idle device: what the host takes to submit it is in it."""
        if not self.on_gpu:
            return self.host(step)
        self.settle()
        self._start.record()
        step()
        self._end.record()
        self._end.synchronize()
        return float(self._start.elapsed_time(self._end))

    def replay(self, graph: torch.cuda.CUDAGraph) -> float:
        """The time of a captured call on the device alone.

        The device spins while the host submits the graph and the events around it.
        """
        self.settle()
        torch.cuda._sleep(SPIN_CYCLES)  # type: ignore[no-untyped-call]
        self._start.record()
        graph.replay()
        self._end.record()
        self._end.synchronize()
        return float(self._start.elapsed_time(self._end))

    def capture(self, step: Step) -> torch.cuda.CUDAGraph:
        """A call as a CUDA graph; raises where that cannot be.

        All graphs share one pool of memory, for nobody reads what a replay wrote.
        """
        self.settle()
        # A call that waits for the device cannot be captured, and trying leaves torch's generator and allocator in
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
            with torch.cuda.graph(graph, pool=self._pool):
                step()
        except BaseException:
            self._recover()
            raise
        self.settle()
        return graph

    def _recover(self) -> None:
        # After a capture that failed, the generator believes that one is under way until another one ends.
        self._pool = torch.cuda.graph_pool_handle()
        with suppress(RuntimeError):
            torch.cuda.synchronize(self.device)
        scrap = torch.zeros(1, device=self.device)
        with suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
            scrap.add_(1)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
