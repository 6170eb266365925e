"""What vLLM returns of a teacher's tokens: ids and log-probabilities of lists of positions."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops import checks


def read_vllm(
    logprobs: Sequence[Iterable[Mapping[Any, Any] | None]], k: int | None, length: int | None
) -> tuple[Tensor, Tensor]:  # (B, T, K) int64, (B, T, K)
    """Read lists of positions, one list a sequence, as `TopK.from_vllm` describes them."""
    if k is not None:
        checks.at_least("k", k, 1)
    rows = [[_entries(position, k) for position in _check_list(sequence)] for sequence in _check_list(logprobs)]
    steps = max((len(row) for row in rows), default=0) if length is None else checks.at_least("length", length, 0)
    width = max((len(entries) for row in rows for entries in row), default=0)
    ids = torch.zeros(len(rows), steps, width, dtype=torch.long)
    values = torch.full(ids.shape, -math.inf)
    for place, row in enumerate(rows):
        checks.must(len(row) <= steps, "length", f"{len(row)} or more, as a sequence has", steps)
        for step, entries in enumerate(row):
            if entries:
                ids[place, step, : len(entries)] = torch.tensor([token for token, _ in entries])
                values[place, step, : len(entries)] = torch.tensor([value for _, value in entries])
    return ids, values


def _check_list(value: Any) -> Iterable[Any]:
    """Check a batch, or the positions of a sequence."""
    rule = (
        "a list of positions for each sequence (in a list of its own where it is one; `prompt_logprobs=k` asks for it)"
    )
    checks.must(
        isinstance(value, Iterable) and not isinstance(value, (str, Mapping)), "logprobs", rule, checks.describe(value)
    )
    return value  # type: ignore[no-any-return]


def _entries(position: Mapping[Any, Any] | None, k: int | None) -> list[tuple[int, float]]:
    """Sort the token ids and log-probabilities of a position, the most probable first."""
    if position is None:
        return []
    rule = "from token ids to numbers, or None, at every position"
    checks.must(isinstance(position, Mapping), "logprobs", rule, checks.describe(position))
    entries = [(_token(token), _number(value)) for token, value in position.items()]
    return sorted(entries, key=lambda entry: -entry[1])[:k]


def _token(key: Any) -> int:
    try:
        return int(key.removeprefix("token_id:")) if isinstance(key, str) else operator.index(key)
    except (TypeError, ValueError):
        rule = "of token ids (the server gives them with return_tokens_as_token_ids)"
        raise checks.wrong("logprobs", rule, repr(key)) from None


def _number(value: Any) -> float:
    logprob: Any = value.get("logprob") if isinstance(value, Mapping) else getattr(value, "logprob", value)
    try:
        return float(logprob)
    except (TypeError, ValueError):
        raise checks.wrong("logprobs", "a number, or something with a `logprob`, for each token", repr(value)) from None
