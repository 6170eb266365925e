"""Several runs at once, each in a process of its own, so that one that fails takes no other with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from seqsmooth import checks
from seqsmooth.console import StatusLine
from seqsmooth.files.locks import try_lock
from seqsmooth.training.signals import handle_signals

LOG = "console.log"
"""What a run of a fleet says, in its folder."""
PAUSE = 0.1  # seconds between two looks at the processes
THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class FleetJob:
    """One run: its folder, which names it, and the words after `seqsmooth` on its command line."""

    folder: Path
    words: tuple[str, ...]


@dataclass
class _Running:
    job: FleetJob
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)


Watch = Callable[[Sequence[FleetJob], Sequence[FleetJob]], None]
"""Is told which jobs run and which wait."""


def run_fleet(
    jobs: Sequence[FleetJob], at_once: int, *, threads: int | None = None, watch: Watch | None = None
) -> list[FleetJob]:
    """Do all jobs, so many at once, and return those that failed, in their order.

    What each says goes to its folder; here, on stderr, is one line of where it all stands. Ctrl-C and SIGTERM let the
    runs save a checkpoint, and raise `KeyboardInterrupt` when they have ended; a second one does not wait.

    Args:
        jobs: in the order in which they start.
        at_once: how many.
        threads: of each; by default its share of the cores.
        watch: is called several times a second instead of that line.
    """
    fleet = _Fleet(jobs, checks.at_least("jobs", at_once, 1), threads, watch)
    with handle_signals(fleet.stop):
        try:
            fleet.run()
        except BaseException:  # a watch that failed, a stderr that nobody reads any more: no run is left behind
            fleet.end()
            raise
    if fleet.stops:
        raise KeyboardInterrupt
    return [job for job in jobs if job in fleet.failed]


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_once(jobs: int) -> int:
    """How many jobs of like length to run at once, so that the cores of this machine are busy up to the end.

    Examples:
        Five jobs on two cores take as long as three, three at a time, not two at a time with the last one alone:

        >>> from unittest.mock import patch
        >>> with patch("seqsmooth.training.fleet.cores", return_value=2):
        ...     at_once(5)
        3
    """
    rounds = max(1, jobs // cores())
    return max(1, -(-jobs // rounds))


class _Fleet:
    def __init__(self, jobs: Sequence[FleetJob], at_once: int, threads: int | None, watch: Watch | None) -> None:
        self.waiting, self.at_once, self.watch = list(jobs), at_once, watch
        self.running: list[_Running] = []
        self.failed: list[FleetJob] = []
        self.seconds: list[float] = []  # of what has ended well
        self.stops = 0
        self.line = StatusLine()
        # Runs share the cores: with a pool of threads for each core each, they would wait for each other.
        self.environment = {THREADS: str(max(1, cores() // at_once))} | os.environ
        if threads is not None:
            self.environment[THREADS] = str(threads)
        here = str(Path(__file__).resolve().parents[2])  # the package that runs now, wherever Python would look first
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))

    def run(self) -> None:
        while self.running or (self.waiting and not self.stops):
            while self.waiting and len(self.running) < self.at_once and not self.stops:
                self._start(self.waiting.pop(0))
            for each in [each for each in self.running if each.process.poll() is not None]:
                self.running.remove(each)
                if not self.stops:
                    self._note_end(each)
            if self.watch is None:
                self.line.show(self._status())
            else:
                self.watch([each.job for each in self.running], self.waiting)
            time.sleep(PAUSE)

    def stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1
        for each in self.running:
            # A process group of its own: Ctrl-C of the terminal reaches this process alone, which passes it on.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGTERM if self.stops == 1 else signal.SIGKILL)

    def end(self) -> None:
        """Ask the runs to save a checkpoint, and wait for them."""
        if not self.stops:
            self.stop(signal.SIGTERM, None)
        for each in self.running:
            each.process.wait()

    def _start(self, job: FleetJob) -> None:
        try:
            self._launch(job)
        except OSError as error:  # a file in the way, a full disk
            where = "" if error.filename is None else f" ({error.filename})"
            self._note_failure(job, f"the system says: {error.strerror or error}{where}", log=False)

    def _launch(self, job: FleetJob) -> None:
        job.folder.mkdir(parents=True, exist_ok=True)
        with (job.folder / LOG).open("ab") as log:
            if not try_lock(log):  # which the run holds as long as it lives, even where this process has died
                self._note_failure(job, "another process is at it")
                return
            process = subprocess.Popen(
                [sys.executable, "-m", "seqsmooth", *job.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                process_group=0,
            )
        self.running.append(_Running(job, process))
        if self.stops:  # in between, when it was not among those to be told
            os.killpg(process.pid, signal.SIGTERM)

    def _note_end(self, each: _Running) -> None:
        seconds = time.monotonic() - each.began
        if each.process.returncode:
            self._note_failure(each.job, _why(each))
            return
        self.seconds.append(seconds)
        if self.watch is None:
            self.line.write(f"{each.job.folder}: done in {seconds:.0f} s; {self._status()}")

    def _note_failure(self, job: FleetJob, why: str, *, log: bool = True) -> None:
        self.failed.append(job)
        self.line.write(f"{job.folder}: failed: {why}" + (f" ({job.folder / LOG})" if log else ""))

    def _status(self) -> str:
        counts = (f"{len(self.seconds)} done", f"{len(self.running)} running", f"{len(self.waiting)} waiting")
        status = ", ".join((*counts, f"{len(self.failed)} failed"))
        if self.stops:
            return f"stopping: {status}"
        left = self._seconds_left()
        return status if left is None else f"{status}, about {left / 60:.1f} min left"

    def _seconds_left(self) -> float | None:
        """Estimate the seconds left, if later runs take as long as those that have ended."""
        if not self.seconds:
            return None
        mean, now = sum(self.seconds) / len(self.seconds), time.monotonic()
        work = [max(mean - (now - each.began), 0.0) for each in self.running]
        return max([(sum(work) + mean * len(self.waiting)) / self.at_once, *work])


def _why(each: _Running) -> str:
    """Say what ended a run: a signal (the system's, where memory is short), or its last words."""
    status = each.process.returncode
    if status < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"killed by {names.get(-status, f'signal {-status}')}; the same command goes on with it"
    try:
        text = (each.job.folder / LOG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return lines[-1] if lines else f"it ended with status {status} and said nothing"
