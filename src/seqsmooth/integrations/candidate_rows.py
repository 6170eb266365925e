"""The rows of a batch in which a model reads every candidate on its own prefix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import IGNORED
from seqsmooth.smoothing import Candidates, Objective


@dataclass(frozen=True, eq=False)
class CandidateRows:
    """Inputs with one row for each candidate, and where in these rows the candidates begin."""

    candidates: Candidates
    inputs: dict[str, Any]
    starts: Tensor | None = None  # (B, 1) position of an item's first prediction; None: 0

    def states(
        self,
        hidden: Tensor,  # (B K', S, D)
    ) -> Tensor:  # (B, K', T, D)
        """The hidden states at the candidates' positions."""
        batch, count, steps = self.candidates.sequences.shape
        wide = hidden.view(batch, count, -1, hidden.shape[-1])
        if self.starts is None:
            return wide
        places = torch.arange(steps, device=hidden.device) + self.starts  # (B, T)
        places = places.clamp_max(wide.shape[2] - 1)  # beyond the end nothing is predicted
        return wide.gather(2, places[:, None, :, None].expand(-1, count, -1, wide.shape[-1]))


def encoder_decoder_rows(
    objective: Objective,
    inputs: dict[str, Any],
    labels: Tensor,  # (B, T)
    references: Tensor | None,  # (B, R, S)
    start: int,
) -> CandidateRows:
    """Rows for an encoder-decoder: the decoder reads each candidate's prefix, the encoder the item's source."""
    candidates = objective.propose(labels, references=references)
    count = candidates.sequences.shape[1]
    if count == 1:
        return CandidateRows(candidates, inputs)
    source = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    prefixes = candidates.shifted(start).flatten(0, 1)
    return CandidateRows(candidates, {**_repeat(source, len(labels), count), "decoder_input_ids": prefixes})


def causal_rows(
    objective: Objective,
    inputs: dict[str, Any],
    targets: Tensor,  # (B, T) what is to be predicted after each position
    references: Tensor | None,  # (B, R, S)
) -> CandidateRows:
    """Rows for a causal model: each candidate after the prompt of its item.

    An objective wants sequences that begin at the first position. So answers are moved there, and their samples back to
    where the prompts end.
    """
    reason = "lazy=False puts the tokens of samples there; with inputs_embeds the model would read the ground truth"
    checks.require(inputs.get("input_ids") is not None, f"The batch has no `input_ids`: {reason}.")
    starts = (targets != IGNORED).long().argmax(1, keepdim=True)
    steps = targets.shape[1]
    places = torch.arange(steps, device=targets.device) + starts
    answers = targets.gather(1, places.clamp_max(steps - 1)).masked_fill(places >= steps, IGNORED)
    candidates = objective.propose(answers, references=references)
    count, longest = candidates.sequences.shape[1:]
    rows = _repeat(inputs, len(targets), count)
    since = torch.arange(longest, device=targets.device) - starts - 1  # (B, T') place in the answer; < 0: in the prompt
    since = since.unsqueeze(1).expand(-1, count, -1)
    tokens = candidates.sequences.gather(2, since.clamp_min(0))
    ends = starts.unsqueeze(1).expand(-1, count, -1)  # last position of the prompt
    # An edited sample may be longer than its answer: it goes on where padding was, and beyond.
    answer_values: dict[str, Callable[[Tensor], Tensor]] = {  # (B, K', T') each
        "input_ids": lambda prompt: tokens,
        "attention_mask": torch.ones_like,
        "position_ids": lambda prompt: prompt.gather(2, ends) + 1 + since,
        "token_type_ids": lambda prompt: prompt.gather(2, (ends + 1).clamp_max(steps - 1)).expand_as(prompt),
    }
    for name, answer_value in answer_values.items():
        value = inputs.get(name)
        if value is None:
            continue
        way_out = f"lazy=False needs (B, S) = {tuple(targets.shape)} (without it, the model makes its own)"
        checks.require(value.shape == targets.shape, f"`{name}` has shape {tuple(value.shape)}; {way_out}.")
        prompt = F.pad(rows[name], (0, longest - steps)).view(tokens.shape)
        rows[name] = torch.where(since < 0, prompt, answer_value(prompt)).flatten(0, 1)
    return CandidateRows(candidates, rows, starts)


def start_token(model: nn.Module) -> int:
    """The token from which the decoder of a model starts."""
    config: Any = model.config
    start = config.decoder_start_token_id
    checks.require(isinstance(start, int), "The model's config has no `decoder_start_token_id`; set it.")
    return int(start)


def _repeat(inputs: dict[str, Any], batch: int, count: int) -> dict[str, Any]:
    """Inputs with each row `count` times."""

    def repeat_rows(value: Any) -> Any:
        has_rows = isinstance(value, Tensor) and value.shape[:1] == (batch,)
        return value.repeat_interleave(count, 0) if has_rows else value

    return {name: repeat_rows(value) for name, value in inputs.items()}
