"""The counts of a checkout, on a package of a few lines whose counts are known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import house

ROOT = Path(__file__).resolve().parents[2]
INIT = """\
from dataclasses import dataclass
from seqsmooth.law import Law, Pair, Unused

@dataclass(frozen=True)
class Loss:
    total: object

@dataclass
class Job:
    law: Law

    @classmethod
    def unchecked(cls, law):
        job = object.__new__(cls)
        job.law = law
        return job

class Objective:
    def __init__(self, law):
        self.law, self.own = law, Pair(1, 2)

    def __call__(self, logits, targets):
        return Loss(Job.unchecked(self.law).law.pair(targets).one)

def tok_seq(embeddings, **options):
    from seqsmooth.construction import law_of
    return Objective(law_of(options))
"""
LAW = """\
from dataclasses import dataclass
from typing import NamedTuple

class Pair(NamedTuple):
    one: object
    other: object

@dataclass(frozen=True)
class Unused:
    pass

@dataclass(frozen=True)
class Law:
    tau: float

    def pair(self, targets):
        return Pair(targets, self.tau)
"""
CONSTRUCTION = """\
from seqsmooth.law import Law

def law_of(options):
    return Law(options["tau"])
"""
NAMES = """\
class Law:
    def is_closed(self): ...
    @property
    def closed(self): ...
    def told(self):
        def shown(): ...
        return shown
    def spread(self): ...

class Reader:
    class Pair: ...

def read(): ...
def embed(): ...
def _inputs_kept(): ...
def made_up(): ...
def from_hidden(): ...
async def told(): ...
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    package = tmp_path / "src" / "seqsmooth"
    files = {
        "__init__.py": INIT,
        "law.py": LAW,
        "construction.py": CONSTRUCTION,
        "names.py": NAMES,
        "data.json": "{\n}\n",
    }
    for name, text in files.items():
        package.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "law.pyc").write_bytes(b"\n" * 100)
    (tmp_path / "configs" / "coco").mkdir(parents=True)
    for name in ("one.yaml", "coco/two.yaml", "coco/readme.md"):
        (tmp_path / "configs" / name).touch()
    return tmp_path


def test_the_call_is_traced_without_its_construction(small: Path) -> None:
    trace = house.trace_call(small)
    assert trace["files"] == {"__init__.py": ["Job.unchecked", "Objective.__call__"], "law.py": ["Law.pair"]}
    assert trace["records"] == {"seqsmooth.Loss": 1, "seqsmooth.Job": 1, "seqsmooth.law.Pair": 1}


def test_lines_files_classes_and_participles(small: Path) -> None:
    counts = {row.title: row.measure(small) for row in house.ROWS}
    counts.pop("rows of `duplicates` over `src`")
    lines = sum(text.count("\n") for text in (INIT, LAW, CONSTRUCTION, NAMES)) + 2
    assert list(counts.values()) == [lines, 5, 2, 3, 2, 2, 5]
    assert house.repeated_classes(small) == {"Law": 2, "Pair": 2}
    assert house.participles(small) == {"_inputs_kept": 1, "shown": 1, "told": 2, "unchecked": 1}


def test_a_table_has_both_sides(small: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other") / "tree"
    shutil.copytree(small, other)
    (other / "src" / "seqsmooth" / "names.py").unlink()
    text = house.table(small, other)
    assert "| files of `src` | 5 | 4 |  |" in text
    assert "| functions named by a bare participle | 5 | 1 | 0 |" in text
    assert text.count("\n") == len(house.ROWS) + 1


def test_names_are_listed(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    house.main(["--trace", str(small)])
    text = capsys.readouterr().out
    assert "files of the call: 2\n" in text
    assert "  law.py: Law.pair\n" in text
    assert "  seqsmooth.law.Pair: 1\n" in text
    assert "participle" not in text


def test_neither_a_checkout_nor_a_revision() -> None:
    with pytest.raises(SystemExit, match="'nowhere' is neither a checkout nor a revision"):
        house.main(["nowhere", "."])


def test_a_revision_is_copied(small: Path) -> None:
    with house.checkout(str(small)) as folder:
        assert folder == small.resolve()


def test_this_checkout_can_be_traced() -> None:
    trace = house.trace_call(ROOT)
    assert any(name.startswith("smoothing/") for name in trace["files"])
    assert any(name.endswith(".Loss") for name in trace["records"])
