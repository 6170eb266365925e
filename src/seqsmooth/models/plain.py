"""Modules that can be made again from plain values."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from torch import nn

STARTS = ("vectors", "source_vectors")
"""Arguments that are tensors: where embeddings start from."""


class Plain(nn.Module):
    """A module that knows the arguments it was made with."""

    kind: ClassVar[str]
    """The name that the function which builds such modules knows it by."""
    _arguments: dict[str, Any]

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Note the arguments, for `config`; a copy comes here without any, and brings the notes of its own."""
        module = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind_partial(module, *given, **named)
        bound.apply_defaults()
        noted = {name: value for name, value in bound.arguments.items() if name not in ("self", *STARTS)}
        object.__setattr__(module, "_arguments", noted)  # a module is not ready to be told anything yet
        return module

    def config(self) -> dict[str, Any]:
        """The arguments that make such a module: plain values, as JSON and YAML hold them, and its `kind`.

        The vectors that it started from are left out: whoever makes it again has better weights to load.
        """
        return {"kind": self.kind, **self._arguments}
