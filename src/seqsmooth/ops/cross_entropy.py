"""The heart: cross entropy of logits against a soft target, c lse(z) - <q, z> = - <q, ln p>."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from seqsmooth.ops import checks, dispatch
from seqsmooth.ops.dispatch import finest
from seqsmooth.ops.soft_target import IGNORED, SoftTarget
from seqsmooth.ops.tables import masked_dot

Reduction = Literal["mean", "sum", "none"]
REDUCTIONS: tuple[Reduction, ...] = ("mean", "sum", "none")


class RowLosses(NamedTuple):
    """The result of one pass over N rows of logits: a number a row, or their sum over the number of items."""

    smoothed: Tensor
    """- <q, ln p> - w H(p); exactly 0 where the target is empty."""
    nll: Tensor
    """-ln p(label), without gradient; 0 where the label is empty."""


@dataclass(frozen=True, eq=False)
class Job:
    """The target, labels and reduction for N rows of logits; nothing here is checked any more."""

    target: SoftTarget  # of N positions, in any shape
    labels: Tensor | None = None  # of N positions, in any shape, for the unsmoothed NLL
    entropy_weights: Tensor | None = None  # (N,) weight of H(p), subtracted
    ignore_index: int = IGNORED
    reduced: bool = False
    """Whether losses are summed, multiplied by `factor` and divided by `items`; or else there is one a row."""
    items: Tensor | None = None  # (); nothing is divided by 0 of them
    factor: float = 1.0
    inplace: bool = False
    """Whether the gradient may take the memory of the logits, if the losses are reduced."""
    stream: torch.cuda.Stream | None = None
    """Where the target is still being made; None if that is the current one."""

    def wait(self) -> None:
        """Let the current stream wait for the target."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def __getitem__(self, part: slice | Tensor) -> Job:
        """Some of the rows."""
        flat = self.flat()
        labels = None if flat.labels is None else flat.labels[part]
        weights = None if self.entropy_weights is None else self.entropy_weights[part]
        return self._of(flat.target[part], labels, weights, reduced=self.reduced)

    def flat(self) -> Job:
        """The job with all positions in one dimension, for plain torch; the kernels need no such views."""
        labels = None if self.labels is None else self.labels.flatten()
        return self._of(self.target.flatten(), labels, self.entropy_weights, reduced=self.reduced)

    def per_row(self) -> Job:
        """The job without a reduction."""
        return self._of(self.target, self.labels, self.entropy_weights, reduced=False)

    def reduce(self, losses: RowLosses) -> RowLosses:
        """Losses of rows, reduced as asked."""
        if not self.reduced:
            return losses
        scale: Tensor | float = self.factor
        if self.items is not None:
            items = self.items.to(losses.smoothed.dtype)
            scale = self.factor / torch.where(items == 0, 1, items)
        return RowLosses(*(part.sum() * scale for part in losses))

    def _of(self, target: SoftTarget, labels: Tensor | None, weights: Tensor | None, *, reduced: bool) -> Job:
        """The job for other rows. `dataclasses.replace` would do, but not every torch.compile can follow it."""
        same = (self.items, self.factor, self.inplace, self.stream)
        return Job(target, labels, weights, self.ignore_index, reduced, *same)


def cross_entropy(
    logits: Tensor,  # (..., V)
    target: SoftTarget | Tensor,  # of shape (...)
    *,
    ignore_index: int = IGNORED,
    reduction: Reduction = "mean",
    num_items: Tensor | float | None = None,  # ()
    inplace: bool = False,
) -> Tensor:  # (), or (...) where not reduced
    """Cross entropy - sum_v q(v) ln p(v) against any soft target.

    With labels, or a target of one slot of weight 1, this is `torch.nn.functional.cross_entropy`. It differs where that
    one gives NaN: a mean over nothing is 0, logits of ignored positions may hold anything, and a target that gives no
    mass to a token does not mind that token's logit being minus infinity. Half-precision logits are summed in fp32.

    Args:
        logits: scores, of any float type.
        target: a `SoftTarget`, or plain labels.
        ignore_index: the id of an empty slot (or label).
        reduction: "mean" over the positions kept, "sum", or "none" (shape ...).
        num_items: what "mean" divides by instead: the number of targets of the whole step, when this call sees only one
            of its micro-batches.
        inplace: let the gradient take the memory of the logits, which are gone after the call, where the losses are
            reduced. Torch complains in the backward pass if the logits were needed.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0, 0.0]])
        >>> target = SoftTarget(torch.tensor([[0, 1]]), torch.tensor([[0.9, 0.1]]))
        >>> round(cross_entropy(logits, target).item(), 4)
        0.4395
    """
    checks.whole("ignore_index", ignore_index)
    target = as_target(target)
    check_positions("logits", logits, target, "V")
    target.check(logits.shape[-1], ignore_index, name="logits")
    checks.flag("inplace", inplace)
    job = reduced_job(target, reduction, num_items, ignore_index=ignore_index, inplace=inplace)
    result = losses(logits, job).smoothed
    return result if job.reduced else result.reshape(target.shape)


