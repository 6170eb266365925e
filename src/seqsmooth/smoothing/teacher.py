"""`Teacher`: the distribution of another model, as a distillation store keeps it."""

from __future__ import annotations

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.soft_target import TAILS, Rows, SoftTarget, Tail
from seqsmooth.ops.tables import Table
from seqsmooth.smoothing.token_law import TokenLaw
from seqsmooth.smoothing.uniform import thinned


class Teacher(TokenLaw):
    """S is the teacher's distribution at the position, whatever the token: M_t = (1 - alpha) I + alpha 1 t_t.

    With `GroundTruth` and alpha = 1 the loss is top-k forward KL up to the teacher's entropy, which is constant. The
    teacher belongs to a batch, so the objective is made anew for each one; that costs microseconds. Its distributions
    are those of the ground truth's prefix: sampled sequences need `lazy=True`.

    Args:
        ids: the teacher's best tokens at each position.
        logprobs: their log-probabilities; minus infinity is padding.
        tail: what becomes of the rest of the mass, see `SoftTarget.from_topk`.
        alpha: the share that follows the teacher.
    """

    name = "teacher"
    ids: Tensor
    logprobs: Tensor

    def __init__(
        self,
        ids: Tensor,  # (B, T, K) int64
        logprobs: Tensor,  # (B, T, K)
        *,
        tail: Tail = "zero",
        alpha: float = 1.0,
    ) -> None:
        super().__init__(alpha)
        checks.shape("ids", ids, None, None, None, letters="(B, T, K)")
        self.tail: Tail = tail
        checks.one_of("tail", tail, TAILS)
        SoftTarget.from_topk(ids, logprobs)  # which checks them, now rather than at the first step
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("logprobs", logprobs, persistent=False)

    def spread(
        self,
        target: SoftTarget,
        *,
        vocab_size: int | None,
        generator: torch.Generator | None,
        mixed: Table | None = None,
    ) -> SoftTarget:
        """A share of the target, and the teacher's slots at each of its positions."""
        batch, _, steps = target.shape
        checks.must(
            (batch, steps) == self.ids.shape[:2],
            "targets",
            f"of shape (B, T) = {tuple(self.ids.shape[:2])}, as the teacher's `ids`",
            (batch, steps),
        )
        teacher = SoftTarget.from_topk(self.ids, self.logprobs, tail=self.tail, vocab_size=vocab_size)
        mass = self.alpha * target.settle().mass().unsqueeze(-1)  # (B, 1, T, 1)
        rows = tuple(
            Rows(row.table, row.index.unsqueeze(1), mass * row.weights.unsqueeze(1).to(mass.dtype))
            for row in teacher.rows
        )
        rest = thinned(target, 1 - self.alpha, *rows)
        ids = torch.cat([rest.ids, teacher.ids.unsqueeze(1)], -1)
        weights = torch.cat([rest.weights, mass * teacher.weights.unsqueeze(1).to(mass.dtype)], -1)
        return SoftTarget(ids, weights, rest.rows)

    def options(self) -> dict[str, object]:
        """The kind of store."""
        return {"k": self.ids.shape[-1], "tail": self.tail, "alpha": self.alpha}
