"""The paths of our arithmetic on the CPU, each as a contestant of its own: plain torch, and the native library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import torch

import seqsmooth as ss
from benchmarks.harness import Call, Contestant
from seqsmooth.ops import checks, dispatch

PATHS = ("torch", "native")
I = TypeVar("I")  # noqa: E741 - the inputs of a contestant


def available() -> tuple[str, ...]:
    """List the paths that this installation can take."""
    return tuple(path for path in PATHS if why_not(path) is None)


def check(paths: Sequence[str]) -> tuple[str, ...]:
    """Check a choice of paths."""
    for path in paths:
        checks.one_of("path", path, PATHS)
        refusal = why_not(path)
        checks.must(refusal is None, "path", f"one that this installation can take ({refusal})", repr(path))
    return tuple(dict.fromkeys(paths))


def why_not(path: str) -> str | None:
    """Say why a path cannot be taken; None if it can."""
    try:
        with taken(path):
            ss.cross_entropy(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    except (ValueError, RuntimeError, OSError) as error:
        return str(error)
    return None


@contextmanager
def taken(path: str) -> Iterator[None]:
    """Take one path, whatever the environment says otherwise."""
    before = os.environ.get(dispatch.VARIABLE)
    os.environ[dispatch.VARIABLE] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ[dispatch.VARIABLE]
        else:
            os.environ[dispatch.VARIABLE] = before


def named(name: str, path: str) -> str:
    """Name a loss on one path."""
    return f"{name} ({path})"


def along(contestants: Iterable[Contestant[I]], paths: Sequence[str]) -> list[Contestant[I]]:
    """Let each of ours take each of the paths; each is compared with ours on the same path."""
    return [_on(path, contestant) for contestant in contestants for path in paths]


def _on(path: str, contestant: Contestant[I]) -> Contestant[I]:
    def bind(given: I) -> Call:
        with taken(path):
            call = contestant.bind(given)
        return replace(call, step=_taking(path, call.step))

    against = None if contestant.against is None else named(contestant.against, path)
    name = contestant.name
    return replace(contestant, name=named(name, path), bind=bind, against=against, alias=name)


def _taking(path: str, step: Callable[[], Any]) -> Callable[[], Any]:
    """Make a step that takes a path; this adds some microseconds."""

    def along_path() -> Any:
        with taken(path):
            return step()

    return along_path
