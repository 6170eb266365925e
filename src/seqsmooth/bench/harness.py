"""Contestants on the same tensors, interleaved: round after round, each is called once in each mode."""

from __future__ import annotations

import gc
import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from seqsmooth.bench.clock import Clock
from seqsmooth.bench.records import Row, Spread, Table
from seqsmooth.ops.checks import must

Results = tuple[Tensor, ...]
I = TypeVar("I")  # noqa: E741 - the inputs of a contestant
Say = Callable[[str], None]

WARM_UPS = 3
LEAST_ROUNDS = 5
MOST_ROUNDS = 200
CROWDED = 0.4
"""Below this share of free memory, cached memory is given back between contestants."""
SEED = 20180715
"""Before what must draw the same samples twice."""


@dataclass(frozen=True)
class Call:
    """A contestant on one set of inputs."""

    step: Callable[[], Results]
    exact: Callable[[], Results] | None = None
    """The same results in float64, by other means."""
    restore: Callable[[], None] | None = None
    """Undoes what a step has done to its inputs; not timed."""


@dataclass(frozen=True)
class Contestant(Generic[I]):
    """Something to be timed."""

    name: str
    ours: bool
    bind: Callable[[I], Call]
    """Makes the call on one set of inputs, with everything that a training step would find ready."""
    against: str | None = None
    """The contestant of ours that this one is compared with."""
    on_host: bool = False
    """Whether it runs on the host, whatever the device of the others."""
    items: int | None = None


@dataclass
class Entry:
    """A contestant in a contest, and what is known of it so far."""

    row: Row
    calls: list[Call]
    graphs: list[torch.cuda.CUDAGraph]
    on_host: bool
    times: dict[str, list[float]] = field(default_factory=lambda: {"eager": [], "graph": []})


