"""Greedy decoding and sampling: one token after the other."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor

from seqsmooth.decoding.hypotheses import Hypotheses
from seqsmooth.decoding.protocol import Decodable, device, evaluating, items, repeat
from seqsmooth.decoding.rules import Rules
from seqsmooth.ops import checks
from seqsmooth.ops.sampling import categorical

COLDEST, HOTTEST = 1e-30, 1e30
"""Beyond these temperatures a law stays what it is, while fp32 has no number for a logarithm over one."""


@dataclass(frozen=True)
class Greedy(Rules):
    """The likeliest token at each step.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.models import ShowTell
        >>> model = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=16).eval()
        >>> found = Greedy(ss.Specials(pad=0, bos=1, eos=2), max_length=6)(model, torch.randn(4, 8))
        >>> found.scores.shape
        torch.Size([4, 1])
    """

    @torch.no_grad()
    def __call__(self, model: Decodable, *inputs: Tensor) -> Hypotheses:
        """Write, from what the model's `encode` takes: one hypothesis an item."""
        evaluating(model)
        return self.write(model, model.encode(*inputs))

    @torch.no_grad()
    def write(self, model: Decodable, memory: Any) -> Hypotheses:
        """Write, from a memory."""
        evaluating(model)
        return _write(self, model, memory, 1, lambda log_probs: log_probs.argmax(-1, keepdim=True))


@dataclass(frozen=True)
class Sampling(Rules):
    """Ancestral sampling: each token from the model's law of the next one.

    The law of a step is the model's to the power 1 / temperature, of what is not forbidden; then of the `top_k`
    likeliest, then of the fewest likeliest that have a share of `top_p` of what is left. The log-probability that is
    reported is the model's, not that of this law.

    Args:
        samples: n, how many hypotheses to draw of each item, independently.
        temperature: below 1 for likelier tokens, above 1 for rarer ones.
        top_k: see above; all by default.
        top_p: see above; all by default.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.models import ShowTell
        >>> model = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=16).eval()
        >>> sampling = Sampling(ss.Specials(pad=0, bos=1, eos=2), max_length=6, samples=5, temperature=0.7, top_p=0.9)
        >>> sampling(model, torch.randn(4, 8), generator=torch.Generator().manual_seed(0)).scores.shape
        torch.Size([4, 5])
    """

    _: KW_ONLY
    samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.at_least("samples", self.samples, 1)
        checks.positive("temperature", self.temperature)
        checks.must(self.temperature < math.inf, "temperature", "finite", self.temperature)
        if self.top_k is not None:
            checks.at_least("top_k", self.top_k, 1)
        if self.top_p is not None:
            checks.must(checks.fraction("top_p", self.top_p) > 0, "top_p", "greater than 0", self.top_p)

    @torch.no_grad()
    def __call__(self, model: Decodable, *inputs: Tensor, generator: torch.Generator | None = None) -> Hypotheses:
        """Draw, from what the model's `encode` takes, with a generator on its device; torch's global one by default."""
        evaluating(model)
        return self.draw(model, model.encode(*inputs), generator=generator)

    @torch.no_grad()
    def draw(self, model: Decodable, memory: Any, *, generator: torch.Generator | None = None) -> Hypotheses:
        """Draw, from a memory."""
        evaluating(model)

        def choose(log_probs: Tensor) -> Tensor:
            return categorical(self.law(log_probs), 1, generator)

        return _write(self, model, memory, self.samples, choose)

    def law(
        self,
        log_probs: Tensor,  # (N, V), minus infinity for what is forbidden
    ) -> Tensor:  # (N, V)
        """The probabilities with which the next token is drawn."""
        powers = log_probs / min(max(self.temperature, COLDEST), HOTTEST)
        if self.top_k is not None and self.top_k < powers.shape[-1]:
            least = powers.topk(self.top_k).values[:, -1:]
            powers = powers.masked_fill(powers < least, -math.inf)
        if self.top_p is None:
            return powers.softmax(-1)
        shares, order = powers.softmax(-1).sort(dim=-1, descending=True, stable=True)
        before = shares.cumsum(-1) - shares
        # The likeliest has nothing before it, so it stays whatever the rounding.
        return torch.zeros_like(shares).scatter_(1, order, shares.masked_fill_(before >= self.top_p, 0))


def _write(rules: Rules, model: Decodable, memory: Any, samples: int, choose: Any) -> Hypotheses:
    """Write step by step; a row that has ended goes on, unread, which costs less than to stop it."""
    count = items(memory)
    state, memory = repeat(model.start(memory), samples), repeat(memory, samples)
    home = device(state)
    token = torch.full((count * samples, 1), rules.bos, device=home)
    history = token.new_empty(count * samples, 0) if rules.no_repeat else None
    tokens: list[Tensor] = []  # (N, 1)
    shares: list[Tensor] = []  # (N, 1) log-probabilities
    for t in range(rules.max_length):
        hidden, state = model.step(memory, state, token.view(-1))
        log_probs = rules.log_probs(model.logits(hidden))
        rules.bar(log_probs, history, *((rules.eos,) if t < rules.min_length else ()))
        token = choose(log_probs)
        tokens.append(token)
        shares.append(log_probs.gather(1, token))
        if history is not None:
            history = torch.cat([history, token], -1)
        if rules.asks(t + 1) and bool((torch.cat(tokens, 1) == rules.eos).any(1).all()):
            break
    return _hypotheses(rules, torch.cat(tokens, 1), torch.cat(shares, 1), count)


def _hypotheses(
    rules: Rules,
    tokens: Tensor,  # (N, t)
    shares: Tensor,  # (N, t)
    count: int,
) -> Hypotheses:
    """Cut hypotheses at the first EOS and score them."""
    ends = tokens == rules.eos
    ended = ends.cumsum(-1) > 0
    after = ended.logical_xor(ends & (ends.cumsum(-1) == 1))  # behind the first EOS
    lengths, predictions = (~ended).sum(-1), (~after).sum(-1)
    log_probs = shares.masked_fill(after, 0).sum(-1)
    scores = log_probs / rules.penalty(predictions.to(log_probs.dtype))
    filler = rules.specials.filler
    words = tokens.masked_fill(ended, filler)
    words = torch.nn.functional.pad(words, (0, rules.max_length - tokens.shape[1]), value=filler)
    per_item = (part.view(count, -1, *part.shape[1:]) for part in (words, lengths, log_probs, scores, ended[:, -1]))
    return Hypotheses(*per_item)
