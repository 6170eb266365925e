"""Parallel text: pairs of a source and its target, or its several targets, from files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from seqsmooth.files.paths import check_source
from seqsmooth.files.reading import count_lines, read_lines
from seqsmooth.ops import checks
from seqsmooth.text.segments import read_segments, suspicious_line

Pair = tuple[str, str | tuple[str, ...]]
_LOOKED_AT = 50_000  # lines that are compared to find where two files part


class ParallelText:
    """Pairs from files, read as they are asked for; it can be iterated over again.

    One file is tab-separated, a pair a line: two columns, and more are passed over. Two files are sources and targets,
    line by line. More are several targets. A file may be `.gz`, and .sgm or .xml with <seg> elements.

    Args:
        paths: the file or the files.
        columns: of the source and the target in a tab-separated file, counted from 1.
        name: what it is for, said where something is wrong.
    """

    def __init__(
        self, paths: Sequence[str | os.PathLike[str]], columns: tuple[int, int] = (1, 2), name: str = "pairs"
    ) -> None:
        checks.must(len(paths) > 0, name, "one file or more", "none")
        self.paths = [check_source(name, path) for path in paths]
        self.columns = columns
        self.name = name
        if len(self.paths) > 1:
            self._check_aligned()

    def __iter__(self) -> Iterator[Pair]:
        if len(self.paths) == 1:
            yield from self._columns()
            return
        source, *targets = (self._side(path) for path in self.paths)
        yield from zip(source, targets[0] if len(targets) == 1 else zip(*targets, strict=True), strict=True)

    def _side(self, path: Path) -> Iterator[str]:
        return iter(read_segments(path, self.name)) if _has_segments(path) else read_lines(path, self.name)

    def _size(self, path: Path) -> int:
        return len(read_segments(path, self.name)) if _has_segments(path) else count_lines(path, self.name)

    def _check_aligned(self) -> None:
        first, *others = self.paths
        size = self._size(first)
        for path in others:
            other = self._size(path)
            if other != size:
                ours, theirs = (list(islice(self._side(one), _LOOKED_AT)) for one in (first, path))
                line = suspicious_line(ours, theirs)
                raise ValueError(
                    f"The files of `{self.name}` must have as many lines, but {first} has {size} and {path} has "
                    f"{other}: the first suspicious line is {line}."
                )

    def _columns(self) -> Iterator[Pair]:
        (path,) = self.paths
        source, target = self.columns
        for number, line in enumerate(read_lines(path, self.name), 1):
            values = line.split("\t")
            if len(values) < max(source, target):
                raise ValueError(
                    f"Line {number} of {path} must have {max(source, target)} columns with tabs between them, "
                    f"but has {len(values)}."
                )
            yield values[source - 1], values[target - 1]


def _has_segments(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith((".sgm", ".sgml", ".xml"))
