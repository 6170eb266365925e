"""The arguments of constructors. Those of this package's classes are read from their source, and nothing is imported.

So a config is checked without torch, whose import takes longer than all of the check. Classes of somebody else, which
were added to a registry, are there already, and are asked.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

REQUIRED = inspect.Parameter.empty
PACKAGE = "seqsmooth"
PLAIN = {"bool": bool, "int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Argument:
    """An argument of a constructor.

    Attributes:
        name: its name.
        hint: its type without what YAML cannot express; None where nothing is left of it.
        default: its default; `REQUIRED` where it has none.
    """

    name: str
    hint: Any
    default: Any


@dataclass(frozen=True)
class SourceClass:
    """A class of this package, which need not be imported: where it is.

    Attributes:
        module: the module that defines it.
        name: its name there.
    """

    module: str
    name: str

    def load(self) -> type:
        """Import it."""
        built: type = getattr(import_module(self.module), self.name)
        return built


Class = type | SourceClass


def registered(module: str, table: str) -> dict[str, Class]:
    """List the classes of a registry by their names: the table itself where its module is imported, or its source."""
    loaded = sys.modules.get(module)
    if loaded is not None:  # somebody may have added to it
        return {kind: _ours(built) for kind, built in getattr(loaded, table).items()}
    found = _find(module, table)
    assert found is not None
    assert isinstance(found[1], ast.Dict), f"{module}.{table} must be written out, as names and classes"
    return {
        ast.literal_eval(key): _locate(module, value.id)
        for key, value in zip(found[1].keys, found[1].values, strict=True)
        if key is not None and isinstance(value, ast.Name)
    }


def _ours(built: type) -> Class:
    ours = built.__module__.split(".")[0] == PACKAGE
    return SourceClass(built.__module__, built.__qualname__) if ours else built


def class_name(built: Class) -> str:
    """The name of a class."""
    return built.name if isinstance(built, SourceClass) else built.__name__


def has_method(built: Class, name: str) -> bool:
    """Whether a class, or one that it is derived from, has a method."""
    if not isinstance(built, SourceClass):
        return hasattr(built, name)
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in _bodies(built))


def arguments(built: Class) -> list[Argument]:
    """List the arguments of a constructor that have a type."""
    return list(_read(built) if isinstance(built, SourceClass) else _inspect(built))


def _inspect(built: Any) -> Iterator[Argument]:
    hints = get_type_hints(built.__init__)
    for name, parameter in inspect.signature(built.__init__).parameters.items():
        if name in hints:
            yield Argument(name, _expressible(hints[name]), parameter.default)


def _expressible(hint: Any) -> Any:
    """Drop tensors and dtypes from a type; None where nothing is left."""
    import torch

    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return _union([part for part in parts if part not in (torch.Tensor, torch.dtype)])


def _union(parts: list[Any]) -> Any:
    return reduce(or_, parts) if set(parts) - {type(None)} else None


def _read(built: SourceClass) -> Iterator[Argument]:
    constructors = (node for node in _bodies(built) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    constructor = next(constructors, None)
    if constructor is None:
        return
    given = constructor.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + [*given.defaults]
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    for argument, default in (*zip(positional, defaults, strict=True), *named):
        if argument.annotation is not None:
            value = REQUIRED if default is None else _literal(default)
            yield Argument(argument.arg, _union(list(_parts(argument.annotation, built.module))), value)


def _literal(node: ast.expr) -> Any:
    """The value of a default; None stands for one that is no plain value, which no YAML file can give either."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _parts(hint: ast.expr, module: str) -> Iterator[Any]:
    """Yield the types of which a hint is the union, without those that are no plain values."""
    match hint:
        case ast.BinOp(left, ast.BitOr(), right):
            yield from _parts(left, module)
            yield from _parts(right, module)
        case ast.Constant(None):
            yield type(None)
        case ast.Subscript(ast.Name("Literal"), values):
            value = ast.literal_eval(values)
            yield Literal[value if isinstance(value, tuple) else (value,)]
        case ast.Name(name) if name in PLAIN:
            yield PLAIN[name]
        case ast.Name(name):
            found = _find(module, name)
            if found is not None and isinstance(found[1], ast.expr):
                yield from _parts(found[1], found[0])


def _bodies(built: SourceClass) -> Iterator[ast.stmt]:
    """Yield the statements of a class, then those of the classes that it is derived from."""
    found = _find(built.module, built.name)
    if found is not None and isinstance(found[1], ast.ClassDef):
        yield from found[1].body
        for base in found[1].bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(plain, ast.Name):
                yield from _bodies(SourceClass(found[0], plain.id))


def _locate(module: str, name: str) -> SourceClass:
    found = _find(module, name)
    assert found is not None, f"{module} has no class {name}"
    return SourceClass(found[0], name)


def _find(module: str, name: str) -> tuple[str, ast.expr | ast.ClassDef] | None:
    """Find what a name of a module stands for: its module, and a class or the value that is assigned to it."""
    node = _names(module).get(name) if module.split(".")[0] == PACKAGE else None
    if isinstance(node, ast.ImportFrom):
        assert node.module is not None
        return _find(node.module, name)
    return None if node is None else (module, node)


@cache
def _names(module: str) -> Mapping[str, ast.ImportFrom | ast.ClassDef | ast.expr]:
    """List what the names of a module stand for, but for what it imports as something else."""
    place = Path(__file__).resolve().parents[1].joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    names: dict[str, ast.ImportFrom | ast.ClassDef | ast.expr] = {}
    for node in ast.parse(file.read_bytes()).body:
        match node:
            case ast.ImportFrom():
                names |= dict.fromkeys((one.name for one in node.names if one.asname is None), node)
            case ast.ClassDef(name):
                names[name] = node
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=ast.expr() as value):
                names[name] = value
    return names
