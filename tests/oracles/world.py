"""A tiny model that is nothing but a table: logits for every item and every prefix."""

from __future__ import annotations

import torch
from torch import Tensor

from oracles.brute_force import Sentence, log_softmax


class World:
    """A deterministic random language model over V tokens."""

    def __init__(self, vocab_size: int, seed: int = 0) -> None:
        self.vocab_size = vocab_size
        self.seed = seed
        self.known: dict[tuple[int, Sentence], Tensor] = {}

    def logits_of(self, item: int, prefix: Sentence) -> Tensor:
        key = (item, prefix)
        if key not in self.known:
            place = 1
            for token in prefix:
                place = place * (self.vocab_size + 1) + token + 1
            generator = torch.Generator().manual_seed(1_000_003 * self.seed + 7919 * item + place)
            self.known[key] = torch.randn(self.vocab_size, dtype=torch.float64, generator=generator)
        return self.known[key]

    def log_probs(self, item: int, prefix: Sentence) -> list[float]:
        return log_softmax(self.logits_of(item, prefix).tolist())

    def decode(self, inputs: Tensor) -> Tensor:
        """Logits (B, K, T, V) for target sequences (B, K, T): position t sees the tokens before it."""
        batch, atoms, steps = inputs.shape
        logits = torch.empty(batch, atoms, steps, self.vocab_size, dtype=torch.float64)
        for b in range(batch):
            for k in range(atoms):
                sentence = inputs[b, k].tolist()
                for t in range(steps):
                    logits[b, k, t] = self.logits_of(b, tuple(sentence[:t]))
        return logits
