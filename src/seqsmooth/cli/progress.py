"""What long work shows on stderr."""

from __future__ import annotations

import time

from seqsmooth.console import StatusLine


class Progress:
    """Says on stderr what is being done: on a terminal in one line that is rewritten, otherwise when it changes."""

    def __init__(self) -> None:
        self.begin = self.last = time.monotonic()
        self.what = ""
        self.line = StatusLine()

    def __call__(self, what: str, done: int) -> None:
        """Say what is being done, and how much of it is done; 0 says nothing of that."""
        now = time.monotonic()
        new, terminal = what != self.what, self.line.rewrites
        if not new and (now - self.last < 0.2 or (not terminal and now - self.last < 10)):
            return
        self.what, self.last = what, now
        count = f": {done:,}" if done and (terminal or not new) else ""  # in a file, a first count looks like the last
        (self.line.show if terminal else self.line.write)(f"{now - self.begin:6.1f} s  {what}{count}")

    def end(self) -> None:
        """Leave the line."""
        self.line.end()
