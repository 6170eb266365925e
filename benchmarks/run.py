"""Which benchmarks there are, and how one is run from end to end."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import torch

from benchmarks import head, loss, machine, paths, rewards, sampler, step
from benchmarks.clock import Clock, clock_of
from benchmarks.harness import Contest, Part, Say, describe_failure
from benchmarks.records import TimingReport
from benchmarks.shapes import DTYPES, chosen_shapes
from seqsmooth.memory import keep_memory
from seqsmooth.ops import checks

DONE = "done"
SILENCE = 2.0
"""Seconds between two lines of progress where there is no terminal."""
BENCHMARKS = ("loss", "head", "rewards", "sampler", "step")
SHAPED = ("loss", "head")
"""The benchmarks that take `--shapes`."""
USUAL_SHAPES = {"cuda": "a,b,c,d", "cpu": "captions,sentences,llm"}
LARGE_HEADS = ("llm",)
"""Shapes whose head the CPU leaves out unless it is asked for."""
USUAL_DTYPES = {"cuda": "bf16", "cpu": "fp32"}


@dataclass(frozen=True)
class Settings:
    """The choices of a run.

    Args:
        seconds: the time for one benchmark; at least five rounds of each table are always timed.
        device: "cuda", "cpu", or None for the first that is there.
        dtype: type of logits, hidden states and weights: bf16, fp16, fp32 or fp64; None for the usual one.
        shapes: names with commas between them; None for the usual ones.
        compiled: shapes at which torch.compile takes part, likewise.
        only: a regular expression for the names of contestants.
        quick: do without memory and errors of peers.
        sizes: numbers of candidates for the rewards.
        commit: the name of the code, where git does not know it.
        threads: on the CPU, numbers of threads, a table each; None for one, and as many as there are cores.
        paths: on the CPU, which paths ours take: "torch", "native"; None for all that this installation can take.
    """

    seconds: float = 100.0
    device: str | None = None
    dtype: str | None = None
    shapes: str | None = None
    compiled: str = ""
    only: str | None = None
    quick: bool = False
    sizes: tuple[int, ...] = rewards.SIZES
    commit: str | None = None
    threads: tuple[int, ...] | None = None
    paths: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        checks.positive("seconds", self.seconds)
        if self.dtype is not None:
            checks.one_of("dtype", self.dtype, list(DTYPES))
        for count in self.threads or ():
            checks.at_least("threads", count, 1)
        paths.check(self.paths or ())
        if self.device is not None:
            checks.one_of("device", self.device, ("cpu", "cuda"))
            there = self.device == "cpu" or torch.cuda.is_available()
            checks.must(there, "device", "'cpu' where there is no GPU", repr(self.device))

    @property
    def kind(self) -> str:
        """The kind of the device."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def clock(self) -> Clock:
        """Return the clock of the device."""
        return clock_of(torch.device(self.kind))

    def thread_counts(self) -> tuple[int | None, ...]:
        """Return the numbers of threads that have a table each; None on a GPU, where there is one table."""
        if self.kind == "cuda":
            return (None,)
        return self.threads or tuple(dict.fromkeys((1, machine.cores())))

    def paths_of_ours(self) -> tuple[str, ...]:
        """Return the paths that ours take as contestants of their own; none on a GPU."""
        return () if self.kind == "cuda" else self.paths or paths.available()


def run(benchmark: str, settings: Settings, say: Say | None = None) -> TimingReport:
    """Run one benchmark."""
    checks.one_of("benchmark", benchmark, BENCHMARKS)
    clock = settings.clock()
    say = progress() if say is None else say
    deadline = time.monotonic() + settings.seconds
    if settings.kind == "cpu":  # or else times depend on what malloc happens to give back between two calls
        keep_memory()
    parts = _parts(benchmark, settings)
    say("measuring the machine")
    ways = settings.paths_of_ours()
    described = machine.describe(clock, settings.commit, ways)
    turns = [(part, count) for part in parts for count in settings.thread_counts()]
    tables, failures = [], {}
    for number, ((name, make), count) in enumerate(turns):
        share = max(0.0, deadline - time.monotonic()) / (len(turns) - number)

        def say_of_part(message: str, name: str = name) -> None:
            say(f"{benchmark} {name}: {message}")

        say_of_part("making the inputs")
        contest = Contest(clock, share, say_of_part, settings.only, settings.quick, ways, count)
        try:
            with machine.threads(count):
                tables.append(make(contest))
            clock.relieve()
        except RuntimeError as error:  # of the device, as when its memory is full; what is measured is kept
            failures[name + contest.where] = describe_failure(error)
    say(DONE)
    return TimingReport(benchmark, described | machine.load("after"), tuple(tables), failures)


def progress() -> Say:
    """Show progress on stderr: one line that is rewritten on a terminal, a line now and then elsewhere."""
    start = time.monotonic()
    on_terminal = sys.stderr.isatty()
    silent_since = start - SILENCE

    def say(message: str) -> None:
        nonlocal silent_since
        now = time.monotonic()
        line = f"[{now - start:6.1f} s] {message}"
        if on_terminal:
            sys.stderr.write(f"\r{line[:118]:<118}" + ("\n" if message == DONE else ""))
        elif message == DONE or now - silent_since >= SILENCE:
            silent_since = now
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return say


def _parts(benchmark: str, settings: Settings) -> list[Part]:
    if benchmark in SHAPED:
        return _shaped_parts(benchmark, settings)
    if benchmark == "rewards":
        return rewards.parts(settings.sizes)
    if benchmark == "sampler":
        return sampler.parts()
    dtype = settings.dtype or USUAL_DTYPES[settings.kind]
    if settings.kind == "cpu":
        return step.parts("bf16" if dtype == "bf16" else "fp32", models=step.ON_CPU)
    return step.parts("bf16" if dtype == "bf16" else "tf32")


def _shaped_parts(benchmark: str, settings: Settings) -> list[Part]:
    compiled = {shape.name for shape in chosen_shapes(settings.compiled)} if settings.compiled else set()
    make = {"loss": loss.table, "head": head.table}[benchmark]
    dtype = DTYPES[settings.dtype or USUAL_DTYPES[settings.kind]]

    def part(name: str) -> Part:
        (shape,) = chosen_shapes(name)
        return name, lambda contest: make(shape, dtype, contest, compiled=name in compiled)

    shapes = chosen_shapes(settings.shapes or USUAL_SHAPES[settings.kind])
    omitted = LARGE_HEADS if benchmark == "head" and settings.shapes is None else ()
    return [part(shape.name) for shape in shapes if shape.name not in omitted]
