"""Scorers written in Java, as subprocesses that never hang and never outlive this one."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from seqsmooth import checks
from seqsmooth.metrics.scores import Absent

_running: set[subprocess.Popen[str]] = set()


def program(metric: str) -> str:
    """Find the `java` program: in JAVA_HOME, or on the path."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which("java")
    if path is None:
        raise Absent(f"{metric} needs Java: there is no `java` on the path, nor in JAVA_HOME.")
    return path


def jar(metric: str, *place: str) -> Path:
    """Find a jar that pycocoevalcap brings along."""
    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise Absent(f"{metric} needs the package pycocoevalcap: `pip install pycocoevalcap`.")
    path = Path(spec.submodule_search_locations[0], *place)
    if not path.is_file():
        raise Absent(f"{metric} needs {place[-1]}, which this pycocoevalcap has not.")
    return path


def version() -> str:
    """Name the pycocoevalcap whose jars are used, for signatures."""
    from importlib import metadata

    try:
        return f"pycocoevalcap-{metadata.version('pycocoevalcap')}"
    except metadata.PackageNotFoundError:  # there, but not installed
        return "pycocoevalcap"


class Conversation:
    """A subprocess that answers lines with lines."""

    def __init__(self, metric: str, process: subprocess.Popen[str], errors: IO[str], timeout: float) -> None:
        self.metric = metric
        self.process = process
        self.errors = errors
        self.timeout = timeout
        self.late = threading.Event()

    def ask(self, lines: Sequence[str], answers: int) -> list[str]:
        """Send the lines and read so many answers; the sending is a thread's, so that no pipe fills up for both."""
        sender = threading.Thread(target=self._send, args=(lines,), daemon=True)
        sender.start()
        assert self.process.stdout is not None
        replies: list[str] = []
        while len(replies) < answers and (line := self.process.stdout.readline()):
            replies.append(line.rstrip("\n"))
        if len(replies) < answers:
            raise self.failure(f"ended after {len(replies)} of {answers} answers")
        sender.join()
        return replies

    def failure(self, what: str) -> Absent:
        """Say why there is no score, with the last words of the subprocess."""
        if self.late.is_set():
            return Absent(f"{self.metric} took longer than {self.timeout:g} s and was stopped.")
        self.errors.seek(0)
        last = [line.strip() for line in self.errors if line.strip()][-1:]
        return Absent(f"{self.metric}'s Java {what}{f' ({last[0]})' if last else ''}.")

    def _send(self, lines: Sequence[str]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended; the reader says so
            for line in lines:
                self.process.stdin.write(line + "\n")
            self.process.stdin.flush()


@contextlib.contextmanager
def conversation(metric: str, command: Sequence[str], *, folder: Path, timeout: float) -> Iterator[Conversation]:
    """Start a subprocess; it is killed at the end of the block, after `timeout` seconds, or when Python exits."""
    checks.positive("timeout", timeout)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:  # a file cannot fill up as a pipe
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise Absent(f"{metric}'s Java did not start: {error.strerror}.") from error
        _running.add(process)
        talk = Conversation(metric, process, errors, timeout)

        def stop() -> None:
            talk.late.set()
            process.kill()

        clock = threading.Timer(min(timeout, threading.TIMEOUT_MAX), stop)
        clock.daemon = True
        clock.start()
        try:
            yield talk
        finally:
            clock.cancel()
            process.kill()
            process.wait()
            _running.discard(process)
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError, ValueError):
                    if pipe is not None:
                        pipe.close()


def run(metric: str, command: Sequence[str], lines: Sequence[str], *, folder: Path, timeout: float) -> list[str]:
    """Send all lines to a subprocess, wait for its end, and return what it wrote."""
    with conversation(metric, command, folder=folder, timeout=timeout) as talk:
        text = "".join(f"{line}\n" for line in lines)
        output, _ = talk.process.communicate(text)
        if talk.process.returncode != 0 or talk.late.is_set():
            raise talk.failure(f"ended with the status {talk.process.returncode}")
    return output.splitlines()


@atexit.register
def _stop_all() -> None:
    for process in list(_running):
        process.kill()
