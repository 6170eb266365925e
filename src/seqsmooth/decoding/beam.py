"""Beam search."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from seqsmooth.decoding.hypotheses import Hypotheses
from seqsmooth.decoding.protocol import Decodable, device, evaluating, items, repeat, select
from seqsmooth.decoding.rules import Rules
from seqsmooth.ops import checks

Stop = Literal["proven", "filled"]
STOPS: tuple[Stop, ...] = ("proven", "filled")


@dataclass(frozen=True)
class BeamSearch(Rules):
    """All items at once, `width` prefixes of each alive in every step.

    In a step, every live prefix is followed by every token. The `width` likeliest that do not end live on. Those that
    end are hypotheses if they are among the `width` likeliest of all; they stay in competition to the last, and leave
    their place to a live one. In the end the best by score are given, cut ones among them.

    The loop only moves the live prefixes, and notes parents and tokens. What ended and how good it is is told from
    these notes afterwards, so that a step is a handful of launches.

    Args:
        width: k, of the beam; the paper's 3 for captions, 5 for translations.
        best: n, how many hypotheses to give of each item.
        stop: when an item is done before `max_length`. "proven": when no live prefix can still get among the n best,
            even if all it has yet to write were certain. "filled": when `width` hypotheses have ended, as fairseq does;
            faster, and with a width of 1 it is `Greedy` whatever the normalisation.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.models import ShowTell
        >>> model = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=16).eval()
        >>> search = BeamSearch(ss.Specials(pad=0, bos=1, eos=2), max_length=6, width=3, best=2)
        >>> found = search(model, torch.randn(4, 8))
        >>> found.scores.shape, bool((found.scores[:, 0] >= found.scores[:, 1]).all())  # the best first
        (torch.Size([4, 2]), True)
    """

    _: KW_ONLY
    width: int = 3
    best: int = 1
    stop: Stop = "proven"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.at_least("width", self.width, 1)
        checks.at_least("best", self.best, 1)
        checks.must(self.best <= self.width, "best", f"at most `width`, {self.width}", self.best)
        checks.one_of("stop", self.stop, STOPS)

    @torch.no_grad()
    def __call__(self, model: Decodable, *inputs: Tensor) -> Hypotheses:
        """Search, from what the model's `encode` takes."""
        evaluating(model)
        return self.search(model, model.encode(*inputs))

    @torch.no_grad()
    def search(self, model: Decodable, memory: Any) -> Hypotheses:
        """Search, from a memory."""
        evaluating(model)
        k, count = self.width, items(memory)
        # A beam never leaves its item, so the memory is repeated once and only the state moves.
        state, memory = repeat(model.start(memory), k), repeat(memory, k)
        home = device(state)
        notes = _Notes(self)
        tokens = torch.full((count * k,), self.bos, device=home)
        alive = torch.full((count, k), -math.inf, device=home)
        alive[:, 0] = 0  # one prefix, which is empty
        first = torch.arange(0, count * k, k, device=home).unsqueeze(-1)  # (B, 1) the first row of each item
        history = tokens.new_empty(count * k, 0) if self.no_repeat else None
        for t in range(self.max_length):
            hidden, state = model.step(memory, state, tokens)
            scores = self.log_probs(model.logits(hidden)).add_(alive.view(-1, 1))  # (B k, V)
            size = scores.shape[-1]
            ends = scores[:, self.eos].clone()
            self.bar(scores, history, self.eos)
            alive, places = scores.view(count, k * size).topk(k)
            parents, tokens = places.div(size, rounding_mode="floor"), (places % size).view(-1)
            rows = (parents + first).view(-1)
            state = select(state, rows)
            if history is not None:
                history = torch.cat([history.index_select(0, rows), tokens.unsqueeze(-1)], -1)
            notes.add(ends.view(count, k), alive, parents, tokens.view(count, k))
            if self.asks(t + 1) and notes.done():
                break
        return notes.hypotheses()


