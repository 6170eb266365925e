"""Every public name has a docstring, the shapes of its tensors, an example that runs, and a place in an API page."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import seqsmooth
from test_project import PAGES, python_blocks

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    "ops",
    "rewards",
    "smoothing",
    "distillation",
    "text",
    "data",
    "models",
    "decoding",
    "metrics",
    "training",
    "reports",
    "integrations",
    "conformance",
)
SHAPE = re.compile(r"#.*\(.*\)")


def names() -> dict[str, Any]:
    """What can be imported from the package or from a room, by the shortest path; modules and the version apart."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path in ("seqsmooth", *(f"seqsmooth.{room}" for room in ROOMS)):
        module = importlib.import_module(path)
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, (ModuleType, str)) and id(value) not in seen:
                seen.add(id(value))
                found[f"{path}.{name}"] = value
    return found


NAMES = names()


def documentation(path: str) -> str:
    """The docstring of a name: its own, not one that Python or a base class made up."""
    value = NAMES[path]
    if inspect.isclass(value) or inspect.isfunction(value):
        own = vars(value).get("__doc__") or "" if inspect.isclass(value) else value.__doc__ or ""
        return "" if own.startswith(f"{value.__name__}(") else own
    room, name = path.rsplit(".", 1)
    for file in Path(inspect.getfile(importlib.import_module(room))).parent.glob("*.py"):
        body = ast.parse(file.read_text(encoding="utf-8")).body
        for here, after in pairwise(body):
            target = here.targets[0] if isinstance(here, ast.Assign) else getattr(here, "target", None)
            named = isinstance(target, ast.Name) and target.id == name
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return str(after.value.value)
    return ""


@cache
def used_in_examples() -> frozenset[int]:
    """Whatever of ours is used by the Python blocks of the pages and by examples/, all of which other tests run."""
    pages = ["\n".join(code for _, code, _ in python_blocks(page.read_text(encoding="utf-8"))) for page in PAGES]
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    found: set[int] = set()
    for tree in map(ast.parse, pages + scripts):
        homes = {"ss": "seqsmooth", "seqsmooth": "seqsmooth"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seqsmooth"):
                homes |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                first, *rest = ast.unparse(node).split(".")
                if first in homes and all(part.isidentifier() for part in rest):
                    found.add(id(resolved(".".join([homes[first], *rest]))))
    return frozenset(found)


def resolved(path: str) -> Any:
    """The value at a path, through modules and classes; None where there is none."""
    first, *rest = path.split(".")
    value: Any = importlib.import_module(first)
    for part in rest:
        if isinstance(value, ModuleType) and not hasattr(value, part):
            if importlib.util.find_spec(f"{value.__name__}.{part}") is None:
                return None
            importlib.import_module(f"{value.__name__}.{part}")
        # A function may hide the module of its name, as `reports.behaviour` does.
        hidden = sys.modules.get(value.__module__) if getattr(value, "__name__", None) == part else value
        value = getattr(value, part, None) or getattr(hidden, part, None)
    return value


def source(value: Any) -> tuple[list[ast.stmt], list[str]]:
    """What a class or function is made of, and its lines; of a class what its users see."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return [], []
    lines = inspect.getsource(value).splitlines()
    tree = ast.parse(textwrap.dedent("\n".join(lines))).body[0]
    if not isinstance(tree, ast.ClassDef):
        return [tree], lines
    hidden = re.compile(r"_(?!_init__$)")
    return [node for node in tree.body if not hidden.match(getattr(node, "name", ""))], lines


def tensors(node: ast.stmt, *, fields: bool) -> Iterator[ast.expr | ast.arg]:
    """What of a function (or of a field) is a tensor, or may be one; those inside of lists are told elsewhere."""
    found: list[ast.expr | ast.arg | None] = []
    if isinstance(node, ast.FunctionDef):
        given = node.args
        found = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, node.returns]
    elif isinstance(node, ast.AnnAssign) and fields:
        found = [node.annotation]
    for each in found:
        annotation = each.annotation if isinstance(each, ast.arg) else each
        if annotation is not None and "Tensor" in re.findall(r"\w+", re.sub(r"\[.*\]", "", ast.unparse(annotation))):
            assert each is not None
            yield each


@pytest.mark.parametrize("path", NAMES)
def test_it_has_a_docstring(path: str) -> None:
    assert documentation(path).strip(), f"{path} must have a docstring, but has none."


@pytest.mark.parametrize("path", NAMES)
def test_it_has_an_example_that_is_run(path: str) -> None:
    """A doctest, which `pytest --doctest-modules` runs, a block of a page, or a script of examples/."""
    assert ">>> " in documentation(path) or id(NAMES[path]) in used_in_examples(), (
        f"{path} must have an example, in its docstring, in a page of docs/ or in examples/, but has none."
    )


@pytest.mark.parametrize("path", NAMES)
def test_every_tensor_has_its_shape(path: str) -> None:
    """Arguments, results, and the fields of what travels; a module's buffers are its own affair."""
    nodes, lines = source(NAMES[path])
    for node in nodes:
        for tensor in tensors(node, fields=is_dataclass(NAMES[path])):
            line = lines[tensor.lineno - 1]
            assert SHAPE.search(line), f"A tensor of {path} must have its shape on its line, but has none: {line}"


@cache
def in_api_pages() -> frozenset[int]:
    directives = (
        re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        for page in (ROOT / "docs/api").glob("*.md")
    )
    return frozenset(id(resolved(path)) for paths in directives for path in paths)


@pytest.mark.parametrize("path", NAMES)
def test_it_is_in_an_api_page(path: str) -> None:
    assert id(NAMES[path]) in in_api_pages(), f"{path} must be in a page of docs/api; it is in none."


def test_the_names_are_found() -> None:
    assert NAMES["seqsmooth.Objective"] is seqsmooth.Objective
    assert {path.rsplit(".", 1)[0] for path in NAMES} >= {"seqsmooth", "seqsmooth.rewards", "seqsmooth.conformance"}
    assert set(ROOMS) == {
        path.parent.name
        for path in (ROOT / "src/seqsmooth").glob("*/__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    }


def test_a_missing_docstring_is_seen() -> None:
    assert resolved("seqsmooth.nowhere") is None
    assert resolved("seqsmooth.Similarity.from_model") is not None
