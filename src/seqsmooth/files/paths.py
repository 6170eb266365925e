"""Checks of paths before any work is done, and the files below a folder."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from seqsmooth import checks


def files_below(folder: Path, pattern: str) -> list[Path]:
    """List the files of a folder and of those below it, links to folders included; in order, each folder once."""
    files, seen = [], set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        real = os.path.realpath(place)
        if real in seen:  # a link to where we come from, or to a folder seen before
            folders.clear()
            continue
        seen.add(real)
        files += [Path(place, name) for name in names if fnmatch(name, pattern)]
    return sorted(files)


def inner_path(name: str, value: str) -> PurePosixPath:
    """Check a path that leads nowhere but below where it starts."""
    path = PurePosixPath(value)
    inner = value.strip() != "" and not path.is_absolute() and ".." not in path.parts and path.parts != ()
    checks.must(inner, name, "a relative path without ..", repr(value))
    return path


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


def check_folder(name: str, path: str | os.PathLike[str]) -> Path:
    """Check that there is a folder to read from."""
    path = Path(path)
    checks.must(path.is_dir(), name, "a folder that is there", str(path))
    return path
