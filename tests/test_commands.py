"""Every `seqsmooth` command of the README and the pages is one that the program takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from seqsmooth.cli.main import VERBS, _dotted, _parser, main

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ("results.md", "results/")
"""Pages whose commands are those of records, in the spelling of their day."""
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if not str(p.relative_to(ROOT / "docs")).startswith(RECORDED)),
]
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


def mistake(words: list[str], capsys: pytest.CaptureFixture[str], *, whole: bool = True) -> str | None:
    """What is wrong with a command; a training is also resolved, and not begun."""
    if words[0] not in VERBS:
        return f"There is no verb {words[0]}."
    plain, dotted = _dotted(words)
    try:
        _, unknown = _parser(words[0]).parse_known_args(plain)
    except SystemExit as stop:
        said = capsys.readouterr().err
        cut_short = re.search(r"arguments are required|expected (one|at least one) argument", said)
        return None if stop.code == 0 or (cut_short and not whole) else said
    if unknown or (dotted and not VERBS[words[0]].dotted):
        return f"No option takes {unknown or dotted}."
    if words[0] == "train" and len(words) > 1 and "--list" not in words and main([*words, "--print_config"]) != 0:
        return capsys.readouterr().err
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_are_ones_that_the_program_takes(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("yaml", reason="needs the toolkit: pip install -c constraints.txt -e '.[toolkit]'")
    wrong = {
        shlex.join(words): said
        for words, whole in commands(page.read_text(encoding="utf-8"))
        if (said := mistake(words, capsys, whole=whole)) is not None
    }
    assert not wrong


def test_commands_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
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
    said = [mistake(words, capsys, whole=whole) for words, whole in commands(page)]
    assert said == [None, None, "There is no verb bench.", None]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train coco/stage_one --loss tok_sqe", "tok_sqe"),
        ("train coco/stage_one --loss tok --optimizer.rl 1", "optimizer.rl"),
        ("decode runs/a --beem 3", "--beem"),
        ("score a.json", "REFERENCES"),
    ],
)
def test_a_command_that_is_wrong_is_seen(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in str(mistake(line.split(), capsys))
