"""The section `model` of a config, of each kind of model, read off the class itself."""

from __future__ import annotations

import inspect
from dataclasses import field, fields, is_dataclass, make_dataclass, replace
from functools import cache, reduce
from operator import or_
from typing import Any, Literal, get_type_hints

from seqsmooth.models import Captioner
from seqsmooth.models.registry import ENCODERS, MODELS

FROM_CORPUS = ("self", "vocab_size", "source_size", "feature_size", "source_pad")
"""Arguments of models that the corpus tells."""
DECODERS = ("show_tell", "top_down")
"""Kinds of models that write from what an encoder sees."""


@cache
def model_sections() -> dict[str, type]:
    """The section `model` of each kind: the arguments of the model's class by name; vectors to start from are files."""
    made = {kind: _section(kind, built) for kind, built in MODELS.items()}
    # Cached features are no encoder here: a decoder alone reads them.
    encoders = [_section(kind, built) for kind, built in ENCODERS.items() if kind != "cached"]
    parts = {"encoder": reduce(or_, encoders), "decoder": reduce(or_, [made[kind] for kind in DECODERS])}
    return made | {Captioner.kind: _section(Captioner.kind, Captioner, parts)}


def without_starts(section: Any) -> Any:
    """A model's section without what only tells where its weights begin, for weights that will be loaded."""
    changes: dict[str, Any] = {}
    for item in fields(section):
        value = getattr(section, item.name)
        if is_dataclass(value):
            changes[item.name] = without_starts(value)
        elif item.name.endswith("vectors"):
            changes[item.name] = None
        elif item.name == "pretrained":
            changes[item.name] = False
    return replace(section, **changes)


def _section(kind: str, built: type, parts: dict[str, Any] | None = None) -> type:
    made = inspect.signature(built.__init__)  # type: ignore[misc]
    hints = get_type_hints(built.__init__) | (parts or {})  # type: ignore[misc]
    needed: list[Any] = []
    options: list[Any] = []
    for name, argument in made.parameters.items():
        if name in FROM_CORPUS:
            continue
        hint = str | None if name.endswith("vectors") else hints[name]
        if argument.default is inspect.Parameter.empty:
            needed.append((name, hint))
        else:
            options.append((name, hint, field(default=argument.default)))
    tag = ("kind", Literal[kind], field(default=kind))
    return make_dataclass(built.__name__, [*needed, *options, tag], frozen=True)
