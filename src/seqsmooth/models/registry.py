"""Models from plain values: a name and sizes, as a YAML file or a checkpoint holds them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from seqsmooth.models.luong import Luong
from seqsmooth.models.model import STARTS, Model
from seqsmooth.models.rnnsearch import RNNsearch
from seqsmooth.models.show_tell import ShowTell
from seqsmooth.models.top_down import TopDown
from seqsmooth.ops import checks

KINDS: dict[str, type[Model[Any, Any]]] = {model.kind: model for model in (ShowTell, TopDown, RNNsearch, Luong)}


def build(kind: str, **sizes: Any) -> Model[Any, Any]:
    """Make a model: `build(**model.config())` makes one like `model`, with weights of its own.

    Args:
        kind: "show_tell", "top_down", "rnnsearch" or "luong".
        sizes: the arguments of the class of that name.

    Examples:
        >>> build("show_tell", vocab_size=50, feature_size=8, units=16).config()["units"]
        16
    """
    checks.must(kind in KINDS, "kind", f"one of {', '.join(KINDS)}{nearest(kind, KINDS)}", repr(kind))
    made = KINDS[kind]
    check_arguments(kind, made, sizes)
    return made(**sizes)


def arguments(kind: str) -> tuple[str, ...]:
    """The names of the plain arguments of a kind of model."""
    checks.must(kind in KINDS, "kind", f"one of {', '.join(KINDS)}{nearest(kind, KINDS)}", repr(kind))
    return tuple(name for name in inspect.signature(KINDS[kind]).parameters if name not in STARTS)


def check_arguments(kind: str, made: Callable[..., object], given: Iterable[str]) -> None:
    """Check that arguments are those of a function, and all that it needs."""
    known = inspect.signature(made).parameters
    given = list(given)
    for name in given:
        rule = f"an argument of {kind}{nearest(name, known)}"
        checks.must(name in known, name, rule, "unknown")
    for name, parameter in known.items():
        needed = parameter.default is inspect.Parameter.empty
        checks.must(not needed or name in given, name, f"given for {kind}", "missing")


def nearest(word: object, known: Iterable[str]) -> str:
    """A hint at what may have been meant, or nothing."""
    found = difflib.get_close_matches(str(word), list(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""
