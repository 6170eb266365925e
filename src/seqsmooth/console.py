"""The last line of stderr, where long work says how far it is."""

from __future__ import annotations

import sys


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
