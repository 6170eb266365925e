from __future__ import annotations

import re
import subprocess
import sys

import pytest

from seqsmooth.cli.main import VERBS, Verb, main
from seqsmooth.version import __version__


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"seqsmooth {__version__}\n"


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "seqsmooth", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"seqsmooth {__version__}\n"


@pytest.mark.parametrize("verb", ["demos", "train!"])
def test_an_unknown_verb_is_an_error_that_lists_the_verbs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb])
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert repr(verb) in told
    assert all(repr(known) in told for known in VERBS)


def test_no_verb_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "VERB" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS)])
def test_help_is_there_for_every_verb(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*verb, "--help"])
    assert stopped.value.code == 0
    told = capsys.readouterr().out
    assert "usage: seqsmooth" in told
    if verb:
        assert re.search(rf"^examples?:\n  seqsmooth {verb[0]}\b", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--scenes", "0"], "`scenes` must be 1 or more, but is 0 instead."),
        (["--seeds", "0"], "`seeds` must be 1 or more, but is 0 instead."),
        (["--seed", "-1"], "`seed` must be 0 or more, but is -1 instead."),
    ],
)
def test_a_wrong_option_is_one_sentence(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *options]) == 2
    assert capsys.readouterr().err == f"seqsmooth: error: {sentence}\n"


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--minutes", "1"])
    assert stopped.value.code == 2


class OutOfMemoryError(RuntimeError):
    """As torch's."""


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (OSError(28, "No space left on device"), 2, "seqsmooth: error: The system says: No space left on device.\n"),
        (
            PermissionError(13, "Permission denied", "a"),
            2,
            "seqsmooth: error: The system says: a: Permission denied.\n",
        ),
        (MemoryError(), 2, "seqsmooth: error: There is not enough memory for this.\n"),
        (OutOfMemoryError("Tried 2 GiB.\nMore."), 2, "There is not enough memory on the device: Tried 2 GiB.\n"),
        (KeyboardInterrupt(), 130, "\nseqsmooth: stopped\n"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(
    error: BaseException, status: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(given: object) -> int:
        raise error

    monkeypatch.setitem(VERBS, "doctor", Verb("fails", lambda parser: None, fail))
    assert main(["doctor"]) == status
    assert capsys.readouterr().err.endswith(told)


def test_a_fault_of_ours_is_seen_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(given: object) -> int:
        raise RuntimeError("ours")

    monkeypatch.setitem(VERBS, "doctor", Verb("fails", lambda parser: None, fail))
    with pytest.raises(RuntimeError, match="ours"):
        main(["doctor"])
