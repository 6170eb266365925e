"""The processes that a process has started."""

from __future__ import annotations

import subprocess


def children(parent: int) -> set[int]:
    """The children of a process, without the one that looks for them."""
    with subprocess.Popen(["ps", "-o", "pid=", "--ppid", str(parent)], stdout=subprocess.PIPE, text=True) as look:
        assert look.stdout is not None
        return set(map(int, look.stdout.read().split())) - {look.pid}
