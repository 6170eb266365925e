"""The last line of stderr: rewritten on a terminal, never in a file."""

from __future__ import annotations

import logging

import pytest

from seqsmooth import console
from seqsmooth.console import StatusLine, show_log


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


@pytest.mark.parametrize(
    ("terminal", "quiet", "text"),
    [(True, 9.0, "\r\x1b[K40 %\r\x1b[K80 %\r\x1b[K"), (False, 9.0, ""), (False, 0.0, "40 %\n80 %\n")],
    ids=["terminal", "file", "file, later"],
)
def test_a_log_is_shown_meanwhile(
    terminal: bool, quiet: float, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setattr(console, "QUIET_SECONDS", quiet)
    logger = logging.getLogger("seqsmooth.tests.console")
    with show_log("seqsmooth.tests"):
        logger.info("%d %%", 40)
        logger.debug("nobody's business")
        logger.info("%d %%", 80)
    logger.info("afterwards")
    assert capsys.readouterr().err == text
    assert logging.getLogger("seqsmooth.tests").level == logging.NOTSET


def test_nothing_is_written_for_a_log_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with pytest.raises(KeyError), show_log("seqsmooth.tests"):
        raise KeyError
    assert capsys.readouterr().err == ""
    assert not logging.getLogger("seqsmooth.tests").handlers
