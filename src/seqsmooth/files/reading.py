"""Text and JSON from files, plain or gzip; where one is damaged, one sentence says so."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from seqsmooth.files.collector import pause_collector
from seqsmooth.files.paths import check_source

Parsed = TypeVar("Parsed")

_BLOCK = 1 << 16  # bytes that are decoded at a time
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


def read_lines(path: str | os.PathLike[str], name: str = "text") -> Iterator[str]:
    """The lines of a file in UTF-8, `.gz` or not, without their ends.

    Args:
        path: the file.
        name: what it is for, said where it cannot be read.
    """
    path = check_source(name, path)
    with _open(path) as file:
        before = 0
        try:
            while lines := file.readlines(_BLOCK):
                yield from _decode(lines, first=before == 0)
                before += len(lines)
        except UnicodeDecodeError as error:
            wrong = next(number for number, line in enumerate(lines, before + 1) if not _is_utf8(line))
            yield from _decode(lines[: wrong - before - 1], first=before == 0)
            raise ValueError(f"`{name}` must be text in UTF-8, but {path} is not in line {wrong}.") from error
        except _DAMAGED as error:
            raise _damaged_gzip(name, path) from error


def _decode(lines: list[bytes], *, first: bool) -> list[str]:
    """Decode lines at once; only the ends of lines end lines: text may hold other separators."""
    text = b"".join(lines).decode("utf-8-sig" if first else "utf-8")
    decoded = text.split("\n")
    if text.endswith("\n") or not lines:
        decoded.pop()
    return [line.removesuffix("\r") for line in decoded] if "\r" in text else decoded


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def count_lines(path: str | os.PathLike[str], name: str = "text") -> int:
    """Count the lines of a file."""
    path = check_source(name, path)
    ends, last = 0, b"\n"
    with _open(path) as file:
        try:
            while block := file.read(1 << 20):
                ends, last = ends + block.count(b"\n"), block[-1:]
        except _DAMAGED as error:
            raise _damaged_gzip(name, path) from error
    return ends + (last != b"\n")


def read_text(path: str | os.PathLike[str], name: str = "text") -> str:
    """A whole file in UTF-8, `.gz` or not."""
    path = check_source(name, path)
    with _open(path) as file:
        try:
            content = file.read()
        except _DAMAGED as error:
            raise _damaged_gzip(name, path) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"`{name}` must be text in UTF-8, but {path} is not in line {line}.") from error


@pause_collector()
def read_json(path: str | os.PathLike[str], name: str = "json") -> Any:
    """Read the value in a JSON file."""
    try:
        return json.loads(read_text(path, name))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"`{name}` must be whole JSON; {path} is damaged at {where}.") from error
    except RecursionError as error:
        raise ValueError(f"`{name}` must be whole JSON, but {path} is nested too deeply.") from error


@pause_collector()
def read_json_lines(path: str | os.PathLike[str], name: str = "json") -> list[tuple[int, Any]]:
    """Read a value from each line of a file, with the number of its line; empty lines are passed over."""
    values = []
    for number, line in enumerate(read_lines(path, name), 1):
        if line.strip():
            try:
                values.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"`{name}` must be whole JSON, but {path} is not in line {number}.") from error
    return values


def read_record(
    path: str | os.PathLike[str],
    parse: Callable[[Any], Parsed],
    rule: str,
    *,
    name: str | None = None,
    kind: str | None = None,
) -> Parsed:
    """Read a JSON file that this package wrote; whatever is wrong with it becomes one sentence.

    Args:
        path: the file.
        parse: makes the result of the value in the file.
        rule: what the file must be, as in "a file written by `Vocabulary.save`".
        name: the argument that an error is about; the path itself by default.
        kind: the value of its key "kind".
    """
    subject, place = (f"`{path}`", "it") if name is None else (f"`{name}`", f"{path}")
    unreadable = (
        "must be a file that can be read; it is not" if name is None else f"must be {rule}, but {path} cannot be read"
    )
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        if kind is not None and value["kind"] != kind:
            raise ValueError(f"it is of the kind {value['kind']!r}")
        return parse(value)
    except OSError as error:
        raise ValueError(f"{subject} {unreadable}: {error.strerror or error}.") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{subject} must be {rule}; {place} is damaged or something else.") from error


def _open(path: Path) -> IO[bytes]:
    if path.name.endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _damaged_gzip(name: str, path: Path) -> ValueError:
    return ValueError(f"`{name}` must be a whole gzip file; {path} is damaged.")