class _Notes:
    """The notes of a search: what happened in each step."""

    def __init__(self, search: BeamSearch) -> None:
        self.search = search
        self.ends: list[Tensor] = []  # (B, k) log-probability of what each prefix is with EOS
        self.alive: list[Tensor] = []  # (B, k) that of the prefixes that live on, the likeliest first
        self.parents: list[Tensor] = []  # (B, k) which prefix each of them continues
        self.tokens: list[Tensor] = []  # (B, k) with which token

    def add(self, ends: Tensor, alive: Tensor, parents: Tensor, tokens: Tensor) -> None:
        """Note one more step."""
        self.ends.append(ends)
        self.alive.append(alive)
        self.parents.append(parents)
        self.tokens.append(tokens)

    def ends_of_hypotheses(self) -> Tensor:  # (t, B, k)
        """The log-probabilities of what ended in each step, minus infinity where nothing did."""
        k = self.search.width
        ends, alive = torch.stack(self.ends), torch.stack(self.alive)
        ends[: self.search.min_length] = -math.inf
        threshold = torch.cat([ends, alive], -1).topk(k).values[..., -1:]
        ends = ends.masked_fill(ends < threshold, -math.inf)
        if self.search.stop == "filled":
            new = (ends > -math.inf).sum(-1, keepdim=True)
            ends = ends.masked_fill(new.cumsum(0) - new >= k, -math.inf)
        return ends

    def penalties(self) -> Tensor:  # (T, 1, 1)
        """Compute the penalty of each length, from 1 to the greatest."""
        like = self.alive[-1]
        lengths = torch.arange(1, self.search.max_length + 1, device=like.device, dtype=like.dtype)
        return self.search.penalty(lengths).view(-1, 1, 1)

    def done(self) -> bool:
        """Whether nothing that is still to come can change the result. Waits for the device."""
        ended, penalties = self.ends_of_hypotheses(), self.penalties()
        if self.search.stop == "filled":
            done = (ended > -math.inf).sum((0, 2)) >= self.search.width
        else:
            # Log-probabilities only fall and penalties only rise, in rounded arithmetic too: no descendant gets above.
            bound = self.alive[-1][:, 0] / penalties[-1, 0]
            scores = (ended / penalties[: len(ended)]).transpose(0, 1).flatten(1)
            done = scores.topk(self.search.best).values[:, -1] >= bound
        return bool(done.all())

    def hypotheses(self) -> Hypotheses:
        """The best of all that ended or was cut."""
        search, k, steps = self.search, self.search.width, len(self.tokens)
        ended, cut, penalties = self.ends_of_hypotheses(), self.alive[-1], self.penalties()
        if steps < search.max_length:
            cut = torch.full_like(cut, -math.inf)
        elif search.stop == "filled":
            cut = cut.masked_fill(((ended > -math.inf).sum((0, 2)) >= k).unsqueeze(-1), -math.inf)
        # What was cut goes behind what ended: like the rest, it has as many words as there are steps before it.
        log_probs = torch.cat([ended, cut.unsqueeze(0)])  # (t + 1, B, k)
        scores = log_probs / torch.cat([penalties[:steps], penalties[-1:]])
        log_probs, scores = (part.transpose(0, 1).flatten(1) for part in (log_probs, scores))
        # Stable, so that of equals the one that ended first wins, however long the loop went on.
        scores, chosen = scores.sort(dim=-1, descending=True, stable=True)
        scores, chosen = scores[:, : search.best], chosen[:, : search.best]
        lengths, beams = chosen.div(k, rounding_mode="floor"), chosen % k
        return Hypotheses(self._trace(lengths, beams), lengths, log_probs.gather(1, chosen), scores, lengths < steps)

    def _trace(
        self,
        lengths: Tensor,  # (B, n)
        beams: Tensor,  # (B, n) where the last word is in the step that wrote it
    ) -> Tensor:  # (B, n, T)
        """The words, by going back from parent to parent."""
        steps = torch.arange(len(self.tokens), device=lengths.device)
        written = lengths > steps.view(-1, 1, 1)  # (t, B, n)
        places = [beams] * len(self.tokens)
        for t in reversed(range(len(self.tokens))):
            places[t] = beams
            beams = torch.where(written[t], self.parents[t].gather(1, beams), beams)
        filler, rest = self.search.specials.filler, self.search.max_length - len(self.tokens)
        words = torch.stack(self.tokens).gather(-1, torch.stack(places)).masked_fill_(~written, filler)
        return torch.nn.functional.pad(words.permute(1, 2, 0), (0, rest), value=filler)
