"""Samples decoded on their own prefixes: rows added to a batch, and references brought along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.smoothing.records import Candidates


class WithReferences:
    """A collator around another: takes the references out of the features and adds them, padded, to the batch.

    Set `remove_unused_columns=False`, or the Trainer drops the column before it gets here.

    Args:
        collator: makes the rest of the batch.
        column: the name of the column: for each item a list of sequences of ids.

    Examples:
        >>> collate = WithReferences(lambda features: {"labels": torch.zeros(len(features), 2)})
        >>> batch = collate([{"references": [[5, 6], [7]]}, {"references": [[8]]}])
        >>> batch["references"].tolist()
        [[[5, 6], [7, -100]], [[8, -100], [-100, -100]]]
    """

    def __init__(self, collator: Callable[[list[dict[str, Any]]], Any], column: str = "references") -> None:
        self.collator = collator
        self.column = column

    def __call__(self, features: list[dict[str, Any]]) -> Any:
        """A batch with `references` (B, R, S), filled up with -100."""
        there = all(self.column in feature for feature in features)
        rule = f"in every item, as {self.column!r} (set remove_unused_columns=False)"
        checks.must(there, "references", rule, "missing")
        batch = self.collator(
            [{name: feature[name] for name in feature if name != self.column} for feature in features]
        )
        lists = [feature[self.column] for feature in features]
        most = max(len(item) for item in lists)
        longest = max((len(one) for item in lists for one in item), default=0)
        padded = torch.full((len(lists), most, longest), -100)
        for row, item in enumerate(lists):
            for place, one in enumerate(item):
                padded[row, place, : len(one)] = torch.as_tensor(one)
        batch["references"] = padded
        return batch


def repeated(inputs: dict[str, Any], candidates: Candidates, start: int) -> dict[str, Any]:
    """Inputs with a row for each candidate: its own prefix for the decoder, the rest the same for all of an item."""
    batch, count = candidates.sequences.shape[:2]
    rows = {
        name: value.repeat_interleave(count, 0)
        for name, value in inputs.items()
        if isinstance(value, Tensor) and value.shape[:1] == (batch,) and not name.startswith("decoder_")
    }
    whole = {name: value for name, value in inputs.items() if name not in rows and not name.startswith("decoder_")}
    return {**whole, **rows, "decoder_input_ids": candidates.shifted(start).flatten(0, 1)}


def start_of(model: nn.Module) -> int:
    """The token that the decoder of a model starts from."""
    config: Any = model.config
    start = config.decoder_start_token_id
    checks.must(isinstance(start, int), "config.decoder_start_token_id", "given", start)
    assert isinstance(start, int)
    return start
