from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from files.processes import children
from seqsmooth.files.workers import run_blocks, usable_cores


@dataclass(frozen=True)
class Work:
    """What the processes of these tests do."""

    factor: int = 2

    def __call__(self, block: int) -> int:
        if block == 13:
            raise ValueError("`block` must be no 13; it is 13.")
        if block < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01 * (block % 3))  # later blocks end before earlier ones
        os.write(1, b"nobody takes this for a result\n")
        return self.factor * block


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before, threads = children(os.getpid()), threading.active_count()
    yield
    assert children(os.getpid()) <= before
    assert threading.active_count() == threads


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order(workers: int) -> None:
    assert list(run_blocks(Work(3), range(12), workers)) == [3 * block for block in range(12)]
    assert list(run_blocks(Work(), [], workers)) == []
    assert list(run_blocks(Work(), [5], workers)) == [10]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_after_all_before_it(workers: int) -> None:
    seen: list[int] = []
    with pytest.raises(ValueError, match=r"^`block` must be no 13; it is 13\.$"):
        seen.extend(run_blocks(Work(), range(8, 20), workers))
    assert seen == [16, 18, 20, 22, 24]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("bad", [13, 9])
def test_what_the_blocks_raise_comes_after_all_before_it(workers: int, bad: int) -> None:
    def blocks() -> Iterator[int]:
        yield from (7, 8, bad, 10)
        raise LookupError("no more")

    seen: list[int] = []
    with pytest.raises(ValueError if bad == 13 else LookupError):
        seen.extend(run_blocks(Work(), blocks(), workers))
    assert seen == ([14, 16] if bad == 13 else [14, 16, 18, 20])


def test_a_process_that_is_killed_is_one_sentence() -> None:
    with pytest.raises(
        ValueError, match=r"^`workers` must be processes that can .* ended with signal 9, maybe for want"
    ):
        list(run_blocks(Work(), [1, 2, -1, 3], 2))


def test_a_process_that_ends_while_it_is_written_to_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqsmooth.files.workers._SERVE", "raise SystemExit(3)")
    with pytest.raises(ValueError, match=r"one was ended with status 3, maybe for want of memory\.$"):
        list(run_blocks(bytes.upper, [b"a" * (1 << 22)] * 3, 2))


def test_a_process_that_cannot_be_started_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(
        ValueError, match=r"^`workers` must be processes that can be started; No such file or directory"
    ):
        list(run_blocks(Work(), range(3), 2))


def test_what_no_other_process_can_have_is_done_here() -> None:
    lock = threading.Lock()  # cannot be pickled
    assert list(run_blocks(bool, [lock, lock, lock], 2)) == [True, True, True]


def test_a_generator_that_is_closed_leaves_nothing() -> None:
    with closing(run_blocks(Work(), range(1000), 2)) as results:
        assert [next(results) for _ in range(3)] == [0, 2, 4]


@settings(max_examples=5, deadline=None)
@given(st.lists(st.binary(max_size=1 << 18), max_size=9), st.integers(2, 3))
def test_blocks_of_any_size_travel(blocks: list[bytes], workers: int) -> None:
    assert list(run_blocks(bytes.upper, blocks, workers)) == [block.upper() for block in blocks]


SCRIPT = """
import sys
from seqsmooth.files.workers import run_blocks
print("once")
print(list(run_blocks(abs, range(-3, 3), 2)))
print("torch" in sys.modules, "numpy" in sys.modules)
"""


@pytest.mark.parametrize("from_stdin", [False, True])
def test_a_plain_script_needs_no_guard(tmp_path: Path, from_stdin: bool) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    words = [sys.executable, "-" if from_stdin else str(tmp_path / "script.py")]
    run = subprocess.run(words, input=SCRIPT, capture_output=True, text=True, check=False, timeout=60)
    assert run.stderr == ""
    assert run.stdout.split("\n") == ["once", "[3, 2, 1, 0, 1, 2]", "False False", ""]


ORPHANS = """
import time
from seqsmooth.files.workers import run_blocks
results = run_blocks(abs, range(1000000), 2)
for _ in range(10):
    next(results)
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_processes_end_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"begun\n"
        pids = children(run.pid)
        assert pids
        run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(
        Path(f"/proc/{pid}/cmdline").is_file() and b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_one_of_ours(pid: int) -> bool:
    with suppress(OSError):
        return b"serve()" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_all_cores_are_those_that_may_be_used() -> None:
    assert 1 <= usable_cores() <= min(32, os.cpu_count() or 1)
