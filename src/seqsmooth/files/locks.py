"""Locks that end with the process that holds them."""

from __future__ import annotations

from typing import IO, Any


def try_lock(file: IO[Any]) -> bool:
    """Lock a file for as long as any process has it open; False where another has."""
    try:
        import fcntl
    except ImportError:  # not a Unix: nobody is kept out
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody is kept out
        return True
    return True
