"""A reward of your own: a function of texts, as RL trainers take them, and one over ids, as those of this library.

python examples/own_reward.py
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import seqsmooth as ss

PAD, BOS, EOS = 0, 1, 2
WORDS = ["<pad>", "<s>", "</s>", "a", "the", "small", "little", "big", "huge", "dog", "cat", "runs", "sleeps"]
SAID = [["a small dog runs </s>", "the little dog runs </s>"], ["a big cat sleeps </s>", "the huge cat sleeps </s>"]]


def short_words(completions: list[str], **_: object) -> list[float]:
    """A reward function as TRL's GRPOTrainer and others take it: texts to numbers."""
    return [-sum(map(len, text.split())) / 10 for text in completions]


def over_ids(function: Callable[..., list[float]]) -> Callable[[Tensor, Tensor], Tensor]:
    """Such a function as a reward of this library. It reads the samples on the host, so a GPU waits for it."""

    def reward(candidates: Tensor, references: Tensor) -> Tensor:  # (B, L, T), (B, R, S) -> (B, L)
        rows = candidates.flatten(0, 1).tolist()
        texts = [" ".join(WORDS[token] for token in row if token >= 0) for row in rows]  # negative: no token
        return torch.tensor(function(texts), device=candidates.device).view(candidates.shape[:2])

    reward.__name__ = function.__name__  # by which the objective's signature, and a run's manifest, call it
    return reward


class Recall(nn.Module):
    """The share of the words of the references that a sample has. All on the device: it fits in a CUDA graph."""

    def forward(self, candidates: Tensor, references: Tensor) -> Tensor:  # (B, L, T), (B, R, S) -> (B, L)
        wanted = references.flatten(1)[:, None]  # (B, 1, R S)
        found = (candidates[..., None] == wanted.unsqueeze(2)).any(2)  # (B, L, R S)
        return (found & (wanted >= 0)).sum(-1) / (wanted >= 0).sum(-1).clamp_min(1)

    def signature(self) -> str:
        return "recall"


def train(reward: Callable[[Tensor, Tensor], Tensor], steps: int = 60) -> tuple[float, float]:
    torch.manual_seed(0)
    references = torch.tensor([[[WORDS.index(word) for word in text.split()] for text in item] for item in SAID])
    images = torch.randn(2, 32)
    embed, recurrence, head = nn.Embedding(len(WORDS), 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, len(WORDS))
    optimizer = torch.optim.Adam([*embed.parameters(), *recurrence.parameters(), *head.parameters()], lr=0.02)
    sequence = ss.Rewarded(reward, ss.Hamming(rate=0.3, pool="refs"), tau=0.2, samples=6, alpha=0.4)
    objective = ss.Objective(sequence, lazy=False, specials=ss.Specials(pad=PAD, bos=BOS, eos=EOS))
    likelihoods = []
    for step in range(steps):
        candidates = objective.propose(references[:, step % 2], references=references)
        start = images.repeat_interleave(candidates.inputs.shape[1], 0)[None]
        hidden = recurrence(embed(candidates.inputs.flatten(0, 1)), start)[0].unflatten(0, candidates.inputs.shape[:2])
        loss = objective.head(hidden, head.weight, candidates, head.bias)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        likelihoods.append(float(loss.nll))
    print(objective.signature())
    print(f"  {loss.ess:.1f} of 6 samples count; nll of a token {likelihoods[0]:.3f}, at the end {likelihoods[-1]:.3f}")
    return likelihoods[0], likelihoods[-1]


def main() -> tuple[float, float]:
    before, after = zip(*(train(reward) for reward in (over_ids(short_words), Recall())), strict=True)
    return min(before), max(after)


if __name__ == "__main__":
    main()
