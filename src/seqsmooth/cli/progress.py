"""What long work shows on stderr."""

from __future__ import annotations

import sys
import time


class Progress:
    """Says on stderr what is being done: on a terminal in one line that is rewritten, otherwise when it changes."""

    def __init__(self) -> None:
        self.begin = self.last = time.monotonic()
        self.what = ""

    def __call__(self, what: str, done: int) -> None:
        """Say what is being done, and how much of it is done; 0 says nothing of that."""
        now = time.monotonic()
        new, terminal = what != self.what, sys.stderr.isatty()
        if not new and (now - self.last < 0.2 or (not terminal and now - self.last < 10)):
            return
        self.what, self.last = what, now
        count = f": {done:,}" if done and (terminal or not new) else ""  # in a file, a first count looks like the last
        text = f"{now - self.begin:6.1f} s  {what}{count}"
        print(f"\r{text:<78}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if sys.stderr.isatty():
            print(file=sys.stderr)
