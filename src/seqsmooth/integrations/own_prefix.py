"""Samples decoded on their own prefixes: rows added to a batch, and references brought along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Objective
from seqsmooth.smoothing.records import Candidates


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
        checks.must(callable(collator), "collator", "callable", checks.described(collator))
        self.collator = collator
        self.column = column

    def __call__(self, features: list[dict[str, Any]]) -> Any:
        """A batch with `references` (B, R, S), filled up with -100."""
        there = all(self.column in feature for feature in features)
        rule = f"in every item, as {self.column!r} (set remove_unused_columns=False)"
        checks.must(there, "references", rule, "missing")
        others = [{name: feature[name] for name in feature if name != self.column} for feature in features]
        batch = self.collator(others)
        lists = [_sequences(self.column, feature[self.column]) for feature in features]
        # At least a row of padding, so that a batch of items without references is like any other.
        most = max([1, *map(len, lists)])
        longest = max([1, *(len(one) for item in lists for one in item)])
        padded = torch.full((len(lists), most, longest), IGNORED)
        for row, item in enumerate(lists):
            for place, one in enumerate(item):
                padded[row, place, : len(one)] = one
        batch["references"] = padded
        return batch


def _sequences(column: str, item: Any) -> list[Tensor]:
    """The references of an item as tensors, (S,) each."""
    try:
        checks.must(not isinstance(item, str), column, "ids", item)
        found = [torch.as_tensor(one) for one in item]
        for one in found:
            checks.shape(column, one, None, letters="(S,)")
            if len(one):  # an empty list is of floats, for all that torch knows
                checks.integers(column, one)
    except (RuntimeError, TypeError, ValueError):
        rule = "a list of sequences of ids, not of words, in every item ([] where there are none)"
        raise checks.wrong(column, rule, repr(item)) from None
    return found


@dataclass(frozen=True, eq=False)
class Rows:
    """What a model is to read, a row for each candidate, and where in its rows the candidates' positions are."""

    candidates: Candidates
    inputs: dict[str, Any]
    starts: Tensor | None = None  # (B, 1) position of the first prediction of an item; None: the first of all

    def states(
        self,
        hidden: Tensor,  # (B K', S, D)
    ) -> Tensor:  # (B, K', T, D)
        """The hidden states of the candidates' positions."""
        batch, count, steps = self.candidates.sequences.shape
        wide = hidden.view(batch, count, -1, hidden.shape[-1])
        if self.starts is None:
            return wide
        places = torch.arange(steps, device=hidden.device) + self.starts  # (B, T)
        places = places.clamp_max(wide.shape[2] - 1)  # beyond the end, where nothing is predicted
        return wide.gather(2, places[:, None, :, None].expand(-1, count, -1, wide.shape[-1]))


def encoder_decoder_rows(
    objective: Objective,
    inputs: dict[str, Any],
    labels: Tensor,  # (B, T)
    references: Tensor | None,  # (B, R, S)
    start: int,
) -> Rows:
    """Rows of an encoder-decoder: each candidate's prefix for the decoder, the rest the same for all of an item."""
    candidates = objective.propose(labels, references=references)
    count = candidates.sequences.shape[1]
    if count == 1:
        return Rows(candidates, inputs)
    kept = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    read = candidates.shifted(start).flatten(0, 1)
    return Rows(candidates, {**_repeated(kept, len(labels), count), "decoder_input_ids": read})


def causal_rows(
    objective: Objective,
    inputs: dict[str, Any],
    targets: Tensor,  # (B, T) what is to be predicted after each position
    references: Tensor | None,  # (B, R, S)
) -> Rows:
    """Rows of a causal model: each candidate after the prompt of its item.

    An objective wants sequences that begin at the first position. So answers are moved there, and their samples back to
    where their prompts end.
    """
    rule = "in the batch where samples are decoded on their own prefixes (inputs_embeds would be those of the truth)"
    checks.must(inputs.get("input_ids") is not None, "input_ids", rule, None)
    starts = (targets != IGNORED).long().argmax(1, keepdim=True)
    steps = targets.shape[1]
    places = torch.arange(steps, device=targets.device) + starts
    answers = targets.gather(1, places.clamp_max(steps - 1)).masked_fill(places >= steps, IGNORED)
    candidates = objective.propose(answers, references=references)
    count, longest = candidates.sequences.shape[1:]
    rows = _repeated(inputs, len(targets), count)
    since = torch.arange(longest, device=targets.device) - starts - 1  # (B, T') tokens of the answer read before
    since = since.unsqueeze(1).expand(-1, count, -1)
    read = candidates.sequences.gather(2, since.clamp_min(0))
    begun = starts.unsqueeze(1).expand(-1, count, -1)
    # An edited sample may be longer than its answer: it goes on where padding was, and beyond.
    changes: dict[str, Callable[[Tensor], Tensor]] = {  # (B, K', T') each
        "input_ids": lambda before: read,
        "attention_mask": torch.ones_like,
        "position_ids": lambda before: before.gather(2, begun) + 1 + since,
        "token_type_ids": lambda before: before.gather(2, (begun + 1).clamp_max(steps - 1)).expand_as(before),
    }
    rule = "of shape (B, S) where samples are decoded on their own prefixes (without it, models make their own)"
    for name, change in changes.items():
        given = inputs.get(name)
        if given is not None:
            checks.must(given.shape == targets.shape, name, rule, tuple(given.shape))
            before = F.pad(rows[name], (0, longest - steps)).view(read.shape)
            rows[name] = torch.where(since < 0, before, change(before)).flatten(0, 1)
    return Rows(candidates, rows, starts)


def start_of(model: nn.Module) -> int:
    """The token that the decoder of a model starts from."""
    config: Any = model.config
    start = config.decoder_start_token_id
    checks.must(isinstance(start, int), "config.decoder_start_token_id", "given", start)
    assert isinstance(start, int)
    return start


def _repeated(inputs: dict[str, Any], batch: int, count: int) -> dict[str, Any]:
    def spread(value: Any) -> Any:
        rows = isinstance(value, Tensor) and value.shape[:1] == (batch,)
        return value.repeat_interleave(count, 0) if rows else value

    return {name: spread(value) for name, value in inputs.items()}
