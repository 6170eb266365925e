"""Microseconds that the host needs to submit a training step's loss, measured without a GPU.

Triton's runtime is the real one up to the launch, and launches do nothing: `PYTHONPATH=src python
benchmarks/host_time.py`. Times are low quantiles, for what else the machine does only adds to them.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)  # which counts when a kernel is defined

import torch
from torch import Tensor
from torch.nn import functional as F
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

import seqsmooth as ss
from seqsmooth.ops import checks

B, T, D, V = 5, 7, 16, 96  # small, for neither torch nor Triton asks the host how large a tensor is


class NoDevice:
    """A driver of nothing."""

    def get_current_device(self) -> int:
        """The first."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default one."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """What to specialise arguments for."""
        return GPUTarget("cuda", 90, 32)


class NoKernel:
    """A kernel that is never compiled and does nothing."""

    function = packed_metadata = None
    launches = 0

    def launch_metadata(self, *_: object) -> None:
        """None."""

    def run(self, *_: object) -> None:
        """Count."""
        NoKernel.launches += 1

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return self.run


class Compiled(dict[str, NoKernel]):
    """Every kernel, as if compiled before."""

    def get(self, key: str, default: Any = None) -> NoKernel:
        """The same for every key."""
        return KERNEL


KERNEL = NoKernel()


def pretend() -> None:
    """Kernels are chosen and launched on tensors that are on the CPU."""
    driver.set_active(NoDevice())
    create_binder = JITFunction.create_binder

    def bound(self: Any) -> Any:
        assert self.cache_key  # finds the global values that each launch compares
        return Compiled(), *create_binder(self)[1:]

    JITFunction.create_binder = bound
    # After that, and before they would be interpreted.
    for module in ("autograd", "philox", "pools", "soft_cross_entropy", "targets"):
        importlib.import_module(f"seqsmooth.ops.kernels.{module}")
    checks.visible = lambda value: False  # as on a GPU
    os.environ |= {"TRITON_INTERPRET": "1", "SEQSMOOTH_KERNELS": "triton"}


def objectives() -> dict[str, ss.Objective]:
    """The paper's losses."""
    specials, vectors = ss.Specials(0, 1, 2, 3), torch.randn(V, 8)
    tok = ss.Similarity(vectors, 0.3, alpha=0.5)
    return {
        "mle": ss.Objective(specials=specials, vocab_size=V),
        "label smoothing": ss.Objective(token=ss.Uniform(0.1), specials=specials, vocab_size=V),
        "tok": ss.Objective(token=tok, specials=specials),
        "tok-seq": ss.Objective(ss.Hamming(0.3, pool="refs", samples=5), tok, specials=specials),
    }


def steps(objective: ss.Objective | None, head: bool) -> Callable[[], Iterator[None]]:
    """A step that yields after each part; without an objective, torch's own."""
    labels, references = torch.randint(4, V, (B, T)), torch.randint(4, V, (B, 5, T))
    hidden, weight = torch.randn(B, T, D, requires_grad=True), torch.randn(V, D, requires_grad=True)
    logits = torch.randn(B, T, V, requires_grad=True)

    def loss(made: ss.Candidates | None) -> Tensor:
        if objective is None or made is None:
            scores = F.linear(hidden, weight) if head else logits
            return F.cross_entropy(scores.view(-1, V), labels.view(-1))
        return (objective.head(hidden, weight, made) if head else objective(logits, made)).total

    def step() -> Iterator[None]:
        made = None if objective is None else objective.propose(labels, references=references)
        yield
        total = loss(made)
        yield
        total.backward()
        yield
        hidden.grad = weight.grad = logits.grad = None

    return step


def measure(step: Callable[[], Iterator[None]], times: int) -> list[float]:
    """Microseconds of each part: the tenth percentile."""
    seen: list[list[float]] = []
    for _ in range(times):
        marks = [time.perf_counter()]
        for _ in step():
            marks.append(time.perf_counter())
        seen.append([after - before for before, after in pairwise(marks)])
    return [sorted(part)[times // 10] * 1e6 for part in zip(*seen, strict=True)]


def main(times: int) -> None:
    """Print a table."""
    torch.set_num_threads(1)
    pretend()
    sys.stdout.write(f"{'us':24s}{'propose':>9s}{'loss':>9s}{'backward':>9s}{'in all':>9s}{'launches':>9s}\n")
    for name, objective in {"torch": None, **objectives()}.items():
        for head in (True, False):
            step = steps(objective, head)
            before = NoKernel.launches
            for _ in step():
                pass
            launches = NoKernel.launches - before
            parts = measure(step, times)
            row = "".join(f"{part:9.0f}" for part in (*parts, sum(parts), launches))
            sys.stdout.write(f"{name + (', head' if head else ', logits'):24s}{row}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000)
