"""Text and JSON from files, plain or gzip; where one is damaged, one sentence says so."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import IO, Any, cast

from seqsmooth.ops import checks
from seqsmooth.ops.collector import collector_off
from seqsmooth.ops.files import check_source

_SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>", re.DOTALL | re.IGNORECASE)
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


def read_lines(path: str | os.PathLike[str], name: str = "text") -> Iterator[str]:
    """The lines of a file in UTF-8, `.gz` or not, without their ends.

    Args:
        path: the file.
        name: what it is for, said where it cannot be read.
    """
    path = check_source(name, path)
    # Only the ends of lines end lines: text may hold other separators.
    with _opened(path) as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValueError(f"`{name}` must be text in UTF-8, but {path} is not in line {number}.") from error
        except _DAMAGED as error:
            raise _cut_short(name, path) from error


def count_lines(path: str | os.PathLike[str], name: str = "text") -> int:
    """How many lines a file has; what they say is not looked at."""
    path = check_source(name, path)
    ends, last = 0, b"\n"
    with _opened(path) as file:
        try:
            while block := file.read(1 << 20):
                ends, last = ends + block.count(b"\n"), block[-1:]
        except _DAMAGED as error:
            raise _cut_short(name, path) from error
    return ends + (last != b"\n")


def read_text(path: str | os.PathLike[str], name: str = "text") -> str:
    """A whole file in UTF-8, `.gz` or not."""
    path = check_source(name, path)
    with _opened(path) as file:
        try:
            held = file.read()
        except _DAMAGED as error:
            raise _cut_short(name, path) from error
    try:
        return held.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = held.count(b"\n", 0, error.start) + 1
        raise ValueError(f"`{name}` must be text in UTF-8, but {path} is not in line {line}.") from error


@collector_off()
def read_json(path: str | os.PathLike[str], name: str = "json") -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(read_text(path, name))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"`{name}` must be whole JSON, but {path} is damaged at {where} instead.") from error
    except RecursionError as error:
        raise ValueError(f"`{name}` must be whole JSON, but {path} is nested too deeply.") from error


@collector_off()
def read_json_lines(path: str | os.PathLike[str], name: str = "json") -> list[tuple[int, Any]]:
    """What the lines of a file of JSON hold, each with its number; empty lines are passed over."""
    found = []
    for number, line in enumerate(read_lines(path, name), 1):
        if line.strip():
            try:
                found.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"`{name}` must be whole JSON, but {path} is not in line {number}.") from error
    return found


def read_segments(path: str | os.PathLike[str], name: str = "text") -> list[str]:
    """The segments of an .sgm or .xml file of the WMT or IWSLT evaluations."""
    found = [" ".join(unescape(text).split()) for text in _SEGMENT.findall(read_text(path, name))]
    checks.must(len(found) > 0, name, "a file with <seg> elements", f"{path}, which has none")
    return found


def suspicious_line(ours: Sequence[str], theirs: Sequence[str], window: int = 5, farthest: int = 20) -> int:
    """Where two files that should have as many lines probably part, counted from 1.

    Lines are missing from the shorter file. The first line of it that fits a line further down in the longer one better
    than its own, and the lines after it do too, is where. Where none does, the first without a partner.
    """
    shorter, longer = sorted(([set(line.lower().split()) for line in lines] for lines in (ours, theirs)), key=len)
    common = Counter(word for words in longer for word in words)

    def fits(first: int, last: int, shift: int) -> float:
        pairs = zip(shorter[first:last], longer[first + shift : last + shift], strict=False)
        return sum(1 / common[word] for one, other in pairs for word in one & other)

    for line in range(len(shorter)):
        for shift in range(1, min(len(longer) - len(shorter), farthest) + 1):
            if all(fits(line, last, shift) > fits(line, last, 0) for last in (line + 1, line + window)):
                return line + 1
    return len(shorter) + 1


def _opened(path: Path) -> IO[bytes]:
    if path.name.endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _cut_short(name: str, path: Path) -> ValueError:
    return ValueError(f"`{name}` must be a whole gzip file, but {path} is damaged instead.")
