"""One batch: the input of a training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from seqsmooth.ops import checks


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs, the targets to learn, and what is known beside them.

    A batch may be filled up with rows whose targets are all PAD: their inputs are those of some other row, and they
    contribute nothing to a loss.

    Attributes:
        inputs: what the model's `encode` takes: a row a target; of pictures one row for all targets of an item, which
            follow each other, for a CNN need not see a picture five times.
        targets: without BOS, with EOS, PAD after it.
        references: all that people wrote for each item, the target first; a row of PAD where there are fewer.
        tokens: the number of tokens of the targets of the whole batch, that of all ranks together; a loss takes it as
            `num_items`.
        items: the row of each item in its split, -1 where the batch was filled up.

    Examples:
        >>> targets = torch.tensor([[4, 5, 2], [6, 2, 0]])
        >>> batch = Batch((torch.randn(2, 8),), targets, references=targets[:, None])
        >>> batch.to(torch.device("cpu")).references.shape
        torch.Size([2, 1, 3])
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor  # (B, T) int64
    references: Tensor | None = None  # (B, R, S) int64
    tokens: Tensor | None = None  # () int64
    items: Tensor | None = None  # (B,) int64

    def __post_init__(self) -> None:
        rule = "a tuple of tensors, as in Batch((features,), targets)"
        checks.must(isinstance(self.inputs, (tuple, list)), "inputs", rule, checks.describe(self.inputs))

    def tensors(self) -> dict[str, Tensor]:
        """Map names to tensors."""
        named = {f"inputs[{number}]": value for number, value in enumerate(self.inputs)} | {"targets": self.targets}
        beside = {"references": self.references, "tokens": self.tokens, "items": self.items}
        return named | {name: value for name, value in beside.items() if value is not None}

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Apply a function to every tensor."""
        beside = (self.references, self.tokens, self.items)
        changed = (None if value is None else change(value) for value in beside)
        return Batch(tuple(change(value) for value in self.inputs), change(self.targets), *changed)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """Copy the batch to a device."""
        return self.map(lambda value: value.to(device, non_blocking=non_blocking))

    def clone(self) -> Batch:
        """Copy the batch into memory of its own."""
        return self.map(torch.clone)

    def pin_memory(self) -> Batch:
        """Copy the batch into memory that a GPU can read while the host goes on."""
        return self.map(lambda value: value.pin_memory())
