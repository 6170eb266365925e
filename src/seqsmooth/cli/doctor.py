"""`seqsmooth doctor`: what is installed, which arithmetic runs and why, and whether it is right."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.bench import peers
from seqsmooth.ops import dispatch
from seqsmooth.version import __version__

OPTIONAL = (
    "triton",
    "pytorch_lightning",
    "jsonargparse",
    "sacrebleu",
    "safetensors",
    "matplotlib",
    "transformers",
    "pycocoevalcap",
    "gradio",
    "liger_kernel",
)
SECONDS = 2.0
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Finding:
    """One check: what was compared, how far apart it was, and how far it may be."""

    name: str
    error: float
    limit: float

    @property
    def good(self) -> bool:
        """Whether it is near enough; NaN is not."""
        return self.error <= self.limit


def run() -> int:
    """Print the findings; return 0 where all is well and 1 otherwise."""
    for name, value in surroundings().items():
        print(f"{name:<12} {value}")
    print("self-check   our losses and gradients against float64:")
    start, well = time.monotonic(), True
    for device in devices():
        for finding in examine(device, start + SECONDS):
            well = well and finding.good
            verdict = "ok" if finding.good else "WRONG"
            print(f"  {finding.name:<44} {verdict:<6} {finding.error:.1e} (at most {finding.limit:.0e})")
    print("All is well." if well else "Something is wrong: please report the lines above.")
    return 0 if well else 1


def surroundings() -> dict[str, str]:
    """What is installed, in words."""
    missing = [name for name in OPTIONAL if peers.version(name) is None]
    there = [f"{name} {version}" for name in OPTIONAL if (version := peers.version(name)) is not None]
    return {
        "seqsmooth": __version__,
        "python": f"{platform.python_version()} on {platform.system()}",
        "torch": torch.__version__,
        "GPU": gpu(),
        "kernels": kernels(),
        "optional": ", ".join(there) or "nothing",
        "not there": ", ".join(missing) or "nothing",
    }


def gpu() -> str:
    """The GPU, or why there is none."""
    if torch.cuda.is_available():
        capability = ".".join(map(str, torch.cuda.get_device_capability()))
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        cuda = f"CUDA {torch.version.cuda}, capability {capability}, {memory:.0f} GiB"
        return f"{torch.cuda.get_device_name()}, {cuda}"
    return "none" if torch.version.cuda else "none (and this torch is built without CUDA)"


def kernels() -> str:
    """Which arithmetic a tensor on the GPU would meet, and why."""
    asked = dispatch.choice()
    path = dispatch.path()
    if asked != "auto":
        why = f"{dispatch.VARIABLE}={asked}"
    elif not dispatch.installed():
        why = "Triton is not installed"
    elif not torch.cuda.is_available():
        why = "there is no GPU"
    else:
        why = "a GPU and Triton are there"
    interpreted = " in its interpreter" if os.environ.get("TRITON_INTERPRET") == "1" and path == "triton" else ""
    return f"{path}{interpreted}, for {why}"


def devices() -> list[torch.device]:
    """Where the check runs."""
    return [torch.device("cpu"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]


def examine(device: torch.device, deadline: float) -> list[Finding]:
    """Compare losses of ours with the formula in float64, largest error of loss and gradient; stops at the deadline."""
    generator = torch.Generator().manual_seed(0)
    rows, vocab, hidden = 24, 1003, 32
    shapes = ((rows, vocab), (rows, hidden), (vocab, hidden), (vocab, 16))
    logits, states, weight, vectors = (torch.randn(shape, generator=generator) for shape in shapes)
    labels = torch.randint(vocab, (rows,), generator=generator)
    units = torch.nn.functional.normalize(vectors.double(), dim=-1)
    same = torch.nn.functional.one_hot(labels, vocab).double()
    cases = {
        "MLE": (ss.mle(), same),
        "label smoothing": (ss.label_smoothing(0.1, vocab_size=vocab), 0.9 * same + 0.1 / vocab),
        "Tok": (
            ss.tok(vectors, tau=0.3, alpha=0.5),
            0.5 * same + 0.5 * torch.softmax(units[labels] @ units.T / 0.3, -1),
        ),
        "Seq": (ss.seq(rate=0.3, vocab_size=vocab), 0.7 * same + 0.3 / (vocab - 1) * (1 - same)),
    }
    found: list[Finding] = []
    for name, (objective, target) in cases.items():
        moved = objective.to(device)
        for dtype, limit in LIMITS.items():
            if found and time.monotonic() > deadline:
                return found
            given = logits.to(device, dtype).requires_grad_()
            loss = moved(given.unsqueeze(0), labels.to(device).unsqueeze(0)).total
            error = _error(loss, (given,), _expected((given,), target, lambda z: z))
            found.append(Finding(f"{name}, {_kind(dtype)}, {device.type}", error, limit))
        parts = tuple(value.to(device).requires_grad_() for value in (states, weight))
        loss = moved.head(parts[0].unsqueeze(0), parts[1], labels.to(device).unsqueeze(0)).total
        error = _error(loss, parts, _expected(parts, target, lambda h, w: h @ w.T))
        found.append(Finding(f"{name}, head, float32, {device.type}", error, LIMITS[torch.float32]))
    return found


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _expected(
    given: tuple[Tensor, ...],
    target: Tensor,  # (N, V) float64
    logits: Callable[..., Tensor],
) -> tuple[Tensor, ...]:
    """The mean cross entropy and its gradients, in float64 on the CPU."""
    wide = tuple(value.detach().cpu().double().requires_grad_() for value in given)
    loss = -(target * logits(*wide).log_softmax(-1)).sum(-1).mean()
    return loss.detach(), *torch.autograd.grad(loss, wide)


def _error(loss: Tensor, given: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> float:
    """The largest difference of loss or gradient, over the largest value; NaN where there is one."""
    results = (loss.detach(), *torch.autograd.grad(loss, given))
    apart = [
        (result.cpu().double() - wanted).abs().max() / wanted.abs().max()
        for result, wanted in zip(results, expected, strict=True)
    ]
    return float(torch.stack(apart).max())
