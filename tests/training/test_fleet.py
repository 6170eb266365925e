"""Several processes at once; here they are shell commands in the place of runs."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seqsmooth.training import fleet, signals
from seqsmooth.training.fleet import LOG, FleetJob, run_fleet

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `python -m seqsmooth WORD` be `sh -c WORD`, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "shell"
    script.write_text('#!/bin/sh\nexec /bin/sh -c "$3"\n', encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(fleet.sys, "executable", str(script))
    monkeypatch.setattr(fleet, "PAUSE", 0.01)
    monkeypatch.setattr(signals, "_leave_terminal", lambda: None)  # that of the tests is still there


def job(name: str, command: str) -> FleetJob:
    return FleetJob(Path("runs") / name, (command,))


def meets(mine: str, other: str) -> str:
    """A command that ends well if another one is running at the same time."""
    return f"touch {mine}; for n in $(seq 100); do [ -e {other} ] && exit 0; sleep 0.02; done; exit 1"


def test_so_many_at_once() -> None:
    both = [job("a", meets("a", "b")), job("b", meets("b", "a"))]
    assert run_fleet(both, 2) == []
    for name in "ab":
        Path(name).unlink()
    assert run_fleet(both, 1) == [both[0]]  # b finds what a left behind


def test_one_that_fails_takes_no_other_with_it(capfd: pytest.CaptureFixture[str]) -> None:
    bad = job("bad", "echo begun; echo no such corpus >&2; exit 2")
    good = [job(f"good{number}", f"echo {number} > {number}; echo done") for number in range(3)]
    assert run_fleet([bad, *good], 2) == [bad]
    assert [Path(str(number)).read_text(encoding="utf-8").strip() for number in range(3)] == ["0", "1", "2"]
    assert (Path("runs/bad") / LOG).read_text(encoding="utf-8") == "begun\nno such corpus\n"
    said = capfd.readouterr().err
    assert f"runs/bad: failed: no such corpus (runs/bad/{LOG})" in said
    assert "3 done, 0 running, 0 waiting, 1 failed" in said


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fleet.THREADS, raising=False)
    monkeypatch.setattr(fleet, "cores", lambda: 16)
    for at_once, share in ((5, "3"), (40, "1")):
        assert run_fleet([job("x", f"echo ${fleet.THREADS} > {at_once}")], at_once) == []
        assert Path(str(at_once)).read_text(encoding="utf-8").strip() == share


def test_threads_as_told_and_the_package_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fleet.THREADS, "7")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    assert run_fleet([job("x", f"echo ${fleet.THREADS} > threads; echo $PYTHONPATH > path")], 1, threads=2) == []
    assert Path("threads").read_text(encoding="utf-8").strip() == "2"
    first, *others = Path("path").read_text(encoding="utf-8").strip().split(os.pathsep)
    assert Path(first) == Path(fleet.__file__).resolve().parents[2]
    assert others == ["elsewhere"]


def test_a_watch_is_told_what_runs_and_what_waits(capfd: pytest.CaptureFixture[str]) -> None:
    jobs, seen = [job("a", "sleep 0.2"), job("b", "true")], []
    assert run_fleet(jobs, 1, watch=lambda running, waiting: seen.append(([*running], [*waiting]))) == []
    assert ([jobs[0]], [jobs[1]]) in seen
    assert seen[-1] == ([], [])
    assert capfd.readouterr().err == ""  # the line is the caller's


@contextmanager
def struck(number: signal.Signals, *files: str) -> Iterator[None]:
    """Send this process a signal as soon as each of the files is there; it stops what is done meanwhile."""

    def strike() -> None:
        for file in files:
            while not Path(file).exists():
                time.sleep(0.01)
            os.kill(os.getpid(), number)

    striker = threading.Thread(target=strike)
    striker.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    striker.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_runs_save_and_starts_no_more(number: signal.Signals) -> None:
    saves = "trap 'sleep 0.1; touch saved; exit 130' TERM; touch begun; while :; do sleep 0.02; done"

    before = signal.getsignal(number)
    with struck(number, "begun"):
        run_fleet([job("a", saves), job("b", "touch late")], 1)
    assert Path("saved").exists()
    assert not Path("late").exists()
    assert signal.getsignal(number) is before


def test_a_second_signal_does_not_wait() -> None:
    stubborn = "trap 'touch told' TERM; touch begun; while :; do sleep 0.02; done"

    with struck(signal.SIGINT, "begun", "told"):
        run_fleet([job("a", stubborn)], 1)


def test_a_hangup_that_comes_twice_is_one() -> None:
    saves = "trap 'touch told; sleep 0.3; touch saved; exit 130' TERM; touch begun; while :; do sleep 0.02; done"

    with struck(signal.SIGHUP, "begun", "told"):
        run_fleet([job("a", saves)], 1)
    assert Path("saved").exists(), "a terminal that is closed tells the leader of its session, and its group"


def test_a_run_that_another_process_is_at_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    busy = job("busy", "touch twice")
    busy.folder.mkdir(parents=True)
    with (busy.folder / LOG).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run_fleet([busy], 1) == [busy]
    assert not Path("twice").exists()
    assert "runs/busy: failed: another process is at it" in capfd.readouterr().err
    assert run_fleet([busy], 1) == []


def test_a_lock_lasts_as_long_as_the_run(tmp_path: Path) -> None:
    # The process that started it may be gone: what holds the lock is the log that the run writes to.
    asks = f'exec python3 -c "import fcntl; fcntl.flock(open({LOG!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"'
    assert run_fleet([job("a", f"cd runs/a; {asks}")], 1) == [job("a", f"cd runs/a; {asks}")]
    assert "BlockingIOError" in (tmp_path / "runs" / "a" / LOG).read_text(encoding="utf-8")


def test_the_number_at_once_is_checked() -> None:
    with pytest.raises(ValueError, match="`jobs` must be 1 or more; it is 0"):
        run_fleet([], 0)


def test_a_folder_that_cannot_be_made_takes_no_other_with_it(capfd: pytest.CaptureFixture[str]) -> None:
    jobs = [job("a", "sleep 0.1; touch done"), job("b", "true")]
    Path("runs").mkdir()
    Path("runs/b").write_text("a file", encoding="utf-8")
    assert run_fleet(jobs, 2) == [jobs[1]]
    assert Path("done").exists()
    assert "runs/b: failed: the system says: File exists (runs/b)" in capfd.readouterr().err


def test_no_run_is_left_behind_when_the_fleet_itself_fails() -> None:
    saves = "trap 'touch saved; exit 130' TERM; touch begun; while :; do sleep 0.02; done"

    def watch(running: object, waiting: object) -> None:
        if Path("begun").exists():
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_fleet([job("a", saves)], 1, watch=watch)
    assert Path("saved").exists()  # and it has ended: whoever holds the log is alive
    with Path("runs/a", LOG).open("ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_killed_a_run_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    killed, silent = job("killed", "echo all is well; kill -9 $$"), job("silent", "exit 3")
    assert run_fleet([killed, silent], 1) == [killed, silent]
    said = capfd.readouterr().err
    assert "runs/killed: failed: killed by SIGKILL; the same command goes on with it" in said
    assert "runs/silent: failed: it ended with status 3 and said nothing" in said


def test_a_hangup_is_ignored_where_nohup_says_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hung = job("a", f"kill -HUP {os.getpid()}; sleep 0.1; touch done")
        assert run_fleet([hung], 1) == []
    finally:
        signal.signal(signal.SIGHUP, before)
    assert Path("done").exists()


def test_a_terminal_that_is_closed_lets_runs_save() -> None:
    saves = "trap 'sleep 0.3; touch saved; exit 130' TERM; touch begun; while :; do sleep 0.02; done"
    program = (
        "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "  # it leads the session of this terminal
        "from pathlib import Path; from seqsmooth.training import fleet; "
        f"fleet.sys.executable = {fleet.sys.executable!r}; "
        f"\ntry: fleet.run_fleet([fleet.FleetJob(Path('runs/a'), ({saves!r},))], 1)\n"
        "except KeyboardInterrupt: print('stopped', flush=True); raise SystemExit(130)"
    )
    ours, theirs = pty.openpty()
    source = str(Path(fleet.__file__).resolve().parents[2])
    begun = subprocess.Popen(
        [PYTHON, "-c", program],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    os.close(theirs)
    end = time.monotonic() + 60
    while not Path("begun").exists() and time.monotonic() < end:
        time.sleep(0.02)
    os.close(ours)
    assert begun.wait(timeout=60) == 130, "what it says at the end goes nowhere, and is no error"
    assert Path("saved").exists()
