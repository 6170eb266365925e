"""Top-k distillation: a student learns from the four best tokens of a teacher, stored as a server returns them.

python examples/distillation.py

The teacher here is a small model made on the spot; with vLLM, `prompt_logprobs=4` gives the same lists.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import seqsmooth as ss

V, T, K = 50, 12, 4


class Reader(nn.Module):
    """A GRU language model."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, V, bias=False)

    def forward(self, ids: Tensor) -> Tensor:  # (B, T) -> (B, T, D)
        """The hidden states."""
        return self.gru(self.embedding(ids))[0]


def serve(teacher: Reader, ids: Tensor) -> list[list[dict[int, float] | None]]:  # (B, T)
    """What an inference server would return: for each token but the first, the K best with their log-probabilities."""
    with torch.no_grad():
        best = teacher.head(teacher(ids)).log_softmax(-1).topk(K, -1)
    lists: list[list[dict[int, float] | None]] = []
    for tokens, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        predicted = [dict(zip(*position, strict=True)) for position in zip(tokens, values, strict=True)]
        lists.append([None, *predicted[:-1]])
    return lists


def main(steps: int = 60) -> tuple[float, float]:
    """Train, and return how far the student was from the teacher at the start and at the end."""
    torch.manual_seed(0)
    teacher, student = Reader(32), Reader(16)
    teacher.head.weight.data.mul_(8)  # a teacher with opinions
    ids = torch.randint(4, V, (16, T))
    store = ss.TopK.from_vllm(serve(teacher, ids)).part(slice(1, None))  # now entry t goes with logits t
    labels = ids[:, 1:]
    print(f"the list holds {store.mass().mean():.0%} of the teacher's mass")

    optimiser = torch.optim.Adam(student.parameters(), lr=0.02)
    # Seven parts teacher, three parts text; the logits are never all in memory.
    objective = ss.Objective(token=ss.Teacher(*store, tail="uniform", alpha=0.7))

    def distance() -> float:
        with torch.no_grad():
            return ss.forward_kl(student.head(student(ids)[:, :-1]), store, tail="bucket").item()

    first = distance()
    for step in range(steps):
        loss = objective.head(student(ids)[:, :-1], student.head.weight, labels)
        optimiser.zero_grad()
        loss.total.backward()
        optimiser.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.total:.3f}, nll of the text {loss.nll:.3f}, KL {distance():.3f}")
    last = distance()
    print(f"KL to the teacher: {first:.3f} before, {last:.3f} after")
    return first, last


if __name__ == "__main__":
    main()
