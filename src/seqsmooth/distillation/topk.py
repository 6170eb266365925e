"""`TopK`: a teacher's best tokens at each position."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqsmooth.distillation.vllm import read_vllm
from seqsmooth.ops import checks
from seqsmooth.ops.dispatch import widen
from seqsmooth.ops.soft_target import TAILS, SoftTarget, Tail


@dataclass(frozen=True, eq=False)
class TopK:
    """K tokens and their log-probabilities a position; minus infinity is padding, whatever its id.

    It unpacks into the two, so that `Teacher(*store)` and `SoftTarget.from_topk(*store)` take it.

    Examples:
        >>> store = TopK(torch.tensor([[4, 7]]), torch.tensor([[0.6, 0.3]]).log())
        >>> store.mass()
        tensor([0.9000])
    """

    ids: Tensor  # (..., K) int64, distinct at each position
    logprobs: Tensor  # (..., K)

    def __post_init__(self) -> None:
        SoftTarget.from_topk(self.ids, self.logprobs)  # which checks them

    def __iter__(self) -> Iterator[Tensor]:
        yield self.ids
        yield self.logprobs

    @property
    def listed(self) -> Tensor:  # (...) bool
        """Positions that the store knows anything of."""
        return (self.logprobs > -math.inf).any(-1)

    def mass(self) -> Tensor:  # (...)
        """Sum the listed probabilities; 1 less that is the tail."""
        return widen(self.logprobs).logsumexp(-1).exp()

    def part(self, positions: slice) -> TopK:
        """Some of the positions, along the second dimension: `part(slice(1, None))` goes with `logits[:, :-1]`."""
        checks.shape("ids", self.ids, None, None, None, letters="(B, T, K)")  # or else it would be some of the tokens
        checks.must(isinstance(positions, slice), "positions", "a slice, as slice(1, None)", repr(positions))
        return TopK(self.ids[:, positions], self.logprobs[:, positions])

    def tempered(self, temperature: float, *, vocab_size: int | None = None) -> TopK:
        """The teacher at another temperature: t^(1/T), made to sum to 1 again.

        Args:
            temperature: T.
            vocab_size: V, to share the tail evenly among the V - K other tokens, as `tail="uniform"` does; without it
                the list is taken for all there is.
        """
        temperature = min(max(checks.positive("temperature", temperature), 1e-30), 1e30)  # beyond, nothing changes
        if self.ids.shape[-1] == 0:
            return self
        logprobs = widen(self.logprobs)
        top = logprobs.amax(-1, keepdim=True).nan_to_num(neginf=0.0)  # so that the likeliest token stays, however cold
        scaled = (logprobs - top) / temperature
        total = scaled.logsumexp(-1, keepdim=True)
        if vocab_size is not None:
            self._check_vocabulary(vocab_size)
            others = (vocab_size - (logprobs > -math.inf).sum(-1, keepdim=True)).clamp_min(1)
            log_others = others.to(logprobs.dtype).log()
            share = torch.log1p(-self.mass().clamp(max=1).unsqueeze(-1)) - log_others
            total = torch.logaddexp(total, (share - top) / temperature + log_others)
        return TopK(self.ids, torch.where(scaled > -math.inf, scaled - total, -math.inf))

    def entropy(self, *, tail: Tail = "zero", vocab_size: int | None = None) -> Tensor:  # (...)
        """H(t) = - sum t ln t of the target that `SoftTarget.from_topk` makes: what cross entropy has above KL."""
        checks.one_of("tail", tail, TAILS)
        logprobs = widen(self.logprobs)
        used = logprobs > -math.inf
        if tail == "renormalise":
            logprobs = torch.where(used, logprobs - logprobs.logsumexp(-1, keepdim=True), -math.inf)
        entropy = -torch.where(used, logprobs.exp() * logprobs, 0).sum(-1)
        if tail != "uniform":
            return entropy
        checks.must(vocab_size is not None, "vocab_size", "given when `tail` is 'uniform'", None)
        assert vocab_size is not None
        self._check_vocabulary(vocab_size)
        rest = (1 - self.mass()).clamp_min(0) * self.listed  # of what is not listed nothing is known, and no tail made
        others = (vocab_size - used.sum(-1)).clamp_min(1)
        return entropy - torch.where(rest > 0, rest * (rest / others).clamp_min(1e-38).log(), 0)

    def _check_vocabulary(self, vocab_size: int) -> None:
        checks.at_least("vocab_size", vocab_size, 1)
        checks.ids_below("ids", self.ids, vocab_size, where=self.logprobs > -math.inf)

    @classmethod
    def from_vllm(
        cls, logprobs: Sequence[Iterable[Mapping[Any, Any] | None]], *, k: int | None = None, length: int | None = None
    ) -> TopK:
        """Read what vLLM returns as `prompt_logprobs` or `logprobs`, a list of positions for each sequence.

        A position is None or empty (the first of a prompt), or goes from token id to its `Logprob`; JSON of the server,
        where ids are strings ("5" or "token_id:5") and values dictionaries, will do, and so will `FlatLogprobs`. Entry
        t is about token t, which logits t - 1 predict. The prompt's own token is in the list even where it is not among
        the best.

        Args:
            logprobs: of a batch of sequences.
            k: keep so many, the most probable; all of them by default.
            length: T; that of the longest sequence by default. What is missing is padding.
        """
        return cls(*read_vllm(logprobs, k, length))

    @classmethod
    def from_distillkit(cls, signal: Any) -> TopK:
        """Read a DistillKit `SparseSignal`: `sparse_ids` and `sparse_values`, log-probabilities or logits of the K."""
        rule = "a SparseSignal, with `sparse_ids`, `sparse_values` and `log_values`"
        parts = [hasattr(signal, name) for name in ("sparse_ids", "sparse_values", "log_values")]
        checks.must(all(parts), "signal", rule, checks.describe(signal))
        ids, values = signal.sparse_ids, signal.sparse_values
        checks.integers("sparse_ids", ids)
        checks.floats("sparse_values", values)
        if not signal.log_values:
            wide = widen(values)  # padding stays padding, also where a position has nothing else
            values = torch.where(wide > -math.inf, wide - wide.logsumexp(-1, keepdim=True), wide)
        return cls(ids.long(), values)

    @classmethod
    def from_trl(cls, result: Mapping[str, Tensor]) -> TopK:
        """Read what TRL's distillation trainers pass on: `topk_token_ids` and `topk_logprobs`, both (B, T, K)."""
        checks.must(isinstance(result, Mapping), "result", "a dictionary", checks.describe(result))
        for name in ("topk_token_ids", "topk_logprobs"):
            checks.must(name in result, "result", f"a dictionary with {name!r}", f"one with {sorted(result)}")
        checks.integers("topk_token_ids", result["topk_token_ids"])
        return cls(result["topk_token_ids"].long(), result["topk_logprobs"])
