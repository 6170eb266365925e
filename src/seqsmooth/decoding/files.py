"""Hypotheses in a JSONL file: one line an item, in the order of the inputs.

{"id": 391895, "hypotheses": [{"text": "a man on a bike", "tokens": [5, 9, 17, 5, 31], "log_prob": -4.1,
                               "score": -0.68, "finished": true}]}
"""

from __future__ import annotations

import json
import math
import operator
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from seqsmooth.decoding.hypotheses import Hypothesis
from seqsmooth.files.locks import try_lock
from seqsmooth.ops import checks

KIND = "seqsmooth hypotheses in the making 1"
Id = int | str


class HypothesisFile:
    """A file that is there whole or not at all, and in the order of `ids` whatever order its items come in.

    Items are kept in a file beside it, `<name>.partial`, as they come. If the process dies, the next one with the same
    ids and settings has only the `remaining` ids left to do. When none remain, the file is written and the partial one
    goes. A file that is already there is never touched.

    Attributes:
        hypotheses: of each item that is done; in the order of `ids` once all are.

    Args:
        path: the file.
        ids: of all items, in the order wanted.
        settings: what the hypotheses depend on (checkpoint, beam): a partial file of other settings is refused.
        text: from token ids to a sentence, to be written beside the ids.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "captions.jsonl"
        >>> with HypothesisFile(path, ids=[7, 8]) as file:
        ...     for name in file.remaining:
        ...         file.add(name, [Hypothesis((4, 5), -1.5, -0.5, True)])
        >>> [name for name, _ in load_hypotheses(path)]
        [7, 8]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        ids: Sequence[Id],
        settings: Mapping[str, Any] | None = None,
        text: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.ids = [_id("ids", name) for name in ids]
        self.text = text
        self._absent()
        folder = self.path.parent
        checks.must(folder.is_dir(), "path", "in a folder that is there", self.path)
        repeated = len(self.ids) - len(set(self.ids))
        checks.must(repeated == 0, "ids", "different from each other", f"{repeated} times one that was there before")
        self._header = {"kind": KIND, "items": len(self.ids), "settings": dict(settings or {})}
        self._header = json.loads(json.dumps(self._header, allow_nan=False))  # as it is when read again
        self._known = set(self.ids)
        self.hypotheses: dict[Id, list[Hypothesis]] = {}
        self._lines: dict[Id, str] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> HypothesisFile:
        self._file = self.partial.open("a", encoding="utf-8", newline="\n")
        try:
            _lock(self._file, self.partial)
            self._absent()  # whoever held the lock may have finished
            good = self._resume()
            self._file.truncate(good)
            if good == 0:
                self._put(json.dumps(self._header))
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        try:
            if kind is None and not self.remaining:
                self._finish()  # under the lock, which goes with the file
        finally:
            self._file.close()
            self._file = None

    @property
    def remaining(self) -> list[Id]:
        """The ids that have no hypotheses yet, in order."""
        return [name for name in self.ids if name not in self._lines]

    def add(self, name: Id, hypotheses: Sequence[Hypothesis]) -> None:
        """Keep the hypotheses of an item."""
        name = _id("name", name)
        checks.must(self._file is not None, "file", "open (`with HypothesisFile(...) as file`)", "closed")
        checks.must(name in self._known and name not in self._lines, "name", "one of `remaining`", repr(name))
        entries = [{**({"text": self.text(h.tokens)} if self.text else {}), **asdict(h)} for h in hypotheses]
        line = json.dumps({"id": name, "hypotheses": entries}, ensure_ascii=False, allow_nan=False)
        self._put(line)
        self._lines[name], self.hypotheses[name] = line, list(hypotheses)

    def _absent(self) -> None:
        checks.must(not self.path.exists(), "path", "a file that is not there yet", f"{self.path}, which is")

    def _put(self, line: str) -> None:
        assert self._file is not None
        self._file.write(line + "\n")
        self._file.flush()

    def _resume(self) -> int:
        """Take over what a partial file holds and return how many of its bytes are good."""
        whole = self.partial.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]  # a line without its end was cut off by the death of its writer
        if not whole:
            return 0
        header, *lines = whole.decode("utf-8", "replace").split("\n")[:-1]
        rule = "one that goes with the same ids and settings, or is removed"
        try:
            same = json.loads(header) == self._header
            items = [_item(line) for line in lines]
        except ValueError as error:
            raise ValueError(f"`partial` must be {rule}; {self.partial} is damaged or something else.") from error
        hypotheses = dict(items)
        same = same and hypotheses.keys() <= self._known and len(hypotheses) == len(lines)
        checks.must(same, "partial", rule, f"{self.partial} of another run")
        self.hypotheses = hypotheses
        self._lines = {name: line for (name, _), line in zip(items, lines, strict=True)}
        return len(whole)

    def _finish(self) -> None:
        self.hypotheses = {name: self.hypotheses[name] for name in self.ids}
        unfinished = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            with unfinished.open("x", encoding="utf-8", newline="\n") as file:
                file.writelines(self._lines[name] + "\n" for name in self.ids)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(unfinished, self.path)  # unlike a rename, this never replaces
            except OSError:  # it is there, or the file system has no links
                self._absent()
                unfinished.replace(self.path)
        finally:
            unfinished.unlink(missing_ok=True)
        self.partial.unlink()


def _id(argument: str, name: Any) -> Id:
    """Make an id as JSON has it; whole numbers of numpy and torch will do."""
    if isinstance(name, str):
        return name
    try:
        return operator.index(name)
    except TypeError:
        raise checks.wrong(argument, "whole numbers or texts", checks.describe(name)) from None


def _lock(file: IO[str], path: Path) -> None:
    """Keep other processes away until the file is closed or this process dies, where the system can."""
    if not try_lock(file):
        raise ValueError(f"`partial` must be written by one process, but {path} is by another one already.")


def load_hypotheses(path: str | os.PathLike[str]) -> list[tuple[Id, list[Hypothesis]]]:
    """Read what a `HypothesisFile` left: ids and hypotheses, in order.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "captions.jsonl"
        >>> with HypothesisFile(path, ids=[7]) as file:
        ...     file.add(7, [Hypothesis((4, 5), -1.5, -0.5, True)])
        >>> load_hypotheses(path)
        [(7, [Hypothesis(tokens=(4, 5), log_prob=-1.5, score=-0.5, finished=True)])]
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"`path` must be a file that can be read, but {path} cannot: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"`path` must be a file of UTF-8, but {path} is not.") from error
    items = []
    for number, line in enumerate(text.split("\n")[:-1] if text.endswith("\n") else text.split("\n"), 1):
        try:
            items.append(_item(line))
        except ValueError as error:
            rule = '`path` must hold a line {"id": ..., "hypotheses": [...]} for each item'
            raise ValueError(f"{rule}; line {number} of {path} is damaged or something else.") from error
    return items


def _item(line: str) -> tuple[Id, list[Hypothesis]]:
    """Parse one line; ValueError if it is damaged."""
    try:
        entry = json.loads(line)
        name = entry["id"]
        hypotheses = [
            Hypothesis(tuple(int(t) for t in h["tokens"]), float(h["log_prob"]), float(h["score"]), bool(h["finished"]))
            for h in entry["hypotheses"]
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(line) from error
    if not isinstance(name, (int, str)) or not all(math.isfinite(h.score) for h in hypotheses):
        raise ValueError(line)
    return name, hypotheses
