"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, TextIO

from seqsmooth.ops import checks


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
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
            f"`{path}` must be a file that can be written, but is not: {error.strerror or error}."
        ) from error
    finally:
        with suppress(OSError):  # where nothing can be written nothing can be removed, and the reason is known
            unfinished.unlink(missing_ok=True)


@contextmanager
def text_written_whole(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """The same for text, in UTF-8."""
    with written_whole(path) as file:
        wrapped = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=False)
        yield wrapped
        wrapped.flush()
        wrapped.detach()


@contextmanager
def folder_written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Fill a new folder, which appears at `path` once it is complete; what is there already is refused.

    What a process that was killed left beside it is cleared away by the next one; two at the same time are refused.
    """
    path = check_new_folder("out", path).absolute()
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.lock").open("wb")
    except OSError as error:
        raise ValueError(f"`{path}` must be a folder that can be written, but is not: {error.strerror}.") from error
    with lock:
        rule = "written by one process at a time"
        checks.must(locked(lock), str(path), rule, "being written by another")
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
            told = error.strerror or error
            raise ValueError(f"`{path}` must be a folder that can be written, but is not: {told}.") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
            Path(lock.name).unlink(missing_ok=True)


def locked(file: IO[Any]) -> bool:
    """Lock a file for as long as any process has it open; False where another has."""
    try:
        import fcntl
    except ImportError:  # not a Unix: nobody is kept out
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: likewise
        return True
    return True


def files_below(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder and of those below it, links to folders included; in order, each folder once."""
    found, seen = [], set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        real = os.path.realpath(place)
        if real in seen:  # a link to where we come from, or to what was found already
            folders.clear()
            continue
        seen.add(real)
        found += [Path(place, name) for name in names if fnmatch(name, pattern)]
    return sorted(found)


def inner_path(name: str, value: str) -> PurePosixPath:
    """Check a path that leads nowhere but below where it starts."""
    path = PurePosixPath(value)
    inner = value.strip() != "" and not path.is_absolute() and ".." not in path.parts and path.parts != ()
    checks.must(inner, name, "a relative path without ..", repr(value))
    return path


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def check_new_folder(name: str, path: str | os.PathLike[str]) -> Path:
    """Check that a folder can be made, better now than after all the work."""
    path = Path(path)
    if path.exists():
        raise ValueError(f"`{name}` must be a folder that is not there yet, but {path} is.")
    above = next(place for place in path.absolute().parents if place.exists())  # those below it can be made
    checks.must(above.is_dir(), name, "in a folder", f"{path}, below the file {above}")
    checks.must(os.access(above, os.W_OK), name, "in a folder that can be written to", str(path))
    return path


def check_destination(name: str, path: str | os.PathLike[str]) -> Path:
    """Check that a file can be written, better now than after all the work."""
    path = Path(path)
    checks.must(path.absolute().parent.is_dir(), name, "in a folder that is there", str(path))
    checks.must(not path.is_dir(), name, "a file", f"the folder {path}")
    # A device or a pipe would be replaced by a file, not written to.
    checks.must(path.is_file() or not path.exists(), name, "a file on a disk", str(path))
    checks.must(os.access(path.absolute().parent, os.W_OK), name, "in a folder that can be written to", str(path))
    return path


def check_source(name: str, path: str | os.PathLike[str]) -> Path:
    """Check that there is a file to read."""
    path = Path(path)
    there = path.exists() and not path.is_dir()  # a pipe will do
    checks.must(there, name, "a file that is there", str(path))
    checks.must(os.access(path, os.R_OK), name, "a file that can be read", str(path))
    return path
