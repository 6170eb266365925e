"""An extension of griffe: shapes, which the code keeps in comments beside its tensors, are shown in the API pages.

    def forward(
        self,
        candidates: Tensor,  # (B, L, T) int64
        references: Tensor,  # (B, R, S) int64
    ) -> Tensor:  # (B, L)

gives a table of arguments with the comments, and a line on what is returned, whatever the docstring says beside.
Fields of dataclasses likewise.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import griffe

ARGUMENT = re.compile(r"^\s*\*{0,2}(?P<name>\w+): .*?  # (?P<comment>.+)$")
RESULT = re.compile(r"^\s*\) -> .*:  # (?P<comment>\(.+)$|^\s*def .* -> .*:  # (?P<inline>\(.+)$")
SIZE = r"(?:[A-Z][\w' +-]*|\d+[\w +-]*|\.\.\.)"
SHAPE = re.compile(rf"\((?:{SIZE}(?:, {SIZE})*,?)?\)(?: (?:bool|u?int\d+|float\d+)\b)?")
FIELD = re.compile(r"^\s*\w+: .*?  # (?P<comment>.+)$")


class Shapes(griffe.Extension):
    """Comments of signatures and fields into docstrings."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Called when the whole package is read."""
        for thing in _walk(pkg):
            if isinstance(thing, griffe.Function):
                _annotate(thing)
            elif isinstance(thing, griffe.Attribute) and thing.docstring is None:
                found = FIELD.match(thing.source) if thing.lineno else None
                if found:
                    thing.docstring = griffe.Docstring(_marked(found["comment"]), parent=thing)


def _walk(scope: griffe.Object) -> Iterator[griffe.Object]:
    for member in scope.members.values():
        if not member.is_alias:
            yield member
            yield from _walk(member)


def _annotate(function: griffe.Function) -> None:
    comments, result = _comments(function.lines)
    # What makes an object is described where its class is.
    owner = function.parent if function.name == "__init__" and function.parent else function
    if not comments and not result:
        return
    text = owner.docstring.value if owner.docstring else ""
    text = _with_arguments(inspect.cleandoc(text), comments)
    if result and function is owner and "\nReturns:" not in text:
        text = _before_examples(text, f"Returns:\n    {_marked(result)}")
    if owner.docstring is None:
        owner.docstring = griffe.Docstring(text, lineno=function.lineno, parent=owner, parser="google")
    else:
        owner.docstring.value = text


def _comments(lines: list[str]) -> tuple[dict[str, str], str | None]:
    found: dict[str, str] = {}
    for line in lines:
        if result := RESULT.match(line):
            return found, result["comment"] or result["inline"]
        if re.match(r"^\s*(\) -> .*:|def .*\) -> .*:)$", line):
            break
        if argument := ARGUMENT.match(line):
            found[argument["name"]] = argument["comment"]
    return found, None


def _with_arguments(text: str, comments: dict[str, str]) -> str:
    missing = []
    for name, comment in comments.items():
        entry = re.compile(rf"^(    {name}: )", re.MULTILINE)
        if entry.search(text):
            text = entry.sub(lambda found, c=comment: f"{found[1]}{_marked(c)}; ", text, count=1)
        else:
            missing.append(f"    {name}: {_marked(comment)}")
    if not missing:
        return text
    if "\nArgs:\n" in text:
        return text.replace("\nArgs:\n", "\nArgs:\n" + "\n".join(missing) + "\n", 1)
    return _before_examples(text, "Args:\n" + "\n".join(missing))


def _before_examples(text: str, section: str) -> str:
    before, mark, after = text.partition("\nExamples:\n")
    return f"{before.rstrip()}\n\n{section}\n{mark}{after}" if mark else f"{text.rstrip()}\n\n{section}\n"


def _marked(comment: str) -> str:
    """Shapes as code, what else is said as text."""
    return SHAPE.sub(r"`\g<0>`", comment)
