"""Modules that can be built again from plain values."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from torch import nn

STARTS = ("vectors", "source_vectors")
"""Arguments that hold initial values of embeddings and are no part of a config."""


class Configurable(nn.Module):
    """A module that remembers the arguments of its constructor."""

    kind: ClassVar[str]
    """The name of the class in a config."""
    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the arguments, for `config`; a copy has none here and brings those of its original."""
        module = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind_partial(module, *args, **kwargs)
        bound.apply_defaults()
        plain = {name: value for name, value in bound.arguments.items() if name not in ("self", *STARTS)}
        object.__setattr__(module, "_arguments", plain)  # `nn.Module.__init__` has not run yet
        return module

    def config(self) -> dict[str, Any]:
        """The arguments as plain values for JSON and YAML, and the `kind` of the module.

        Initial values of embeddings are left out: a module that is built again gets its weights from a file.
        """
        return {"kind": self.kind, **self._arguments}
