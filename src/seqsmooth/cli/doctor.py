"""`seqsmooth doctor`: what is installed, what each missing thing is for, what works, and whether it is right."""

from __future__ import annotations

import argparse
import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.cli.surroundings import DATA, data, packages, trials
from seqsmooth.ops import dispatch
from seqsmooth.packages import describe_error
from seqsmooth.version import __version__

EXAMPLE = """\
example:
  seqsmooth doctor
  seqsmooth doctor --data corpora --full
"""
Found = TypeVar("Found")
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Finding:
    """One check: what was compared, how far apart it was, and how far it may be."""

    name: str
    error: float
    limit: float
    failure: str | None = None
    """Why there is nothing to compare."""

    @property
    def good(self) -> bool:
        """Whether it is near enough; NaN is not."""
        return self.error <= self.limit

    def __str__(self) -> str:
        told = f"{self.error:.1e} (at most {self.limit:.0e})" if self.failure is None else self.failure
        return f"  {self.name:<48} {'ok' if self.good else 'WRONG':<6} {told}"


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLE
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=f"look for data here (default ${DATA}, or ./data)")
    parser.add_argument("--full", action="store_true", help="run METEOR, too: ten seconds and two gigabytes")


def start(given: argparse.Namespace) -> int:
    """Print the findings; return 0 where all is well and 1 otherwise. What is merely missing is no fault."""
    for name, value in about().items():
        print(f"{name:<12} {value}")
    _list("packages:", packages())
    _list("data:", data(given.data))
    tried = list(_shown("works", trials(full=given.full)))
    found = list(_shown("self-check   our losses and gradients against float64", examined()))
    well = all(trial.works is not False for trial in tried) and all(finding.good for finding in found)
    print("All is well." if well else "Something is wrong: please report the lines above.")
    return 0 if well else 1


def about() -> dict[str, str]:
    """The versions that matter most, in words."""
    return {
        "seqsmooth": __version__,
        "python": f"{platform.python_version()} on {platform.system()}",
        "torch": torch.__version__,
        "GPU": gpu(),
        "kernels": kernels(),
    }


def examined() -> Iterator[Finding]:
    """The findings on all devices."""
    return (finding for device in devices() for finding in examine(device))


def _list(title: str, lines: Iterable[str]) -> None:
    print(title, *lines, sep="\n", flush=True)


def _shown(title: str, found: Iterable[Found]) -> Iterator[Found]:
    """Print each as it is found: some take their time."""
    print(f"{title}:", flush=True)
    for one in found:
        print(one, flush=True)
        yield one


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


def examine(device: torch.device) -> Iterator[Finding]:
    """Compare losses of ours with the formula in float64: the largest error of loss and gradients."""
    generator = torch.Generator().manual_seed(0)
    rows, vocab, hidden = 24, 1003, 32
    shapes = ((rows, vocab), (rows, hidden), (vocab, hidden), (vocab, 16))
    logits, states, weight, vectors = (torch.randn(shape, generator=generator) for shape in shapes)
    labels = torch.randint(vocab, (rows,), generator=generator)
    units = torch.nn.functional.normalize(vectors.double(), dim=-1)
    same = torch.nn.functional.one_hot(labels, vocab).double()
    targets = labels.unsqueeze(0).to(device)
    cases = {
        "MLE": (ss.mle(), same),
        "label smoothing": (ss.label_smoothing(0.1, vocab_size=vocab), 0.9 * same + 0.1 / vocab),
        "Tok": (
            ss.tok(vectors, tau=0.3, alpha=0.5),
            0.5 * same + 0.5 * torch.softmax(units[labels] @ units.T / 0.3, -1),
        ),
        "Seq": (ss.seq(rate=0.3, vocab_size=vocab), 0.7 * same + 0.3 / (vocab - 1) * (1 - same)),
    }
    for name, (objective, target) in cases.items():
        ours = objective.to(device)

        def from_logits(given: Tensor, ours: ss.Objective = ours) -> Tensor:
            return ours(given.unsqueeze(0), targets).total  # type: ignore[no-any-return]

        def from_hidden(given: Tensor, matrix: Tensor, ours: ss.Objective = ours) -> Tensor:
            return ours.head(given.unsqueeze(0), matrix, targets).total

        for dtype, limit in LIMITS.items():
            kind = str(dtype).removeprefix("torch.")
            given = (logits.to(device, dtype),)
            yield _compare(f"{name}, {kind}, {device.type}", given, from_logits, lambda z: z, target, limit)
        parts = (states.to(device), weight.to(device))
        limit = LIMITS[torch.float32]
        title = f"{name} from hidden states, float32, {device.type}"
        yield _compare(title, parts, from_hidden, lambda h, w: h @ w.T, target, limit)


def _compare(
    name: str,
    given: tuple[Tensor, ...],
    ours: Callable[..., Tensor],
    logits: Callable[..., Tensor],
    target: Tensor,  # (N, V) float64
    limit: float,
) -> Finding:
    try:
        leaves = tuple(value.detach().requires_grad_() for value in given)
        loss = ours(*leaves)
        results = (loss.detach(), *torch.autograd.grad(loss, leaves))
    except Exception as error:  # noqa: BLE001 - whatever stops the loss here is what the doctor is asked about
        return Finding(name, math.nan, limit, describe_error(error))
    wide = tuple(value.detach().cpu().double().requires_grad_() for value in given)
    exact = -(target * logits(*wide).log_softmax(-1)).sum(-1).mean()
    expected = (exact.detach(), *torch.autograd.grad(exact, wide))
    apart = [
        (result.cpu().double() - wanted).abs().max() / wanted.abs().max()
        for result, wanted in zip(results, expected, strict=True)
    ]
    return Finding(name, float(torch.stack(apart).max()), limit)
