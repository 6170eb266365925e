"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from seqsmooth.ops import checks


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; what was at `path` before stays until the new file is complete."""
    path = Path(path)
    check_writable(path)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise ValueError(f"`{path}` must be a file that can be written, but is not: {error.strerror}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Check a place for a file before the work that ends in it."""
    checks.must(path.parent.is_dir(), str(path), "in a folder that is there", "not")
    checks.must(not path.is_dir(), str(path), "a file", "a folder")
