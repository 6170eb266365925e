"""The section `model` of a config, of each kind of model, read off the class itself."""

from __future__ import annotations

import inspect
from dataclasses import field, make_dataclass
from functools import cache
from typing import Any, Literal, get_type_hints

from seqsmooth.models.registry import MODELS

FROM_CORPUS = ("self", "vocab_size", "source_size", "feature_size", "source_pad")
"""Arguments of models that the corpus tells."""


@cache
def model_sections() -> dict[str, type]:
    """The section `model` of each kind: the arguments of the model's class by name; vectors to start from are files."""
    return {kind: _section(kind, built) for kind, built in MODELS.items()}


def _section(kind: str, built: type) -> type:
    made = inspect.signature(built.__init__)  # type: ignore[misc]
    hints = get_type_hints(built.__init__)  # type: ignore[misc]
    options: list[Any] = [
        (name, str | None if name.endswith("vectors") else hints[name], field(default=argument.default))
        for name, argument in made.parameters.items()
        if name not in FROM_CORPUS
    ]
    tag = ("kind", Literal[kind], field(default=kind))
    return make_dataclass(built.__name__, [*options, tag], frozen=True)
