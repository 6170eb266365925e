"""A plain PyTorch loop: a GRU language model with smoothed targets, gradient accumulation, and a likelihood to compare.

python examples/plain_loop.py
"""

import torch
from torch import Tensor, nn

import seqsmooth as ss

VOCABULARY, PAD = 20, 0


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.recurrence = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.recurrence(self.embedding(tokens))[0]  # hidden states: the objective has the head


def counting(rows: int, seed: int) -> Tensor:
    """Sequences to learn: each token is the one before plus one or two, and some are shorter."""
    draw = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 3, (rows, 9), generator=draw).cumsum(1)
    lengths = torch.randint(5, 10, (rows, 1), generator=draw)
    return torch.where(torch.arange(9) < lengths, 1 + steps % (VOCABULARY - 1), PAD)


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    model = LanguageModel()
    # Tokens next to each other are alike. Any vectors will do: GloVe, the model's own.
    angle = torch.arange(VOCABULARY)[:, None] * (2 * torch.pi / VOCABULARY)
    objective = ss.tok(torch.cat([angle.cos(), angle.sin()], 1), tau=0.1, alpha=0.3, specials=ss.Specials(pad=PAD))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    likelihoods = []
    for step in range(40):
        micro_batches = counting(64, step).split(16)
        # All micro-batches are divided by the tokens of the whole step, so that accumulation changes nothing.
        tokens = sum((part[:, 1:] != PAD).sum() for part in micro_batches)
        likelihood = torch.zeros(())
        for part in micro_batches:
            loss = objective.head(
                model(part[:, :-1]), model.head.weight, part[:, 1:], model.head.bias, num_items=tokens
            )
            loss.total.backward()
            likelihood += loss.nll
        optimizer.step()
        optimizer.zero_grad()
        likelihoods.append(likelihood)
    first, last = float(likelihoods[0]), float(likelihoods[-1])
    print(f"negative log-likelihood of a token: {first:.3f}, after 40 steps {last:.3f}")
    return first, last


if __name__ == "__main__":
    main()
