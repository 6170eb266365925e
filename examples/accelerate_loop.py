"""Hugging Face Accelerate: bf16, a compiled loss in one graph, accumulation over processes in which every token counts.

python examples/accelerate_loop.py    or    accelerate launch --cpu --num_processes=2 examples/accelerate_loop.py
"""

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils.data import DataLoader

import seqsmooth as ss

VOCABULARY, PAD, PARTS = 20, 0, 4


class LanguageModel(nn.Module):
    """A model that makes its own loss: what goes through `forward` is in mixed precision, compiled and parallel."""

    def __init__(self, objective: ss.Objective) -> None:
        super().__init__()
        self.objective = objective
        self.embedding = nn.Embedding(VOCABULARY, 64)
        self.reader = nn.Conv1d(64, 64, 2)
        self.head = nn.Linear(64, VOCABULARY)

    def forward(self, tokens: Tensor, num_items: Tensor | None = None) -> tuple[Tensor, Tensor]:  # (B, T), ()
        read = nn.functional.pad(self.embedding(tokens[:, :-1]).mT, (1, 0))
        hidden = torch.relu(self.reader(read)).mT
        loss = self.objective(self.head(hidden), tokens[:, 1:], num_items=num_items)
        return loss.total, loss.nll


def counting(rows: int, seed: int) -> Tensor:
    """Sequences to learn: each token is the one before plus one or two, and some are shorter."""
    draw = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 3, (rows, 9), generator=draw).cumsum(1)
    lengths = torch.randint(3, 10, (rows, 1), generator=draw)
    return torch.where(torch.arange(9) < lengths, 1 + steps % (VOCABULARY - 1), PAD)


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=PARTS)
    angle = torch.arange(VOCABULARY)[:, None] * (2 * torch.pi / VOCABULARY)
    objective = ss.tok(torch.cat([angle.cos(), angle.sin()], 1), tau=0.1, alpha=0.2, specials=ss.Specials(pad=PAD))
    model = LanguageModel(objective)
    # One graph from tokens to loss. Leave the backend out, and Inductor makes kernels of it; this one starts sooner.
    model.compile(backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(counting(2560, 1), batch_size=16 // accelerator.num_processes, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    likelihoods, parts = [], []
    for batch in loader:
        parts.append(batch)
        if len(parts) < PARTS:
            continue
        tokens = accelerator.gather(sum((part[:, 1:] != PAD).sum() for part in parts)).sum()  # of all processes
        # `backward` divides by the number of parts, and the gradients of the processes are averaged.
        share = tokens / (PARTS * accelerator.num_processes)
        likelihood = torch.zeros(())
        for part in parts:
            with accelerator.accumulate(model):
                total, nll = model(part, share)
                likelihood += nll / PARTS
                accelerator.backward(total)
                optimizer.step()
                optimizer.zero_grad()
        likelihoods.append(accelerator.reduce(likelihood, "mean"))
        parts = []
    first, last = float(likelihoods[0]), float(likelihoods[-1])
    accelerator.print(f"negative log-likelihood of a token: {first:.3f}, after {len(likelihoods)} steps {last:.3f}")
    return first, last


if __name__ == "__main__":
    main()
