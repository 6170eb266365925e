from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seqsmooth.cli import doctor
from seqsmooth.cli.keys import known_keys
from seqsmooth.cli.main import VERBS, main
from seqsmooth.cli.parser import Parser, nearest
from seqsmooth.version import __version__


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"seqsmooth {__version__}\n"


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "seqsmooth", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"seqsmooth {__version__}\n"


@pytest.mark.parametrize(("verb", "near"), [("demos", "demo"), ("train!", "train"), ("trian", "train"), ("xyzzy", "")])
def test_an_unknown_verb_is_an_error_that_lists_the_verbs(
    verb: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert repr(verb) in message
    assert all(repr(known) in message for known in VERBS)
    assert ("did you mean" in message) == bool(near)
    assert not near or f"; did you mean {near}?\n" in message


def test_no_verb_is_an_error_that_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    message = capsys.readouterr().err
    assert "VERB" in message
    assert all(f"\n  {verb:<12} {about.summary}\n" in message for verb, about in VERBS.items())


def help_pages() -> list[list[str]]:
    """The words before `--help`: of the command, of each verb, and of what a verb calls WHAT."""
    pages: list[list[str]] = [[]]
    for verb in VERBS:
        pages += [[verb], *([verb, what] for what in _subcommands(verb))]
    return pages


def _subcommands(verb: str) -> list[str]:
    parser = Parser()
    importlib.import_module(f"seqsmooth.cli.{verb}").options(parser)
    return [name for action in parser._actions if action.nargs == "A..." for name in action.choices or ()]


def test_a_comment_goes_above_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    example = "seqsmooth glove data/coco --dim 300 --out data/coco/glove.txt"
    Parser(prog="p", epilog=f"examples:\n  {example}  # a prepared corpus\n  short  # yes").print_help()
    page = capsys.readouterr().out
    assert page.endswith(f"examples:\n  # a prepared corpus\n  {example}\n  short  # yes\n")


@pytest.mark.parametrize("words", help_pages(), ids=" ".join)
def test_a_help_page_fits_80_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    assert stopped.value.code == 0
    page = capsys.readouterr().out
    assert "usage: seqsmooth" in page
    assert [line for line in page.splitlines() if len(line) > 80] == []
    if len(words) == 1:
        assert re.search(rf"^examples?:\n  seqsmooth {words[0]}\b", page, re.MULTILINE)


def test_a_long_example_is_broken_as_the_shell_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    example = "seqsmooth train a/long/path/of/a/config.yaml --data.folder another/long/path --seed 1 --run a/b"
    Parser(prog="p", epilog=f"examples:\n  {example}\n  short").print_help()
    page = capsys.readouterr().out
    broken = page[page.index("examples:\n") + 10 : page.index("  short")]
    assert broken.count("\\\n") == 1
    assert shlex.split(broken.replace("\\\n", "")) == shlex.split(example)


RUN = "import sys; from seqsmooth.cli.main import main; sys.argv[0] = 'seqsmooth'"
HEAVY = "print(*(name for name in ('torch', 'numpy', 'yaml') if name in sys.modules))"


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["trian"], *([verb, "--help"] for verb in VERBS)], ids=" ".join
)
def test_help_and_mistyped_verbs_do_not_wait_for_torch(words: list[str]) -> None:
    code = f"{RUN}\ntry: main({words!r})\nexcept SystemExit: pass\n{HEAVY}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].strip() == ""


def test_help_answers_at_once() -> None:
    def seconds() -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "seqsmooth", "--help"], capture_output=True, check=True)
        return time.perf_counter() - begin

    assert min(seconds() for _ in range(5)) < 0.3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--scenes", "0"], "`scenes` must be 1 or more; it is 0."),
        (["--seeds", "0"], "`seeds` must be 1 or more; it is 0."),
        (["--seed", "-1"], "`seed` must be 0 or more; it is -1."),
    ],
)
def test_a_wrong_option_is_one_sentence(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *options]) == 2
    assert capsys.readouterr().err == f"seqsmooth: error: {sentence}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--minutes", "1"], "seqsmooth demo: error: There is no option --minutes."),
        (["demo", "--scense=9"], "seqsmooth demo: error: There is no option --scense; did you mean --scenes?"),
        (["demo", "more"], "seqsmooth demo: error: There is no use for 'more' here."),
        (["prepare", "multi30"], "it is 'multi30'; did you mean multi30k?"),
        (["prepare", "pairs", "a", "--train", "b", "--tset", "c"], "There is no option --tset; did you mean --test?"),
        (["train", "a", "--jbos", "2"], "seqsmooth train: error: There is no option --jbos; did you mean --jobs?"),
        (["score", "a", "b", "--max_epochs", "1"], "There is no option --max_epochs."),
        (["score", "a", "b", "--trainer.max_epochs", "1"], "There is no option --trainer.max_epochs."),
    ],
)
def test_a_mistyped_option_gets_the_nearest_one(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(message)
    assert re.fullmatch(r"`seqsmooth .*--help` explains the command\.", second)


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["--lr", "0.1"], ["--optimizer.lr"]),
        (["--max_epochs=3"], ["--trainer.max_epochs"]),
        (["--max-epoch", "3"], ["--trainer.max_epochs"]),
        (["--wieght_decay", "0"], ["--optimizer.weight_decay"]),
        (["--alpha", "0.1"], ["--decoding.alpha", "--objective.sequence.alpha", "--objective.token.alpha"]),
    ],
)
def test_the_end_of_a_key_gets_the_keys_that_end_so(
    words: list[str], keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", "small.yaml", *words])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert f"did you mean {', '.join(keys)}" in message.replace(" or ", ", ")
    assert "`seqsmooth train BASE --loss NAME --print_config` lists them" in message


def test_every_section_of_a_config_has_known_keys() -> None:
    keys = set(known_keys())
    assert {"seed", "data.folder", "schedule.factor", "model.units", "objective.sequence.reward.sigma"} <= keys


def test_what_is_far_from_everything_has_no_nearest() -> None:
    assert nearest("zzzz", ["demo", "train"]) == []


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

    monkeypatch.setattr(doctor, "start", fail)
    assert main(["doctor"]) == status
    assert capsys.readouterr().err.endswith(told)


def test_a_fault_of_ours_is_seen_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(given: object) -> int:
        raise RuntimeError("ours")

    monkeypatch.setattr(doctor, "start", fail)
    with pytest.raises(RuntimeError, match="ours"):
        main(["doctor"])


@pytest.mark.parametrize("verb", ["record", "results", "choose"])
def test_a_verb_that_moved_is_named(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb, "runs", "--out", "results"])
    assert stopped.value.code == 2
    assert f"`seqsmooth {verb}` is now `seqsmooth report {verb}`." in capsys.readouterr().err


def test_report_without_a_way_compares_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["report", "nowhere"], ["report", "runs", "nowhere"]):
        assert main([*words, "--out", str(tmp_path / "out")]) == 2
        assert "`run` must be the folder of a run" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["report", "runs", "nowhere", "--out", "x", "--optimizer.lr", "1"])
    assert "There is no option --optimizer.lr" in capsys.readouterr().err
