"""Two processes with half a batch each learn what one process learns from the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import seqsmooth as ss

V, D = 9, 5


class Decoder(nn.Module):
    """A head that owns its objective, as a model in training does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(V, D)
        self.head = nn.Linear(D, V)
        similarity = ss.Similarity(torch.randn(V, 4), 0.5, alpha=0.4)
        self.objective = ss.Objective(ss.Hamming(0.5), similarity, specials=ss.Specials(pad=0, bos=1))

    def forward(self, targets: Tensor, num_items: Tensor) -> Tensor:
        candidates = self.objective.propose(targets)
        hidden = self.embedding(candidates.inputs)
        return self.objective.head(
            hidden, self.head.weight, candidates, self.head.bias, num_items=num_items, chunk=2
        ).total


def targets() -> Tensor:
    drawn = torch.randint(2, V, (4, 6), generator=torch.Generator().manual_seed(1))
    return drawn.masked_fill(torch.arange(6) >= torch.tensor([[6], [2], [5], [3]]), 0)


def gradients(model: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def work(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = DistributedDataParallel(Decoder())
    mine = targets()[rank::2]
    items = (mine != 0).sum()
    torch.distributed.all_reduce(items)
    model(mine, items / 2).backward()  # the gradients of the processes are averaged, not summed
    if rank == 0:
        torch.save(gradients(model), f"{folder}/gradients")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_are_one(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    model = Decoder()
    whole = targets()
    model(whole, (whole != 0).sum()).backward()
    for ours, theirs in zip(gradients(model), torch.load(tmp_path / "gradients"), strict=True):
        torch.testing.assert_close(ours, theirs)
