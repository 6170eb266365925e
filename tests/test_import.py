"""Importing the library is cheap and needs torch and numpy only."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

USE = "import seqsmooth; seqsmooth.Objective, seqsmooth.cross_entropy, seqsmooth.rewards"
# Of the processor, for the time on the wall is that of whatever else the machine does as well.
SECONDS = f"import time, torch, numpy; t = time.process_time(); {USE}; print(time.process_time() - t)"
MODULES = """
import sys, {0}
before = set(sys.modules)
{1}
new = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(*sorted(name for name in new if name not in sys.stdlib_module_names))
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_costs_under_200_ms_beyond_torch() -> None:
    assert min(float(run(SECONDS)) for _ in range(3)) < 0.2


def test_brings_in_nothing_but_torch_and_numpy() -> None:
    assert set(run(MODULES.format("torch, numpy", USE)).split()) <= {"seqsmooth", "torch", "numpy"}


def test_the_import_alone_brings_in_nothing() -> None:
    assert run(MODULES.format("os", "import seqsmooth; dir(seqsmooth)")).split() == ["seqsmooth"]


def test_every_public_name_is_there() -> None:
    import seqsmooth

    assert all(hasattr(seqsmooth, name) for name in seqsmooth.__all__)
    assert len(seqsmooth.__all__) <= 30
    assert set(seqsmooth.__all__) <= set(dir(seqsmooth))


def test_a_name_that_is_not_there_is_an_error() -> None:
    import seqsmooth

    with pytest.raises(AttributeError, match="module 'seqsmooth' has no attribute 'Objectives'"):
        _ = seqsmooth.Objectives


def test_a_star_brings_every_public_name() -> None:
    names = run("from seqsmooth import *; print(*dir())").split()
    import seqsmooth

    assert set(seqsmooth.__all__) <= set(names)


@pytest.mark.parametrize("package", [f"seqsmooth{room}" for room in ("", ".data", ".metrics", ".text", ".training")])
def test_types_are_told_of_the_same_objects(package: str) -> None:
    """What a type checker reads under TYPE_CHECKING is what a program gets."""
    module = import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = [
        (node.module, name.name) for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names
    ]
    assert {name for _, name in imported} == set(module.__all__) - {"__version__"}
    assert set(module.__all__) <= set(dir(module))
    for home, name in imported:
        assert getattr(import_module(str(home)), name) is getattr(module, name), name
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_texts_are_read_split_and_written_without_torch() -> None:
    use = (
        "from seqsmooth.text import tokeniser; tokeniser('ptb'); import seqsmooth.files.atomic, seqsmooth.files.reading"
    )
    assert run(MODULES.format("os", use)).split() == ["seqsmooth"]


def test_classes_survive_pickle() -> None:
    import seqsmooth

    specials = seqsmooth.Specials(eos=2)
    assert pickle.loads(pickle.dumps(specials)) == specials  # noqa: S301
    assert pickle.loads(pickle.dumps(seqsmooth.Objective)) is seqsmooth.Objective  # noqa: S301
