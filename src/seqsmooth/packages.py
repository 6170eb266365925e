"""Packages that may be installed beside torch: whether they are, their versions, and what failed in them."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from typing import Any

from seqsmooth import checks


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def version_of(module: str, distribution: str | None = None) -> str | None:
    """Return the version of a package: "unknown" where it does not say, None where it is not installed.

    Args:
        module: the name it is imported by.
        distribution: the name it is installed by, where that differs.
    """
    if not is_installed(module):
        return None
    try:
        return importlib.metadata.version((distribution or module).replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def import_package(module: str, what: str, extra: str) -> Any:
    """Import a package; where it is not installed, raise a sentence that says what for and how to get it.

    Args:
        module: the name it is imported by.
        what: what needs it.
        extra: the extra of seqsmooth that brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise checks.missing(module, what, extra) from error


def describe_error(error: BaseException) -> str:
    """Return the kind and the first line of an error, short enough for a table, without the folders of this machine."""
    lines = str(error).strip().splitlines() or [""]
    text = re.sub(r"(/[\w.+-]+)+/", "", lines[0].strip())
    return f"{type(error).__name__}: {text}"[:160].rstrip(": ")
