"""Decoding by trying everything, and beam search with plain lists: the model is only ever read by teacher forcing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Words = tuple[int, ...]
Found = tuple[Words, float, float, bool]
"""Words, log-probability, score, finished."""

PENALTIES: dict[str, Callable[[int], float]] = {
    "none": lambda length: 1.0,
    "mean": lambda length: float(length),
    "gnmt": lambda length: math.exp(0.6 * (math.log(5 + length) - math.log(6))),
}


class Reader:
    """The log-probabilities of the next token, for one item after any words."""

    def __init__(self, model: Any, inputs: Sequence[Tensor], item: int, bos: int) -> None:
        self.model = model
        self.memory = model.encode(*(part[item : item + 1] for part in inputs))
        self.bos = bos
        self.known: dict[Words, list[float]] = {}

    @torch.no_grad()
    def __call__(self, words: Words) -> list[float]:
        if words not in self.known:
            tokens = torch.tensor([[self.bos, *words]])
            logits = self.model.logits(self.model.decode(self.memory, tokens))[0, -1]
            self.known[words] = (logits - logits.logsumexp(-1)).tolist()
        return self.known[words]

    def log_prob(self, words: Words, eos: int | None) -> float:
        """Of some words, and of EOS behind them if it is given."""
        written = words if eos is None else (*words, eos)
        return math.fsum(self(written[:t])[token] for t, token in enumerate(written))


@dataclass(frozen=True)
class Law:
    """The rules, once more."""

    vocab_size: int
    bos: int
    eos: int
    max_length: int
    min_length: int = 0
    forbidden: Words = ()
    length: str = "mean"
    no_repeat: int = 0

    def allows(self, words: Words) -> bool:
        n = self.no_repeat
        grams = [words[i : i + n] for i in range(len(words) - n + 1)] if n else []
        return len(grams) == len(set(grams))

    def score(self, log_prob: float, length: int) -> float:
        return log_prob / PENALTIES[self.length](length)

    @property
    def words(self) -> list[int]:
        return [token for token in range(self.vocab_size) if token != self.eos and token not in self.forbidden]


def everything(reader: Reader, law: Law) -> list[Found]:
    """All hypotheses there are, the best first."""
    found: list[Found] = []
    for length in range(law.max_length + 1):
        for words in itertools.product(law.words, repeat=length):
            if not law.allows(words):
                continue
            if law.min_length <= length < law.max_length:
                log_prob = reader.log_prob(words, law.eos)
                found.append((words, log_prob, law.score(log_prob, length + 1), True))
            if length == law.max_length:
                log_prob = reader.log_prob(words, None)
                found.append((words, log_prob, law.score(log_prob, length), False))
    return sorted(found, key=lambda hypothesis: -hypothesis[2])


def beam(reader: Reader, law: Law, width: int, best: int, stop: str) -> list[Found]:
    """Beam search on one item, with lists."""
    live: list[tuple[float, Words]] = [(0.0, ())]
    done: list[Found] = []
    for step in range(law.max_length):
        followers: list[tuple[float, Words, bool]] = []
        for log_prob, words in live:
            after = reader(words)
            followers += [
                (log_prob + after[token], (*words, token), False) for token in law.words if law.allows((*words, token))
            ]
            if len(words) >= law.min_length:
                followers.append((log_prob + after[law.eos], words, True))
        followers.sort(key=lambda follower: -follower[0])
        for log_prob, words, ends in followers[:width]:
            if ends:
                done.append((words, log_prob, law.score(log_prob, step + 1), True))
        live = [(log_prob, words) for log_prob, words, ends in followers if not ends][:width]
        done.sort(key=lambda hypothesis: -hypothesis[2])
        if stop == "filled" and len(done) >= width:
            return done[:best]
        if not live:
            return done[:best]
    done += [(words, log_prob, law.score(log_prob, law.max_length), False) for log_prob, words in live]
    return sorted(done, key=lambda hypothesis: -hypothesis[2])[:best]
