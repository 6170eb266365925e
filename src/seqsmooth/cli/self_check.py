"""Our losses and their gradients against the formula in float64, on every device of this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.packages import describe_error

LIMITS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class LossCheck:
    """A loss on a device: how far it and its gradients are from the formula, and how far they may be."""

    name: str
    error: float
    limit: float
    failure: str | None = None
    """Why there is nothing to compare."""

    @property
    def passed(self) -> bool:
        """Whether the error is within the limit; NaN is not."""
        return self.error <= self.limit

    def __str__(self) -> str:
        reason = f"{self.error:.1e} (at most {self.limit:.0e})" if self.failure is None else self.failure
        return f"  {self.name:<48} {'ok' if self.passed else 'WRONG':<6} {reason}"


def check_losses() -> Iterator[LossCheck]:
    """Check the losses on the CPU, and on the GPU where there is one."""
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return (check for device in devices for check in _check_on(torch.device(device)))


def _check_on(device: torch.device) -> Iterator[LossCheck]:
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
) -> LossCheck:
    """The largest error of a loss and its gradients, relative to the largest of the exact values."""
    try:
        leaves = tuple(value.detach().requires_grad_() for value in given)
        loss = ours(*leaves)
        results = (loss.detach(), *torch.autograd.grad(loss, leaves))
    except Exception as error:  # noqa: BLE001 - whatever stops the loss here is what the doctor is asked about
        return LossCheck(name, math.nan, limit, describe_error(error))
    wide = tuple(value.detach().cpu().double().requires_grad_() for value in given)
    exact = -(target * logits(*wide).log_softmax(-1)).sum(-1).mean()
    expected = (exact.detach(), *torch.autograd.grad(exact, wide))
    errors = [
        (result.cpu().double() - wanted).abs().max() / wanted.abs().max()
        for result, wanted in zip(results, expected, strict=True)
    ]
    return LossCheck(name, float(torch.stack(errors).max()), limit)
