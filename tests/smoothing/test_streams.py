"""Candidates made on a stream of their own are those made on the current one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import seqsmooth as ss

V, D = 300, 24
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def some_objective() -> ss.Objective:
    torch.manual_seed(0)
    similarity = ss.Similarity(torch.randn(V, 8), 0.4, alpha=0.5)
    law = ss.Hamming(0.3, pool="refs", samples=5)
    return ss.Objective(law, similarity, entropy=0.1, specials=ss.Specials(0, 1, 2, 3)).cuda()


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    references = torch.randint(4, V, (6, 3, 9), device="cuda")
    hidden = torch.randn(6, 9, D, device="cuda", requires_grad=True)
    return references[:, 0], references, hidden, torch.randn(V, D, device="cuda", requires_grad=True)


@cuda
@pytest.mark.parametrize("kernels", ["triton", "torch"])
@pytest.mark.parametrize("from_hidden", [True, False])
def test_the_same_on_another_stream(kernels: str, from_hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQSMOOTH_KERNELS", kernels)
    objective = some_objective()
    targets, references, hidden, weight = batch()
    results = []
    for stream in (None, torch.cuda.Stream()):
        torch.manual_seed(3)
        for _ in range(3):  # the second and third reuse the memory of the first
            candidates = objective.propose(targets, references=references, stream=stream)
            if from_hidden:
                loss = objective.head(hidden, weight, candidates)
            else:
                loss = objective(hidden @ weight.T, candidates)
            results.append((loss.total, *torch.autograd.grad(loss.total, (hidden, weight)), candidates.inputs))
    for ours, theirs in zip(results[:3], results[3:], strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)


@cuda
def test_captured_with_a_fork() -> None:
    objective = some_objective()
    targets, references, hidden, weight = batch()
    side, seen = torch.cuda.Stream(), []

    def step() -> Tensor:
        candidates = objective.propose(targets, references=references, stream=side)
        return objective.head(hidden, weight, candidates).total

    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        step()
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = step()
    for _ in range(4):
        graph.replay()
        seen.append(float(total))
    assert len(set(seen)) == 4  # fresh samples each time
    assert all(value == pytest.approx(seen[0], rel=0.2) for value in seen)