@dataclass(frozen=True)
class Contest:
    """How contestants are compared: on which device, for how long, and who hears of it.

    Args:
        clock: the clock of the device.
        seconds: the time for one table, set-up included; at least five rounds are always timed.
        say: is told what is going on.
        only: a regular expression for the names of those that take part; all without it.
    """

    clock: Clock
    seconds: float
    say: Say = lambda message: None
    only: str | None = None

    def chosen(self, contestants: Iterable[Contestant[I]]) -> list[Contestant[I]]:
        """Those that take part: any with a name that `only` finds, and what they are compared with."""
        listed = list(contestants)
        if self.only is None:
            return listed
        try:
            pattern = re.compile(self.only, re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"`only` must be a regular expression, but is {self.only!r} instead.") from error
        found = [contestant for contestant in listed if pattern.search(contestant.name)]
        names = ", ".join(repr(contestant.name) for contestant in listed)
        must(bool(found), "only", f"found in one of {names}", repr(self.only))
        wanted = {contestant.name for contestant in found} | {contestant.against for contestant in found}
        return [contestant for contestant in listed if contestant.name in wanted]

    def rows(
        self,
        contestants: Sequence[Contestant[I]],
        inputs: Sequence[I],
        sample: I | None = None,
        results: Sequence[str] = (),
    ) -> tuple[Row, ...]:
        """Measure every contestant.

        Args:
            contestants: who takes part, in the order of the table.
            inputs: sets of inputs alike, taken in turn, so that no call finds its own in the cache of the device.
            sample: inputs small enough for float64.
            results: the names of what a step returns.
        """
        start = time.monotonic()
        entries: list[Entry] = []
        for number, contestant in enumerate(contestants):
            self.say(f"{number + 1} of {len(contestants)}: {contestant.name}")
            entries.append(self._prepared(contestant, inputs, sample, results))
        running = [entry for entry in entries if entry.calls]
        self._time(running, start + self.seconds)
        return tuple(self._finished(entry) for entry in entries)

    def _prepared(
        self, contestant: Contestant[I], inputs: Sequence[I], sample: I | None, results: Sequence[str]
    ) -> Entry:
        row = Row(contestant.name, contestant.ours, contestant.against, items=contestant.items)
        entry = Entry(row, [], [], contestant.on_host)
        began = time.monotonic()
        try:
            calls = [contestant.bind(given) for given in inputs]
            self._run(calls[0])
            entry.row = replace(row, first_call_s=round(time.monotonic() - began, 3))
            if sample is not None:
                entry.row = replace(entry.row, errors=self._errors(contestant.bind(sample), results))
            if self.clock.on_gpu and not contestant.on_host:
                entry.row = replace(entry.row, extra_bytes=self._extra_bytes(calls[0]))
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way, and that is a result
            entry.row = replace(entry.row, failures={"call": _told(error)})
            self._free()
            return entry
        entry.calls = calls
        for call in calls:
            for _ in range(WARM_UPS):
                self._run(call)
        if self.clock.on_gpu and not contestant.on_host:
            self._capture(entry)
        self._free()
        return entry

    def _run(self, call: Call) -> None:
        call.step()
        if call.restore is not None:
            call.restore()
        self.clock.settle()

    def _errors(self, call: Call, names: Sequence[str]) -> dict[str, float]:
        if call.exact is None:
            return {}
        torch.manual_seed(SEED)
        got = tuple(result.detach().clone() for result in call.step())
        if call.restore is not None:
            call.restore()
        torch.manual_seed(SEED)
        pairs = zip(names, got, call.exact(), strict=True)
        return {name: relative_error(result, expected) for name, result, expected in pairs}

    def _extra_bytes(self, call: Call) -> int:
        self._free()
        torch.cuda.reset_peak_memory_stats(self.clock.device)
        before = torch.cuda.memory_allocated(self.clock.device)
        results = call.step()
        peak = torch.cuda.max_memory_allocated(self.clock.device)
        # What is still there is the results; one that lies in the memory of an input takes none.
        kept = torch.cuda.memory_allocated(self.clock.device) - before
        del results
        if call.restore is not None:
            call.restore()
        return peak - before - kept

    def _capture(self, entry: Entry) -> None:
        try:
            for call in entry.calls:
                entry.graphs.append(self.clock.capture(call.step))
                if call.restore is not None:
                    call.restore()
                for _ in range(WARM_UPS):
                    self.clock.replay(entry.graphs[-1])
                    if call.restore is not None:
                        call.restore()
        except Exception as error:  # noqa: BLE001 - likewise
            entry.graphs = []
            entry.row = replace(entry.row, failures={"graph": _told(error)})

    def _time(self, entries: Sequence[Entry], deadline: float) -> None:
        turn = 0
        for done in range(1 + MOST_ROUNDS):
            if done > LEAST_ROUNDS and time.monotonic() > deadline:
                break
            for mode in ("eager", "graph"):
                for entry in entries:
                    if mode == "graph" and not entry.graphs:
                        continue
                    # The same contestant takes another set in the next round, and its neighbour another in this one.
                    place = (turn + done) % len(entry.calls)
                    turn += 1
                    took = self._timed(entry, place, mode)
                    if done > 0:  # the first round is another warm-up
                        entry.times[mode].append(took)
            if done % 20 == 0:
                self.say(f"round {done}")
        self.clock.settle()

    def _timed(self, entry: Entry, place: int, mode: str) -> float:
        call = entry.calls[place]
        if mode == "graph":
            took = self.clock.replay(entry.graphs[place])
        else:
            took = (self.clock.host if entry.on_host else self.clock.eager)(call.step)
        if call.restore is not None:
            call.restore()
        return took

    def _finished(self, entry: Entry) -> Row:
        spreads = {mode: Spread.of(times) if times else None for mode, times in entry.times.items()}
        return replace(entry.row, eager=spreads["eager"], graph=spreads["graph"])

    def _free(self) -> None:
        gc.collect()
        self.clock.settle()
        if self.clock.on_gpu:
            free, total = torch.cuda.mem_get_info(self.clock.device)
            if free < CROWDED * total:
                with suppress(RuntimeError):  # the allocator refuses after a capture that failed
                    torch.cuda.empty_cache()


Part = tuple[str, Callable[[Contest], Table]]
"""A table of a benchmark: its name, and what makes it."""


def relative_error(
    got: Tensor,  # (...)
    expected: Tensor,  # (...) float64
) -> float:
    """The largest difference, over the largest value."""
    must(got.shape == expected.shape, "result", f"of shape {tuple(expected.shape)}", tuple(got.shape))
    scale = float(expected.abs().max())
    apart = float((got.double() - expected).abs().max())
    must(math.isfinite(apart), "result", "finite", "NaN or infinite somewhere")
    return apart / scale if scale else apart


def again(contestants: Sequence[Contestant[I]], name: str) -> list[Contestant[I]]:
    """The contestants with one of them twice: what lies between the two is noise."""
    extra = [
        replace(contestant, name=f"{name}, timed again", against=name)
        for contestant in contestants
        if contestant.name == name
    ]
    return [*contestants, *extra]


def _told(error: Exception) -> str:
    """The first line of an error, short enough for a table, without the folders of this machine."""
    lines = str(error).strip().splitlines() or [""]
    text = re.sub(r"(/[\w.+-]+)+/", "", lines[0].strip())
    if "synchroniz" in text:
        return "it waits for the GPU"
    return f"{type(error).__name__}: {text}"[:160].rstrip(": ")
