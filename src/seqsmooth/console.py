"""The last line of stderr, where long work says how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

QUIET_SECONDS = 10.0
"""From one line of a log to the next, in a file."""


class StatusLine:
    """Lines that stay, and on a terminal one that is rewritten below them; in a file nothing is rewritten."""

    @property
    def rewrites(self) -> bool:
        """Whether stderr is a terminal."""
        return sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Write a passing line: the next one takes its place. Nothing happens where lines stay."""
        if self.rewrites:
            self._write(f"\r\x1b[K{text}")

    def write(self, text: str) -> None:
        """Write a line that stays."""
        self._write(f"\r\x1b[K{text}\n" if self.rewrites else f"{text}\n")

    def end(self) -> None:
        """Let a passing line stay."""
        if self.rewrites:
            self._write("\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def show_log(name: str) -> Iterator[None]:
    """Show what a logger says meanwhile: on a terminal in the status line, in a file a line now and then."""
    import logging

    line, last, shown = StatusLine(), time.monotonic(), False

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            nonlocal last, shown
            shown = True
            if line.rewrites:
                line.show(record.getMessage())
            elif time.monotonic() > last + QUIET_SECONDS:
                last = time.monotonic()
                line.write(record.getMessage())

    logger, handler = logging.getLogger(name), Shown()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
        if shown:
            line.show("")
