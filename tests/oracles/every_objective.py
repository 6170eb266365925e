"""Objectives of every sequence law with every token law, on one small batch."""

from __future__ import annotations

import torch
from torch import Tensor

import seqsmooth as ss

V = 7
PAD, BOS, EOS, UNK = range(4)
SPECIALS = ss.Specials(PAD, BOS, EOS, UNK)
TARGETS = torch.tensor([[4, 5, EOS, PAD], [6, EOS, PAD, PAD]])
REFERENCES = torch.tensor([[[4, 5, EOS], [5, 6, EOS]], [[6, EOS, PAD], [PAD, PAD, PAD]]])
VECTORS = torch.randn(V, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
EVERY_SEQUENCE = {
    "truth": lambda: ss.GroundTruth(),
    "hamming": lambda: ss.Hamming(0.8, pool="refs", alpha=0.5),
    "hamming L=2": lambda: ss.Hamming(0.8, pool="batch", alpha=0.5, samples=2),
    "rewarded": lambda: ss.Rewarded(ss.rewards.Bleu(), ss.Hamming(0.8, pool="refs"), 0.5, 2, 0.5),
    "batch weights": lambda: ss.Rewarded(ss.rewards.Bleu(), ss.Hamming(0.8, pool="refs"), 0.5, 1, 0.5, weights="batch"),
    "edit": lambda: ss.Edit(0.8, "refs", 0.5, 2),
}
EVERY_TOKEN = {
    "dirac": lambda: ss.Dirac(),
    "uniform": lambda: ss.Uniform(0.2),
    "similarity": lambda: ss.Similarity(VECTORS, 0.4, alpha=0.5),
    "sampled": lambda: ss.Similarity(VECTORS, 0.4, alpha=0.5, mode="sampled", k=2),
}


def run(objective: ss.Objective, targets: Tensor, references: Tensor) -> tuple[ss.Loss, Tensor]:
    candidates = objective.propose(targets, references=references, generator=torch.Generator().manual_seed(0))
    logits = torch.randn(*candidates.sequences.shape, V, dtype=torch.float64, requires_grad=True)
    loss = objective(logits, candidates)
    (gradient,) = torch.autograd.grad(loss.total, logits)
    return loss, gradient


def every(lazy: bool) -> list[ss.Objective]:
    return [
        ss.Objective(sequence(), token(), lazy=lazy, specials=SPECIALS, vocab_size=V)
        for name, sequence in EVERY_SEQUENCE.items()
        for token in EVERY_TOKEN.values()
        if not (lazy and name == "edit")
    ]
