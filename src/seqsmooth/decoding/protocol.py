"""The interface between decoder and model, and operations on the rows of a model's memory and state."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from seqsmooth.ops import checks

Kept = TypeVar("Kept")


class Decodable(Protocol):
    """A `seqsmooth.models.Model`, an `Ensemble`, or anything else that reads inputs once and then token after token.

    Memory and state are tuples, of tensors with one row an item or of further such tuples.

    Examples:
        >>> class Echo:  # what follows a token is that token
        ...     def encode(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        ...         return inputs
        ...
        ...     def start(self, memory: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        ...         return memory
        ...
        ...     def step(self, memory: tuple[Tensor, ...], state: tuple[Tensor, ...], tokens: Tensor):
        ...         return torch.nn.functional.one_hot(tokens, 9).float(), state
        ...
        ...     def logits(self, hidden: Tensor) -> Tensor:
        ...         return 9 * hidden
        >>> import seqsmooth as ss
        >>> from seqsmooth.decoding import Greedy
        >>> rules = {"max_length": 3, "forbidden": ()}
        >>> Greedy(ss.Specials(bos=4, eos=2, pad=0), **rules)(Echo(), torch.zeros(1, 1)).tokens.tolist()
        [[[4, 4, 4]]]
    """

    def encode(
        self,
        *inputs: Tensor,  # (B, ...) each
    ) -> Any:
        """Read the inputs: the memory."""

    def start(self, memory: Any) -> Any:
        """The state before the first token."""

    def step(
        self,
        memory: Any,
        state: Any,
        tokens: Tensor,  # (B,) int64
    ) -> tuple[Tensor, Any]:  # (B, D)
        """The hidden state after one more token, and the state."""

    def logits(
        self,
        hidden: Tensor,  # (..., D)
    ) -> Tensor:  # (..., V)
        """The scores of the next token."""


def evaluating(model: Decodable) -> None:
    """Check that the model is in evaluation mode."""
    rule = "in evaluation mode (`model.eval()`)"
    checks.must(not getattr(model, "training", False), "model", rule, "in training mode")


def items(kept: Any) -> int:
    """Count the rows of a memory or state."""
    return kept.shape[0] if isinstance(kept, Tensor) else items(kept[0])


def device(kept: Any) -> torch.device:
    """Return the device of a memory or state."""
    return kept.device if isinstance(kept, Tensor) else device(kept[0])


def repeat(kept: Kept, times: int) -> Kept:
    """Each row of a memory or state `times` times in a row."""
    if times == 1:
        return kept
    return _each(kept, lambda part: part.unsqueeze(1).expand(-1, times, *part.shape[1:]).flatten(0, 1))


def select(
    kept: Kept,
    rows: Tensor,  # (N,) int64
) -> Kept:
    """Some rows of a memory or state."""
    return _each(kept, lambda part: part.index_select(0, rows))


def _each(kept: Kept, change: Any) -> Kept:
    if isinstance(kept, Tensor):
        return cast(Kept, change(kept))
    assert isinstance(kept, tuple)
    parts = [_each(part, change) for part in kept]
    return type(kept)(*parts) if hasattr(kept, "_fields") else cast(Kept, tuple(parts))
