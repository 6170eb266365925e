"""An extension of griffe: shapes, which the code keeps in comments beside its tensors, are shown in the API pages.

    def forward(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
    ) -> Tensor:  # (B, L)

gives a table of arguments with the comments, and a line on what is returned, whatever the docstring says beside.
Fields of dataclasses likewise, in the table of their class where it has one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import griffe

ARGUMENT = re.compile(r"^\s*\*{0,2}(?P<name>\w+): .*?  # (?P<comment>.+)$")
RESULT = re.compile(r"^\s*(?:\)|def .*\)) -> .*?:(?:  # (?P<comment>.+))?$")
SIZE = r"(?:\*?[A-Za-z][\w' +-]*|\d+[\w +-]*|\.\.\.)"
SHAPE = re.compile(rf"\((?:{SIZE}(?:, {SIZE})*,?)?\)(?: (?:bool|u?int\d+|float\d+)\b)?")
EXAMPLES = "\nExamples:\n"


class Shapes(griffe.Extension):
    """Comments of signatures and fields into docstrings."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Called when the whole package is read."""
        for thing in _walk(pkg):
            if thing.docstring is not None:
                thing.docstring.value = _escaped(inspect.cleandoc(thing.docstring.value))
        for thing in _walk(pkg):
            if isinstance(thing, griffe.Function):
                _tell_function(thing)
            elif isinstance(thing, griffe.Attribute) and isinstance(thing.parent, griffe.Class) and thing.lineno:
                _tell_field(thing, thing.parent)


def _walk(scope: griffe.Object) -> Iterator[griffe.Object]:
    for member in scope.members.values():
        if not member.is_alias:
            yield member
            yield from _walk(member)


def _tell_function(function: griffe.Function) -> None:
    comments: dict[str, str] = {}
    result = None
    for line in function.lines:
        if end := RESULT.match(line):
            result = end["comment"]
            break
        if argument := ARGUMENT.match(line):
            comments[argument["name"]] = argument["comment"]
    # What makes an object is described where its class is.
    owner = function.parent if function.name == "__init__" and function.parent else function
    text = owner.docstring.value if owner.docstring else ""
    more = [f"    {name}: {_marked(comment)}" for name, comment in comments.items() if not _entry(text, name)]
    for name, comment in comments.items():
        text = _with_shape(text, name, comment)
    if more and "\nArgs:\n" in text:
        text = text.replace("\nArgs:\n", "\n".join(["\nArgs:", *more, ""]), 1)
    elif more:
        text = _with_section(text, "\n".join(["Args:", *more]))
    if result and function is owner and "\nReturns:" not in text:
        text = _with_section(text, f"Returns:\n    {_marked(result)}")
    _write(owner, text)


def _tell_field(field: griffe.Attribute, owner: griffe.Class) -> None:
    found = ARGUMENT.match(field.source.splitlines()[0])
    if found is None:
        return
    if owner.docstring is not None and _entry(owner.docstring.value, field.name):
        _write(owner, _with_shape(owner.docstring.value, field.name, found["comment"]))
    else:
        told = f"; {field.docstring.value}" if field.docstring else ""
        _write(field, _marked(found["comment"]) + told)


def _entry(text: str, name: str) -> re.Match[str] | None:
    """Where a section of a docstring begins to tell of a name."""
    return re.search(rf"^    {name}: ", text, re.MULTILINE)


def _with_shape(text: str, name: str, comment: str) -> str:
    entry = _entry(text, name)
    return f"{text[: entry.end()]}{_marked(comment)}; {text[entry.end() :]}" if entry else text


def _with_section(text: str, section: str) -> str:
    before, mark, after = text.partition(EXAMPLES)
    return f"{before.rstrip()}\n\n{section}\n{mark}{after}"


def _write(owner: griffe.Object, text: str) -> None:
    if owner.docstring is not None:
        owner.docstring.value = text
    elif text:
        owner.docstring = griffe.Docstring(text, lineno=owner.lineno, parent=owner, parser="google")


def _marked(comment: str) -> str:
    """Shapes as code, what else is said as text."""
    return SHAPE.sub(r"`\g<0>`", comment)


def _escaped(text: str) -> str:
    """A scalar product <q, z> is no tag of HTML; code stays as it is."""
    before, mark, after = text.partition(EXAMPLES)
    parts = re.split(r"(`[^`]*`)", before)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts) + mark + after
