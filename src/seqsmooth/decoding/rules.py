"""The rules of decoding: what may be written, and how hypotheses of different lengths compare."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.smoothing.specials import NAMES, Name, Specials

Normalisation = Literal["none", "mean", "gnmt"]
NORMALISATIONS: tuple[Normalisation, ...] = ("none", "mean", "gnmt")


@dataclass(frozen=True)
class Rules:
    """The rules that every decoder obeys.

    A hypothesis that ended was scored with its EOS; one that was cut at `max_length` has none. So the length by which a
    score is normalised counts predictions: the words, and EOS where it was written.

    What is forbidden is never written, but keeps its probability: a reported log-probability is the model's own, as
    teacher forcing gives it.

    Args:
        specials: BOS and EOS at least.
        max_length: the most predictions, EOS among them; what has not ended by then is cut.
        min_length: the fewest words, EOS not among them.
        forbidden: names of special tokens, or ids, that are never written.
        length: what divides a log-probability to make it a score: nothing ("none"), its length ("mean"), or
            ((5 + length) / 6) ** alpha ("gnmt", Wu et al. 2016).
        alpha: of "gnmt".
        no_repeat: n-grams of this size are written once a hypothesis; 0 for no such rule.
        check_every: after so many steps the host asks whether all is done, and waits for the device; 0 for never, as a
            CUDA graph needs it. The results are the same.

    Examples:
        >>> rules = Rules(Specials(pad=0, bos=1, eos=2, unk=3), max_length=16, length="gnmt", alpha=1.0)
        >>> rules.barred, rules.penalty(torch.tensor([1.0, 7.0]))  # never written; (5 + length) / 6
        ((0, 1, 3), tensor([1., 2.]))
    """

    specials: Specials
    max_length: int
    _: KW_ONLY
    min_length: int = 0
    forbidden: tuple[Name | int, ...] = ("pad", "bos", "unk")
    length: Normalisation = "mean"
    alpha: float = 0.6
    no_repeat: int = 0
    check_every: int = 4

    def __post_init__(self) -> None:
        checks.must(isinstance(self.specials, Specials), "specials", "a Specials", checks.describe(self.specials))
        for name in ("bos", "eos"):
            given = getattr(self.specials, name)
            checks.must(given is not None, f"specials.{name}", "given, for a hypothesis has both ends", None)
        checks.at_least("max_length", self.max_length, 1)
        checks.at_least("min_length", self.min_length, 0)
        rule = f"at most `max_length`, {self.max_length}"
        checks.must(self.min_length <= self.max_length, "min_length", rule, self.min_length)
        checks.must(isinstance(self.forbidden, (tuple, list)), "forbidden", "a tuple", repr(self.forbidden))
        object.__setattr__(self, "forbidden", tuple(self.forbidden))
        for token in self.forbidden:
            if isinstance(token, str):
                checks.one_of("forbidden", token, NAMES)
            else:
                checks.at_least("forbidden", token, 0)
        checks.must(self.eos not in self.barred, "forbidden", "without EOS, which ends", self.forbidden)
        checks.one_of("length", self.length, NORMALISATIONS)
        checks.non_negative("alpha", self.alpha)
        checks.at_least("no_repeat", self.no_repeat, 0)
        checks.at_least("check_every", self.check_every, 0)

    @property
    def bos(self) -> int:
        """The id of BOS."""
        assert self.specials.bos is not None
        return self.specials.bos

    @property
    def eos(self) -> int:
        """The id of EOS."""
        assert self.specials.eos is not None
        return self.specials.eos

    @property
    def barred(self) -> tuple[int, ...]:
        """The ids that are forbidden; a special of two names only if both are."""
        spared = {getattr(self.specials, name) for name in NAMES if name not in self.forbidden}
        named = {getattr(self.specials, name) for name in self.forbidden if isinstance(name, str)}
        ids = {int(token) for token in self.forbidden if not isinstance(token, str)}
        return tuple(sorted((named - spared - {None}) | ids))

    def penalty(
        self,
        length: Tensor,  # (...) floats
    ) -> Tensor:  # (...)
        """Compute the divisor of a log-probability of so many predictions; it never falls with the length."""
        if self.length == "mean":
            return length
        return ((5 + length) / 6) ** (self.alpha if self.length == "gnmt" else 0.0)

    def log_probs(
        self,
        logits: Tensor,  # (N, V)
    ) -> Tensor:  # (N, V)
        """Compute the log-probabilities of the next token, in fp32 or double."""
        self.specials.check(logits.shape[-1])
        highest = max(self.barred, default=0)
        checks.must(highest < logits.shape[-1], "forbidden", f"ids below {logits.shape[-1]}", highest)
        return logits.log_softmax(-1, dtype=torch.float64 if logits.dtype == torch.float64 else torch.float32)

    def bar(
        self,
        scores: Tensor,  # (N, V), changed in place
        history: Tensor | None,  # (N, t) int64, what was written
        *more: int,
    ) -> None:
        """Set the scores of what is forbidden to minus infinity, and those of some more ids; a NaN stays one."""
        ids = tuple(sorted({*self.barred, *more}))
        if ids:
            index, barrier = _barrier(ids, scores.device, scores.dtype)
            scores.index_add_(-1, index, barrier.expand(scores.shape[0], -1))
        if history is None or history.shape[1] < self.no_repeat:
            return
        windows = history.unfold(1, self.no_repeat, 1)  # (N, W, n)
        tail = history[:, history.shape[1] - self.no_repeat + 1 :]  # (N, n - 1)
        again = (windows[..., :-1] == tail.unsqueeze(1)).all(-1)
        barrier = torch.full_like(again, math.inf, dtype=scores.dtype).masked_fill_(again, -math.inf)
        scores.scatter_reduce_(1, windows[..., -1], barrier, "amin")

    def asks(self, steps: int) -> bool:
        """Whether the host should ask after this many steps if all is done."""
        return self.check_every > 0 and steps % self.check_every == 0 and steps < self.max_length


@cache
def _barrier(ids: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:  # (n,), (n,)
    """A few ids and minus infinity for each: made once, since a copy from the host cannot be captured in a graph."""
    return torch.tensor(ids, device=device), torch.full((len(ids),), -math.inf, device=device, dtype=dtype)
