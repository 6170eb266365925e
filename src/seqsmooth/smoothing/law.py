"""What sequence laws and token laws have in common: a share, and a name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import nn

from seqsmooth.ops import checks


class Law(nn.Module, ABC):
    """A way to smooth, of which a share `alpha` is taken; the rest stays where it was."""

    name: ClassVar[str]

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = checks.fraction("alpha", alpha)

    @property
    def vocab_size(self) -> int | None:
        """V, if the law knows it."""
        return None

    @abstractmethod
    def options(self) -> dict[str, object]:
        """Every choice that changes the loss, by name."""

    def signature(self) -> str:
        """One line that tells this law from any other."""
        return "|".join([self.name, *(f"{name}:{text(value)}" for name, value in self.options().items())])

    def extra_repr(self) -> str:
        """The choices, for `repr`."""
        return ", ".join(f"{name}={text(value)}" for name, value in self.options().items())


def text(value: object) -> str:
    """A choice in words: short numbers, laws and rewards in brackets."""
    if isinstance(value, float):
        return f"{value:g}"
    described = getattr(value, "signature", None)
    if callable(described):
        return f"({described()})"
    return str(getattr(value, "__name__", value))
