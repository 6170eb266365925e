"""The last line of stderr: rewritten on a terminal, never in a file."""

from __future__ import annotations

import pytest

from seqsmooth.console import StatusLine


@pytest.mark.parametrize(
    ("terminal", "text"),
    [(True, "\r\x1b[K1 of 2\r\x1b[K2 of 2\r\x1b[Kdone\n"), (False, "done\n")],
)
def test_passing_lines_are_rewritten_or_left_out(
    terminal: bool, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    line = StatusLine()
    line.show("1 of 2")
    line.show("2 of 2")
    line.write("done")
    assert capsys.readouterr().err == text
