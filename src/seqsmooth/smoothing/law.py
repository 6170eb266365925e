"""The base of all laws: a share, a name, one vocabulary, and tables that keep their precision."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks

if TYPE_CHECKING:
    from seqsmooth.smoothing.records import Setting


class Precise(nn.Module):
    """A module whose tables move with `.to(device)` but are not rounded by `.half()` or `.to(torch.bfloat16)`.

    A model that owns an objective may be converted to half precision; its targets must not be.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def moved(value: Tensor) -> Tensor:
            result = fn(value)
            return result if result.dtype == value.dtype else value.to(result.device)

        return super()._apply(moved, recurse)  # type: ignore[no-untyped-call,no-any-return]


class Tables(Precise):
    """The tables that a law prepares for an objective; their tensors move with it."""


class Law(Precise, ABC):
    """A way to smooth, of which a share `alpha` is taken; the rest stays where it was."""

    name: ClassVar[str]
    alpha: float

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "alpha":
            value = checks.fraction("alpha", value)
        super().__setattr__(name, value)

    @property
    def vocab_size(self) -> int | None:
        """V, if the law knows it."""
        return None

    @abstractmethod
    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """Every choice that changes the loss, by name, with the defaults of the setting if it is given."""

    def prepare(self, setting: Setting) -> Tables | None:
        """Compute what can be computed once for an objective; the law finds it in the setting afterwards.

        Refuses a setting that the law cannot work in.
        """
        return None

    def signature(self, setting: Setting | None = None) -> str:
        """One line that tells this law from any other."""
        return "|".join([self.name, *(f"{name}:{text(value)}" for name, value in self.options(setting).items())])

    def remark(self, setting: Setting) -> str:
        """A note that `repr` of an objective adds to the choices of the law."""
        return ""

    def extra_repr(self) -> str:
        """The choices, for `repr`."""
        return ", ".join(f"{name}={text(value)}" for name, value in self.options().items())


def agreed_vocab_size(vocab_size: int | None, *laws: Law) -> int | None:
    """V, from the user or from a law; they must agree where both know it."""
    if vocab_size is not None:
        checks.at_least("vocab_size", vocab_size, 1)
    for law in laws:
        known = law.vocab_size
        same = known is None or vocab_size in (None, known)
        checks.must(same, "vocab_size", f"that of {type(law).__name__}, {known}", vocab_size)
        vocab_size = known if vocab_size is None else vocab_size
    return vocab_size


def text(value: object) -> str:
    """A choice in words: tensors by checksum, laws and rewards in brackets."""
    if isinstance(value, Tensor):
        return checksum(value)
    described: Any = getattr(value, "signature", None)
    if callable(described):
        return f"({described()})"
    return str(getattr(value, "__name__", value))


def checksum(*values: Tensor) -> str:
    """Eight digits that tell tensors apart."""
    total = 0
    for value in values:
        plain = value.detach().cpu()
        wide = plain.double() if plain.is_floating_point() else plain.to(torch.int64)
        total = zlib.crc32(wide.numpy().tobytes(), total)
    return f"{total:08x}"
