"""Contestants on the same tensors, interleaved: round after round, each is called once in each way."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from benchmarks.clock import Clock, Lap, Step
from benchmarks.records import CPU_MODES, MODES, Mode, Spread, TimingRow, TimingTable
from seqsmooth.ops.checks import must
from seqsmooth.packages import describe_error

Results = tuple[Tensor, ...]
I = TypeVar("I")  # noqa: E741 - the inputs of a contestant
Say = Callable[[str], None]

WARM_UPS = 3
LEAST_ROUNDS = 5
MOST_ROUNDS = 200
SEED = 20180715
"""Before what must draw the same samples twice."""


@dataclass(frozen=True)
class Call:
    """A contestant on one set of inputs."""

    step: Callable[[], Results]
    exact: Callable[[], Results] | None = None
    """Computes the results in float64, by other means."""
    restore: Callable[[], None] = lambda: None
    """Undoes what a step has done to its inputs; not timed."""
    capture: Callable[[], Step] | None = None
    """Makes a graph of the step in its own way; returns what replays it."""


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
    alias: str = ""
    """Another name by which it can be chosen."""


@dataclass
class Entry:
    """A contestant in a contest, and what is known of it so far."""

    row: TimingRow
    calls: list[Call]
    replays: list[Step]
    on_host: bool
    times: dict[Mode, list[float]] = field(default_factory=lambda: {mode: [] for mode in MODES})
    system: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Contest:
    """How contestants are compared: on which device, for how long, and who hears of it.

    Args:
        clock: the clock of the device.
        seconds: the time for one table, set-up included; at least five rounds are always timed.
        say: hears what is going on.
        only: a regular expression for the names of those that take part; all without it.
        quick: do without memory and errors of peers, as is done anyway once the time is over.
        paths: on the CPU, the paths that ours take, each as a contestant of its own.
        threads: on the CPU, how many threads there are.
    """

    clock: Clock
    seconds: float
    say: Say = lambda message: None
    only: str | None = None
    quick: bool = False
    paths: tuple[str, ...] = ()
    threads: int | None = None

    @property
    def where(self) -> str:
        """How many threads there are, for a title."""
        return "" if self.threads is None else f", {self.threads} thread{'s' * (self.threads > 1)}"

    @property
    def facts(self) -> dict[str, int | str]:
        """The same for the record."""
        return {} if self.threads is None else {"threads": self.threads}

    def choose(self, contestants: Iterable[Contestant[I]], peer: str | None = None) -> list[Contestant[I]]:
        """Choose who takes part: any whose name `only` finds, and what they are compared with."""
        listed = list(contestants)
        if self.only is None:
            return listed
        try:
            pattern = re.compile(self.only, re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"`only` must be a regular expression; it is {self.only!r}.") from error
        named = [one for one in listed if pattern.search(one.name) or pattern.search(one.alias)]
        names = ", ".join(repr(contestant.name) for contestant in listed)
        must(bool(named), "only", f"found in one of {names}", repr(self.only))
        wanted = {contestant.name for contestant in named} | {contestant.against for contestant in named} | {peer}
        return [contestant for contestant in listed if contestant.name in wanted]

    def rows(
        self,
        contestants: Sequence[Contestant[I]],
        inputs: Sequence[I],
        sample: I | None = None,
        results: Sequence[str] = (),
        peer: str | None = None,
    ) -> tuple[TimingRow, ...]:
        """Measure every contestant.

        Args:
            contestants: who takes part, in the order of the table.
            inputs: sets of inputs alike, taken in turn, so that no call finds its own in the cache of the device.
            sample: inputs small enough for float64.
            results: the names of what a step returns.
            peer: the contestant that all others are compared with.
        """
        deadline = time.monotonic() + self.seconds
        entries: list[Entry] = []
        for number, contestant in enumerate(contestants):
            self.say(f"{number + 1} of {len(contestants)}: {contestant.name}")
            brief = not contestant.ours and (self.quick or time.monotonic() > deadline)
            entries.append(self._prepare(contestant, inputs, sample, results, brief=brief))
        running = [entry for entry in entries if entry.calls]
        self._time(running, deadline)
        named = {entry.row.name: entry for entry in entries}
        return tuple(self._finish(entry, named, peer) for entry in entries)

    def _prepare(
        self, contestant: Contestant[I], inputs: Sequence[I], sample: I | None, results: Sequence[str], *, brief: bool
    ) -> Entry:
        row = TimingRow(contestant.name, contestant.ours, contestant.against, items=contestant.items)
        entry = Entry(row, [], [], contestant.on_host)
        began = time.monotonic()
        try:
            calls = [contestant.bind(given) for given in inputs]
            self._run(calls[0])
            entry.row = replace(row, first_call_s=round(time.monotonic() - began, 3))
            if sample is not None and not brief:
                entry.row = replace(entry.row, errors=self._errors(contestant.bind(sample), results))
            if not contestant.on_host and not brief:
                extra = self.clock.extra_bytes(calls[0].step)
                calls[0].restore()
                entry.row = replace(entry.row, extra_bytes=extra)
            for call in calls if self.clock.captures else ():  # on a CPU the round that is not counted will do
                for _ in range(WARM_UPS):
                    self._run(call)
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way, and that is a result
            entry.row = replace(entry.row, failures={"call": describe_failure(error)})
            self.clock.relieve()
            return entry
        entry.calls = calls
        if self.clock.captures and not contestant.on_host:
            self._capture(entry)
        self.clock.relieve()
        return entry

    def _run(self, call: Call) -> None:
        call.step()
        call.restore()
        self.clock.settle()

    def _errors(self, call: Call, names: Sequence[str]) -> dict[str, float]:
        if call.exact is None:
            return {}
        torch.manual_seed(SEED)
        got = tuple(result.detach().clone() for result in call.step())
        call.restore()
        torch.manual_seed(SEED)
        pairs = zip(names, got, call.exact(), strict=True)
        return {name: relative_error(result, expected) for name, result, expected in pairs}

    def _capture(self, entry: Entry) -> None:
        try:
            for call in entry.calls:
                entry.replays.append(call.capture() if call.capture is not None else self.clock.capture(call.step))
                call.restore()
                for _ in range(WARM_UPS):
                    self.clock.replay(entry.replays[-1])
                    call.restore()
        except Exception as error:  # noqa: BLE001 - likewise
            entry.replays = []
            entry.row = replace(entry.row, failures={"graph": describe_failure(error)})
            for call in entry.calls:
                call.restore()

    def _time(self, entries: Sequence[Entry], deadline: float) -> None:
        shuffle, turn = random.Random(SEED), 0
        for done in range(1 + MOST_ROUNDS):
            if done > LEAST_ROUNDS and time.monotonic() > deadline:
                break
            self.say(f"round {done} of {MOST_ROUNDS} at most")
            for replayed in (False, True) if self.clock.captures else (False,):
                # In another order each time, so that nobody always comes after the same neighbour.
                for entry in shuffle.sample(entries, len(entries)):
                    if replayed and not entry.replays:
                        continue
                    lap = self._time_call(entry, turn % len(entry.calls), replayed=replayed)
                    turn += 1
                    if done > 0:  # the first round is another warm-up
                        for mode, took in lap.times.items():
                            entry.times[mode].append(took)
                        if lap.system is not None:
                            entry.system.append(lap.system)

    def _time_call(self, entry: Entry, place: int, *, replayed: bool) -> Lap:
        call = entry.calls[place]
        if replayed:
            lap = Lap({"graph": self.clock.replay(entry.replays[place])})
        elif entry.on_host and self.clock.captures:
            lap = Lap({"eager": self.clock.host(call.step)})
        else:
            lap = self.clock.lap(call.step)
        call.restore()
        return lap

    def _finish(self, entry: Entry, entries: Mapping[str, Entry], peer: str | None) -> TimingRow:
        spreads: dict[Mode, Spread | None] = {
            mode: Spread.of(times) if times else None for mode, times in entry.times.items()
        }
        used = sum(entry.times["cpu"])
        return replace(
            entry.row,
            **spreads,
            over_ours=_over(entry, entries.get(entry.row.against or "")),
            over_peer=_over(entry, entries.get(peer or "")),
            system_share=sum(entry.system) / used if used and entry.system else None,
        )


def _over(entry: Entry, base: Entry | None) -> dict[Mode, Spread]:
    """Divide the times of an entry on the CPU by those of another one in the same round."""
    if base is None:
        return {}
    pairs: dict[Mode, list[tuple[float, float]]] = {
        mode: list(zip(entry.times[mode], base.times[mode], strict=False)) for mode in CPU_MODES
    }
    return {
        mode: Spread.of([mine / other for mine, other in listed])
        for mode, listed in pairs.items()
        if listed and all(other for _, other in listed)
    }


Part = tuple[str, Callable[[Contest], TimingTable]]
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
    """The contestants, ours first, with one of them twice: what lies between the two is noise."""
    extra = [
        replace(contestant, name=f"{name}, timed again", against=name)
        for contestant in contestants
        if contestant.name == name
    ]
    return sorted([*contestants, *extra], key=lambda contestant: not contestant.ours)


def describe_failure(error: Exception) -> str:
    """Say in one short line why a call or its capture failed."""
    if "capture" in str(error) and isinstance(error.__context__, RuntimeError):
        error = error.__context__  # what made the capture fail, rather than that it did
    text = describe_error(error)
    return "it waits for the GPU" if "synchroniz" in text else text
