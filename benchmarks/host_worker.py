"""Time the host's part of training steps' losses on request, for `benchmarks.host_time`.

Run this file by its path with `PYTHONPATH=CHECKOUT/src`: it imports nothing of this package, so it measures any
version. Each line of stdin is a request as JSON, `{"name": ..., "way": ..., "times": ...}`; each line of stdout answers
it. The first line of stdout lists the cases.

With the argument `triton`, launches do nothing and tensors are on the CPU: Triton's runtime is the real one up to the
launch, so this is what a GPU would have to wait for. With `torch`, plain torch runs on the CPU.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)  # which counts when a kernel is defined

import torch
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.ops import checks

B, T, D, V = 5, 7, 16, 96  # small, for neither torch nor Triton asks the host how large a tensor is
TORCH = "torch"
WAYS = ("head", "logits", "targets")
"""From hidden states; from logits; from logits with plain targets, nothing proposed before the call."""
WARM_UPS = 20


class NoKernel:
    """A kernel that is never compiled and does nothing but count its launches."""

    function = packed_metadata = None
    launches = 0

    def launch_metadata(self, *_: object) -> None:
        """Return nothing."""

    def run(self, *_: object) -> None:
        """Count."""
        NoKernel.launches += 1

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return self.run


class CompiledKernels(dict[str, NoKernel]):
    """Triton's cache of compiled kernels, in which every kernel is found."""

    kernel = NoKernel()

    def get(self, key: str, default: Any = None) -> NoKernel:
        """Return the same kernel for every key."""
        return self.kernel


def pretend_gpu() -> None:
    """Let kernels be chosen and launched on tensors that are on the CPU."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class NoDevice:
        """A driver of nothing."""

        def get_current_device(self) -> int:
            """Return the first device."""
            return 0

        def get_current_stream(self, device: int) -> int:
            """Return the default stream."""
            return 0

        def get_current_target(self) -> GPUTarget:
            """Return what arguments are specialised for."""
            return GPUTarget("cuda", 90, 32)

    driver.set_active(NoDevice())
    create_binder = JITFunction.create_binder

    def bind(self: Any) -> Any:
        assert self.cache_key  # finds the global values that each launch compares
        return CompiledKernels(), *create_binder(self)[1:]

    JITFunction.create_binder = bind
    # After that, and before they would be interpreted.
    kernels = importlib.import_module("seqsmooth.ops.kernels")
    for module in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"{kernels.__name__}.{module.name}")
    assert hasattr(checks, "visible"), "what tells that values are on the host has moved: replace it there"
    checks.visible = lambda value: False  # as on a GPU
    os.environ |= {"TRITON_INTERPRET": "1", "SEQSMOOTH_KERNELS": "triton"}


@cache
def objectives() -> dict[str, ss.Objective]:
    """Make the paper's losses."""
    specials, vectors = ss.Specials(0, 1, 2, 3), torch.randn(V, 8)
    tok = ss.Similarity(vectors, 0.3, alpha=0.5)
    common: dict[str, Any] = {"specials": specials, "vocab_size": V}
    return {
        "mle": ss.Objective(**common),
        "label smoothing": ss.Objective(token=ss.Uniform(0.1), **common),
        "tok": ss.Objective(token=tok, specials=specials),
        "seq, closed form": ss.Objective(ss.Hamming(0.3, pool="vocab"), **common),
        "seq over references, closed form": ss.Objective(ss.Hamming(0.3, pool="refs"), **common),
        "seq": ss.Objective(ss.Hamming(0.3, pool="vocab", samples=5), **common),
        "tok-seq, closed form": ss.Objective(ss.Hamming(0.3, pool="vocab"), tok, specials=specials),
        "tok-seq": ss.Objective(ss.Hamming(0.3, pool="refs", samples=5), tok, specials=specials),
    }


def cases() -> list[tuple[str, str]]:
    """List every loss in every way it can be called."""
    listed = [(TORCH, way) for way in WAYS[:2]]
    for name, objective in objectives().items():
        needs_references = getattr(objective.sequence, "pool", None) == "refs"
        listed += [(name, way) for way in WAYS if way != "targets" or not needs_references]
    return listed


@cache
def step(name: str, way: str) -> Callable[[], Iterator[None]]:
    """Make a step that yields after each of its parts: propose, loss, backward."""
    objective = objectives().get(name)
    labels, references = torch.randint(4, V, (B, T)), torch.randint(4, V, (B, 5, T))
    hidden, weight = torch.randn(B, T, D, requires_grad=True), torch.randn(V, D, requires_grad=True)
    logits = torch.randn(B, T, V, requires_grad=True)

    def run() -> Iterator[None]:
        candidates: Any = labels
        if objective is not None and way != "targets":
            candidates = objective.propose(labels, references=references)
        yield
        if objective is None:
            scores = F.linear(hidden, weight) if way == "head" else logits
            total = F.cross_entropy(scores.view(-1, V), labels.view(-1))
        elif way == "head":
            total = objective.head(hidden, weight, candidates).total
        else:
            total = objective(logits, candidates).total
        yield
        total.backward()
        yield
        hidden.grad = weight.grad = logits.grad = None

    for _ in range(WARM_UPS):
        for _ in run():
            pass
    return run


def measure(name: str, way: str, times: int) -> dict[str, Any]:
    """Return the microseconds of the parts of each of some calls, and the launches of one."""
    run = step(name, way)
    before = NoKernel.launches
    for _ in run():
        pass
    launches = NoKernel.launches - before
    samples = []
    for _ in range(times):
        marks = [time.perf_counter()]
        for _ in run():
            marks.append(time.perf_counter())
        samples.append([1e6 * (after - before) for before, after in pairwise(marks)])
    return {"samples": samples, "launches": launches}


def main(path: str) -> None:
    """Answer requests until there are no more."""
    torch.set_num_threads(1)
    if path == "triton":
        pretend_gpu()
    print(json.dumps(cases()), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
