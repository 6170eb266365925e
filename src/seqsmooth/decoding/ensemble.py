"""Ensembles: several models that decode as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks

Mean = Literal["probabilities", "log-probabilities"]
MEANS: tuple[Mean, ...] = ("probabilities", "log-probabilities")


class Ensemble(nn.Module):
    """Models of one vocabulary that write together: at each step, the mean of what they say.

    It offers what a model does, `encode`, `start`, `decode`, `step` and `logits`, so every decoder works with it, also
    if a member is an ensemble. A hidden state is the hidden states of the members one behind the other.

    Args:
        members: the models.
        mean: of "probabilities", a mixture; or of "log-probabilities", their geometric mean, which the logits are up to
            a constant.
        reads: for each member, which of the inputs it reads, as in [(0,), (1, 2)]; by default all read all.

    Examples:
        >>> from seqsmooth.models import ShowTell
        >>> sizes = {"vocab_size": 50, "feature_size": 8, "embedding_size": 8}
        >>> one, two = (ShowTell(**sizes, units=units).eval() for units in (8, 12))
        >>> both = Ensemble([one, two])
        >>> memory = both.encode(torch.randn(3, 8))
        >>> hidden, _ = both.step(memory, both.start(memory), torch.tensor([1, 1, 1]))
        >>> hidden.shape, both.logits(hidden).shape  # states side by side; one law
        (torch.Size([3, 20]), torch.Size([3, 50]))
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        mean: Mean = "probabilities",
        *,
        reads: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        checks.must(isinstance(members, Iterable), "members", "a list of models", checks.describe(members))
        members = list(members)
        checks.must(len(members) > 0, "members", "one or more", "none")
        for member in members:
            offers = (
                "encode",
                "start",
                "decode",
                "step",
                "logits",
                *(() if isinstance(member, Ensemble) else ("head",)),
            )
            lacking = [name for name in offers if not hasattr(member, name)]
            checks.must(not lacking, "members", "models", f"{checks.describe(member)} without `{'`, `'.join(lacking)}`")
        sizes = [_size(member) for member in members]
        checks.must(len(set(sizes)) == 1, "members", "of one vocabulary", f"of {sizes} tokens")
        checks.one_of("mean", mean, MEANS)
        if reads is not None:
            rule = f"one entry for each of the {len(members)} members"
            checks.must(len(reads) == len(members), "reads", rule, len(reads))
        self.members = nn.ModuleList(members)
        self.vocab_size: int = sizes[0]
        self.mean: Mean = mean
        self.reads = None if reads is None else [tuple(read) for read in reads]
        self.widths = [_width(member) for member in members]
        self.training = any(member.training for member in members)

    def encode(
        self,
        *inputs: Tensor,  # (B, ...) each
    ) -> tuple[Any, ...]:
        """Each member reads its inputs."""
        reads = self.reads or [tuple(range(len(inputs)))] * len(self.members)
        deepest = max((number for read in reads for number in read), default=-1)
        checks.must(deepest < len(inputs), "inputs", f"{deepest + 1} or more", len(inputs))
        return tuple(
            member.encode(*(inputs[number] for number in read))  # type: ignore[operator]
            for member, read in zip(self.members, reads, strict=True)
        )

    def start(self, memory: tuple[Any, ...]) -> tuple[Any, ...]:
        """The states before the first token."""
        return tuple(member.start(part) for member, part in zip(self.members, memory, strict=True))  # type: ignore[operator]

    def decode(
        self,
        memory: tuple[Any, ...],
        tokens: Tensor,  # (B, T)
    ) -> Tensor:  # (B, T, sum of D)
        """The hidden states after each of the tokens."""
        pairs = zip(self.members, memory, strict=True)
        return torch.cat([member.decode(part, tokens) for member, part in pairs], -1)  # type: ignore[operator]

    def step(
        self,
        memory: tuple[Any, ...],
        state: tuple[Any, ...],
        tokens: Tensor,  # (B,)
    ) -> tuple[Tensor, tuple[Any, ...]]:  # (B, sum of D)
        """The hidden states after one more token."""
        triples = zip(self.members, memory, state, strict=True)
        steps = [member.step(part, before, tokens) for member, part, before in triples]  # type: ignore[operator]
        hidden, after = zip(*steps, strict=True)
        return torch.cat(hidden, -1), after

    def logits(
        self,
        hidden: Tensor,  # (..., sum of D)
    ) -> Tensor:  # (..., V)
        """The logarithm of the mean, or the mean of the logarithms."""
        pairs = zip(self.members, torch.split(hidden, self.widths, -1), strict=True)
        spoken = torch.stack([_log_softmax(member.logits(part)) for member, part in pairs])  # type: ignore[operator]
        if self.mean == "log-probabilities":
            return spoken.mean(0)
        return spoken.logsumexp(0) - math.log(len(spoken))


def _log_softmax(
    logits: Tensor,  # (..., V)
) -> Tensor:  # (..., V)
    return logits.log_softmax(-1, dtype=torch.float64 if logits.dtype == torch.float64 else torch.float32)


def _size(member: Any) -> int:
    return member.vocab_size if isinstance(member, Ensemble) else int(member.head.weight.shape[0])


def _width(member: Any) -> int:
    return sum(member.widths) if isinstance(member, Ensemble) else int(member.head.weight.shape[1])
