"""Work on blocks in several processes: the results come in order, and are the same whatever the number of processes.

The processes are started afresh and speak over pipes. `multiprocessing` would fork a process that has threads, torch's
among them, or run the main file of a script again; these need neither, and they end when their parent does, however it
ends: then nobody writes to them any more.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen
from threading import Lock
from typing import Any, TypeVar

Block = TypeVar("Block")
Result = TypeVar("Result")

MOST = 32
"""The most processes that are started unless more are asked for: one process reads for all of them."""
_SERVE = "from seqsmooth.files.workers import serve; serve()"
_AHEAD = 2  # blocks read for each process, so that none waits


def usable_cores() -> int:
    """Count the cores that this process may use, up to `MOST`."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, MOST)


def run_blocks(
    work: Callable[[Block], Result], blocks: Iterable[Block], workers: int = 1
) -> Generator[Result, None, None]:
    """Yield `work(block)` for each block, in order.

    What `blocks` or `work` raises comes when all before it has been yielded, as from one process. Close the generator
    where it is not read to its end: then no process is left.

    Args:
        work: can be pickled, as can what it takes and returns.
        blocks: read a few ahead.
        workers: the number of processes beside this one; with 1, there is none. The first block is done here, so that
            little work needs no process.
    """
    source = iter(blocks)
    if workers == 1:
        yield from map(work, source)
        return
    for first in source:
        yield work(first)
        break
    pool = _Pool(work, workers)
    pending: deque[Future[Result]] = deque()
    failure: Exception | None = None
    try:
        while True:
            try:
                pending.append(pool.submit(next(source)))
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001  # raised below
                failure = error
                break
            while len(pending) > _AHEAD * workers or (pending and pending[0].done()):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        if failure is not None:
            raise failure
    finally:
        pool.end()


class _Pool:
    """Processes, each with a thread that waits for it; a process is started where none is idle."""

    def __init__(self, work: Callable[[Any], Any], workers: int) -> None:
        self._work = work
        self._pickled = pickle.dumps(work, 5)
        self._threads = ThreadPoolExecutor(workers)
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._all: list[_Process] = []
        self._lock = Lock()
        self._ended = False

    def submit(self, block: Any) -> Future[Any]:
        return self._threads.submit(self._do, block)

    def end(self) -> None:
        """End all processes, at once: what they were doing is not wanted any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._ended = True
            for process in self._all:
                process.kill()
        self._threads.shutdown(wait=True)
        for process in self._all:
            process.close()

    def _do(self, block: Any) -> Any:
        try:
            pickled = pickle.dumps(block, 5)
        except Exception:  # noqa: BLE001  # an object that no other process can have
            return self._work(block)
        try:
            process = self._idle.get_nowait()
        except Empty:
            with self._lock:
                if self._ended:
                    return None
                process = _Process(self._pickled)
                self._all.append(process)
        result = process.do(pickled)
        self._idle.put(process)
        return result


class _Process:
    """One process, which does one block at a time."""

    def __init__(self, work: bytes) -> None:
        places = [path or str(Path.cwd()) for path in sys.path]
        # A thread in each process is enough: there are as many processes as cores.
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        try:
            self._process = Popen(
                [sys.executable, "-P", "-c", _SERVE],
                stdin=PIPE,
                stdout=PIPE,
                env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(places)},
                start_new_session=True,  # Ctrl-C is for the parent, which ends them
            )
        except OSError as error:
            raise ValueError(f"`workers` must be processes that can be started; {error.strerror or error}.") from error
        self._work = work

    def do(self, block: bytes) -> Any:
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        try:
            requests.write(self._work + block)
            requests.flush()
            self._work = b""  # it is known from now on
            done, result = pickle.load(replies)  # noqa: S301  # from a process of ours
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            status = self._process.wait()
            how = f"signal {-status}" if status < 0 else f"status {status}"
            rule = "processes that can end their work"
            raise ValueError(
                f"`workers` must be {rule}; one was ended with {how}, maybe for want of memory."
            ) from error
        if not done:
            raise result
        return result

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        with suppress(OSError), self._process:  # waits, and closes the pipes; what was not written never will be
            pass


def serve() -> None:
    """Be one of the processes: read the work and then blocks from stdin, write results to stdout, until stdin ends."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what others print is not taken for a result
    try:
        work = pickle.load(requests)  # noqa: S301  # from the process that started this one
        while True:
            replies.write(_answer(work, pickle.load(requests)))  # noqa: S301
            replies.flush()
    except (EOFError, BrokenPipeError):  # the parent has ended
        os._exit(0)


def _answer(work: Callable[[Any], Any], block: Any) -> bytes:
    try:
        return pickle.dumps((True, work(block)), 5)
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent raises it
        try:
            answer = pickle.dumps((False, error), 5)
            pickle.loads(answer)  # noqa: S301  # some errors can be pickled, but not be read again
        except Exception:  # noqa: BLE001
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")), 5)
        return answer
