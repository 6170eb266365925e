"""The table from the paper's symbols to files names what exists, and quotes what is on its first screen."""

from __future__ import annotations

import html
import importlib
import inspect
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCREEN = 40  # lines
ROWS = [
    re.match(r"\| (.+) \| (.+) \| `([\w.]+)` \| ([\w/]+\.py) \| (?:`|<code>)(.+?)(?:`|</code>) \|$", line)
    for line in (ROOT / "docs/symbols.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| symbol", "|---"))
]


def test_every_row_is_read() -> None:
    assert len(ROWS) > 20
    assert all(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[3])
def test_the_name_is_defined_in_the_file_and_says_so_on_its_first_screen(row: re.Match[str]) -> None:
    name, file = row[3], row[4]
    assert (ROOT / "src/seqsmooth" / file).is_file()
    module = importlib.import_module("seqsmooth." + file.removesuffix(".py").replace("/", "."))
    named = reduce(getattr, name.split("."), module)
    assert named.__module__ == module.__name__
    first_screen = "\n".join(inspect.getsource(named).splitlines()[:SCREEN])
    assert html.unescape(row[5]) in first_screen


def test_every_equation_has_a_row() -> None:
    named: set[int] = set()
    for row in ROWS:
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", re.sub(r"section [\d.]+", "", row[2])):
            named |= set(range(int(first), int(last or first) + 1))
    assert named == set(range(1, 26))
