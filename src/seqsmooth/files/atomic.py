"""Atomic writing: a file or a folder appears whole, or what was there before stays."""

from __future__ import annotations

import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from seqsmooth import checks
from seqsmooth.files.locks import try_lock
from seqsmooth.files.paths import check_new_folder


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing; what was at `path` before stays until the new file is complete and on the disk.

    Where `path` is a link, it stays one, and what it leads to is written.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except OSError as error:
        raise ValueError(
            f"`{path}` must be a file that can be written; it is not: {error.strerror or error}."
        ) from error
    finally:
        with suppress(OSError):  # where nothing can be written nothing can be removed, and the reason is known
            unfinished.unlink(missing_ok=True)


@contextmanager
def atomic_write_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a text file in UTF-8, which replaces what was at `path` once it is complete."""
    with atomic_write(path) as file:
        wrapped = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=False)
        yield wrapped
        wrapped.flush()
        wrapped.detach()


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Fill a new folder, which appears at `path` once it is complete; what is there already is refused.

    What a process that was killed left beside it is cleared away by the next one; two at the same time are refused.
    """
    path = check_new_folder("out", path).absolute()
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.lock").open("wb")
    except OSError as error:
        raise ValueError(f"`{path}` must be a folder that can be written; it is not: {error.strerror}.") from error
    with lock:
        rule = "written by one process at a time"
        checks.must(try_lock(lock), str(path), rule, "being written by another")
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            unfinished.mkdir()
            yield unfinished
            for file in unfinished.rglob("*"):
                if file.is_file():
                    _to_disk(file)
            check_new_folder("out", path)
            unfinished.rename(path)
        except OSError as error:
            raise ValueError(
                f"`{path}` must be a folder that can be written; it is not: {error.strerror or error}."
            ) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
            Path(lock.name).unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
