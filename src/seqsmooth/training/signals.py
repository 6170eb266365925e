"""Ctrl-C, SIGTERM and a terminal that is closed, for work that wants to end well."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Stop = Callable[[int, FrameType | None], None]
HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows


@contextmanager
def handle_signals(stop: Stop) -> Iterator[None]:
    """Let a function answer Ctrl-C, SIGTERM and SIGHUP meanwhile; but signals reach the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, frame: FrameType | None) -> None:
        if number == HANGUP:
            signal.signal(number, signal.SIG_IGN)  # it comes to the leader of a session, and again to its group
            _leave_terminal()
        stop(number, frame)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN:  # as `nohup` asks for
        numbers.append(HANGUP)
    before = {number: signal.signal(number, hear) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_terminal() -> None:
    """Write nowhere what would go to a terminal that is gone, where it would be an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        if stat.S_ISCHR(os.fstat(number).st_mode):  # `isatty` knows no terminal that is gone
            os.dup2(nowhere, number)
    os.close(nowhere)
