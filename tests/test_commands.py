"""Every `seqsmooth` command of the README and the pages is one that the program takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from seqsmooth.cli.main import VERBS, main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = re.compile(r"^```(?:sh|bash|text)\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(seqsmooth [^`\n]+)`")
PLACEHOLDER = re.compile(r"\b(?:VERB|BASE|NAME|MODULE|WHAT|FOLDER|FILE|RUN)\b|\.\.\.")
ASSIGNMENT = re.compile(r'^(?P<name>[A-Z]+)="(?P<value>[^"]*)"$', re.MULTILINE)


def commands(page: str) -> list[tuple[list[str], bool]]:
    """The words of each command, and whether it is whole.

    Those in blocks of shell are; one in the text may stop before its last words.
    """
    whole = []
    for block in SHELL.finditer(page):
        code = block["code"].replace("\\\n", " ")
        for variable in ASSIGNMENT.finditer(code):
            code = code.replace(f"${variable['name']}", variable["value"])
        whole += re.findall(r"(?:^|; do |&& )(seqsmooth [^;&\n]+)", code, re.MULTILINE)
    inline = [part.strip() for code in INLINE.findall(SHELL.sub("", page)) for part in code.split("&&")]
    lines = dict.fromkeys(whole, True) | {
        line: False for line in inline if line not in whole and not PLACEHOLDER.search(line)
    }
    return [(words, complete) for line, complete in lines.items() if (words := shlex.split(line, comments=True)[1:])]


@pytest.fixture
def mistake(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str | None]:
    """What is wrong with a command: no verb is started, but a training is resolved."""

    def run(words: Sequence[str]) -> str | None:
        try:
            status = main(words)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        said = capsys.readouterr().err
        return None if status == 0 else said

    def look(words: Sequence[str], *, whole: bool = True) -> str | None:
        if words[0] == "train" and len(words) > 1 and "--list" not in words:
            return run([*words, "--print_config"])
        with monkeypatch.context() as patch:
            if words[0] in VERBS:
                patch.setattr(import_module(f"seqsmooth.cli.{words[0]}"), "start", lambda given: 0)
            said = run(words)
        cut_short = re.search(r"arguments are required|expected (one|at least one) argument", said or "")
        return None if cut_short and not whole else said

    return look


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_are_ones_that_the_program_takes(page: Path, mistake: Callable[..., str | None]) -> None:
    pytest.importorskip("yaml", reason="needs the toolkit: pip install -c constraints.txt -e '.[toolkit]'")
    wrong = {
        shlex.join(words): said
        for words, whole in commands(page.read_text(encoding="utf-8"))
        if (said := mistake(words, whole=whole)) is not None
    }
    assert not wrong


def test_commands_are_seen(mistake: Callable[..., str | None]) -> None:
    page = (
        'Run `seqsmooth train BASE --list`, `seqsmooth bench`, `seqsmooth score --json`.\n\n```sh\nP="--seed 1"\n'
        "seqsmooth score a.json \\\n    b.json $P  # both\nfor x in *; do seqsmooth glove $x --out y; done\n```\n"
    )
    assert commands(page) == [
        (["score", "a.json", "b.json", "--seed", "1"], True),
        (["glove", "$x", "--out", "y"], True),
        (["bench"], False),
        (["score", "--json"], False),
    ]
    said = [mistake(words, whole=whole) for words, whole in commands(page)]
    assert said[:2] == [None, None]
    assert "bench" in str(said[2])
    assert said[3] is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train coco/stage_one --loss tok_sqe", "tok_sqe"),
        ("train coco/stage_one --loss tok --optimizer.rl 1", "optimizer.rl"),
        ("decode runs/a --beem 3", "--beem"),
        ("score a.json", "REFERENCES"),
    ],
)
def test_a_command_that_is_wrong_is_seen(line: str, said: str, mistake: Callable[..., str | None]) -> None:
    assert said in str(mistake(line.split()))
