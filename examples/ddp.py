"""Data parallelism with torchrun: two processes take the steps of one, although their batches differ in length.

python examples/ddp.py    or    torchrun --standalone --nproc_per_node=2 examples/ddp.py

DDP averages the gradients of the processes. Where each divides by its own tokens, those of the process with fewer
count for more. So all divide by the tokens of all, over the number of processes.
"""

import os

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

import seqsmooth as ss

VOCABULARY, PAD = 20, 0


class LanguageModel(nn.Module):
    """A model that makes its own loss, so that all of it is inside of what DDP sees."""

    def __init__(self, objective: ss.Objective) -> None:
        super().__init__()
        self.objective = objective
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.recurrence = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, VOCABULARY)

    def forward(self, tokens: Tensor, num_items: Tensor) -> tuple[Tensor, Tensor]:  # (B, T), ()
        hidden = self.recurrence(self.embedding(tokens[:, :-1]))[0]
        loss = self.objective.head(hidden, self.head.weight, tokens[:, 1:], self.head.bias, num_items=num_items)
        return loss.total, loss.nll


def counting(rows: int, seed: int) -> Tensor:
    """Sequences to learn: each token is the one before plus one or two, and some are shorter."""
    draw = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 3, (rows, 9), generator=draw).cumsum(1)
    lengths = torch.randint(3, 10, (rows, 1), generator=draw)
    return torch.where(torch.arange(9) < lengths, 1 + steps % (VOCABULARY - 1), PAD)


def main() -> tuple[float, float]:
    processes, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.manual_seed(0)
    objective = ss.seq(rate=0.05, specials=ss.Specials(pad=PAD), vocab_size=VOCABULARY)
    model: nn.Module = LanguageModel(objective)
    if processes > 1:
        distributed.init_process_group("gloo")  # "nccl" on GPUs
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    likelihoods = []
    for step in range(30):
        mine = counting(64, step)[rank::processes]
        tokens = (mine[:, 1:] != PAD).sum()
        if processes > 1:
            distributed.all_reduce(tokens)
        total, nll = model(mine, tokens / processes)
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        if processes > 1:
            distributed.all_reduce(nll)
        likelihoods.append(float(nll / processes))
        if rank == 0 and step % 5 == 0:
            print(f"step {step}: negative log-likelihood of a token {likelihoods[-1]:.7f}")
    if processes > 1:
        distributed.destroy_process_group()
    return likelihoods[0], likelihoods[-1]


if __name__ == "__main__":
    main()
