"""`WithReferences`: a collator that brings the references of the items along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED


class WithReferences:
    """A collator around another: takes the references out of the features and adds them, padded, to the batch.

    Set `remove_unused_columns=False`, or the Trainer drops the column before it gets here.

    Args:
        collator: makes the rest of the batch.
        column: the name of the column: for each item a list of sequences of ids, [] where there are none.

    Examples:
        >>> collate = WithReferences(lambda features: {"labels": torch.zeros(len(features), 2)})
        >>> batch = collate([{"references": [[5, 6], [7]]}, {"references": [[8]]}])
        >>> batch["references"].tolist()
        [[[5, 6], [7, -100]], [[8, -100], [-100, -100]]]
    """

    def __init__(self, collator: Callable[[list[dict[str, Any]]], Any], column: str = "references") -> None:
        checks.must(callable(collator), "collator", "callable", checks.describe(collator))
        self.collator = collator
        self.column = column

    def __call__(self, features: list[dict[str, Any]]) -> Any:
        """A batch with `references` (B, R, S), filled up with -100."""
        way_out = "set remove_unused_columns=False in the arguments, or the Trainer drops it before the collator"
        complete = all(self.column in feature for feature in features)
        checks.require(complete, f"An item has no column {self.column!r}; {way_out}.")
        lists = [self._sequences(feature[self.column]) for feature in features]
        others = [{name: feature[name] for name in feature if name != self.column} for feature in features]
        batch = self.collator(others)
        # At least one row of padding, so a batch of items without references is like any other.
        count = max([1, *map(len, lists)])
        longest = max([1, *(len(reference) for item in lists for reference in item)])
        padded = torch.full((len(lists), count, longest), IGNORED)
        for row, item in enumerate(lists):
            for place, reference in enumerate(item):
                padded[row, place, : len(reference)] = reference
        batch["references"] = padded
        return batch

    def _sequences(self, item: Any) -> list[Tensor]:
        """The references of an item as tensors, (S,) each."""
        try:
            checks.must(not isinstance(item, str), self.column, "ids", item)
            references = [torch.as_tensor(reference) for reference in item]
            for reference in references:
                checks.shape(self.column, reference, None, letters="(S,)")
                if len(reference):  # torch makes floats of an empty list
                    checks.integers(self.column, reference)
        except (RuntimeError, TypeError, ValueError):
            rule = "a list of sequences of token ids, [] if it has none"
            raise ValueError(f"The {self.column!r} of an item must be {rule}, but are {item!r}.") from None
        return references