def reduced_job(
    target: SoftTarget,
    reduction: Reduction,
    num_items: Tensor | float | None,
    *,
    count: Tensor | None = None,
    labels: Tensor | None = None,
    entropy_weights: Tensor | None = None,
    ignore_index: int = IGNORED,
    inplace: bool = False,
) -> Job:
    """The job of a whole call, its reduction settled; "mean" is over `count` or what is kept."""
    check_divisor(reduction, num_items)
    items, factor = None, 1.0
    if isinstance(num_items, Tensor):
        items = num_items.reshape(()).to(target.ids.device)
    elif num_items is not None:
        factor = 1 / num_items
    elif reduction == "mean":
        items = target.kept(ignore_index).sum() if count is None else count
    return Job(target, labels, entropy_weights, ignore_index, reduction != "none", items, factor, inplace)


def losses(
    logits: Tensor,  # (..., V), of N rows
    job: Job,
) -> RowLosses:
    """Cross entropy, entropy and NLL of rows of logits, in one pass where it serves."""
    job.wait()
    engine = dispatch.engine(logits)
    if engine is not None:
        parts = engine.fitting(job.target)
        if parts is not None:
            return RowLosses(*dispatch.fused().row_losses(engine, logits, job, parts))
    return plain_losses(logits, job)


def plain_losses(
    logits: Tensor,  # (..., V), of N rows
    job: Job,
) -> RowLosses:
    """Cross entropy, entropy and NLL by formulas that autograd, `torch.func` and compilers can follow."""
    logits = logits.reshape(-1, logits.shape[-1])
    kept = job.target.kept(job.ignore_index).flatten()
    settled = job.target.settle(job.ignore_index)
    # Overwriting ignored rows, rather than multiplying them by 0, keeps their NaN and inf out of the gradient too.
    masked = logits.masked_fill(~kept.unsqueeze(-1), 0)
    log_probs = masked.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    chosen = log_probs.gather(-1, settled.ids)
    smoothed = -masked_dot(settled.weights.to(log_probs.dtype), chosen)
    for row in settled.rows:
        smoothed = smoothed - row.table.dot(log_probs, row.index, row.weights)
    if job.entropy_weights is not None:
        entropy = -masked_dot(log_probs.exp(), log_probs)
        smoothed = smoothed - job.entropy_weights.to(log_probs.dtype) * entropy
    labels = None if job.labels is None else job.labels.flatten()
    nll = _nll(log_probs.detach(), labels, job.ignore_index)
    return job.reduce(RowLosses(smoothed.masked_fill(~kept, 0), nll.masked_fill(~kept, 0)))


def as_target(target: SoftTarget | Tensor) -> SoftTarget:
    """Labels as a soft target; a soft target as it is."""
    if isinstance(target, SoftTarget):
        return target
    checks.must(isinstance(target, Tensor), "target", "a SoftTarget or a tensor of labels", checks.describe(target))
    checks.integers("target", target)
    return SoftTarget.from_labels(target, dtype=finest(target.device))


def check_positions(name: str, values: Tensor, target: SoftTarget, last: str, *, single: bool = False) -> None:
    """Check scores or states (..., `last`) against the positions of a target; if `single`, (B, T) for (B, 1, T)."""
    checks.floats(name, values)
    given: tuple[int, ...] = values.shape
    if single:
        given = (given[0], 1, *given[1:])
    if not given or given[:-1] != target.ids.shape[:-1]:
        given = tuple(given)
        lead = "".join(f"{size}, " for size in target.shape)
        raise checks.wrong(name, f"of shape ({lead}{last}), as the target", given)
    checks.device(name, values, target.ids.device)


def check_divisor(reduction: Reduction, num_items: Tensor | float | None) -> None:
    """Check how losses are reduced."""
    checks.one_of("reduction", reduction, REDUCTIONS)
    if num_items is None:
        return
    checks.must(reduction == "mean", "num_items", f"left out with reduction={reduction!r}", num_items)
    if isinstance(num_items, Tensor):
        checks.must(not num_items.is_complex(), "num_items", "a real number", num_items.dtype)
        checks.must(num_items.numel() == 1, "num_items", "a single number", f"of shape {tuple(num_items.shape)}")
        if checks.visible(num_items):
            checks.must(bool(num_items > 0), "num_items", "greater than 0", num_items.item())
    else:
        checks.positive("num_items", num_items)


def _nll(log_probs: Tensor, labels: Tensor | None, ignore_index: int) -> Tensor:
    if labels is None:
        return log_probs.new_zeros(log_probs.shape[0])
    empty = labels == ignore_index
    return -log_probs.gather(-1, labels.masked_fill(empty, 0).unsqueeze(-1)).squeeze(-1).masked_fill(empty, 0)
