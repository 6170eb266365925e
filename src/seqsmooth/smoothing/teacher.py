"""`Teacher`: the distribution of another model, as a distillation store keeps it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.ops.pools import is_any
from seqsmooth.ops.sampling import Generator
from seqsmooth.ops.soft_target import TAILS, Rows, SoftTarget, Tail
from seqsmooth.smoothing.law import checksum
from seqsmooth.smoothing.records import Setting
from seqsmooth.smoothing.token_law import TokenLaw
from seqsmooth.smoothing.uniform import scale


class Teacher(TokenLaw):
    """S is the teacher's distribution at the position, whatever the token: M_t = (1 - alpha) I + alpha 1 t_t.

    With `GroundTruth` and alpha = 1 the loss is top-k forward KL up to the teacher's entropy, which is constant. The
    teacher belongs to a batch, so the objective is made anew for each one; that costs microseconds. Its distributions
    are those of the ground truth's prefix: sampled sequences need `lazy=True`. A position for which the store has
    nothing keeps its own target.

    Args:
        ids: the teacher's best tokens at each position.
        logprobs: their log-probabilities; minus infinity is padding.
        tail: what becomes of the rest of the mass, see `SoftTarget.from_topk`.
        alpha: the share that follows the teacher.

    Examples:
        >>> import seqsmooth as ss
        >>> ids, logprobs = torch.tensor([[[3, 1]]]), torch.tensor([[[0.6, 0.2]]]).log()  # one position, its two best
        >>> law = Teacher(ids, logprobs, tail="renormalise", alpha=0.5)
        >>> ss.Objective(token=law).propose(torch.tensor([[2]])).target.dense(4)[0, 0].float()
        tensor([[0.0000, 0.1250, 0.5000, 0.3750]])
    """

    name = "teacher"
    true_prefix_only = True
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

    def spread(self, target: SoftTarget, setting: Setting, generator: Generator | None) -> SoftTarget:
        """A share of the target, and the teacher's slots at each of its positions; where it has none, the target."""
        logprobs = self._logprobs(setting)
        batch, _, steps = target.shape
        checks.must(
            (batch, steps) == self.ids.shape[:2],
            "targets",
            f"of shape (B, T) = {tuple(self.ids.shape[:2])}, as the teacher's `ids`",
            (batch, steps),
        )
        teacher = SoftTarget.from_topk(
            self.ids,
            logprobs,
            tail=self.tail,
            vocab_size=setting.vocab_size,
            excluded=setting.specials.ids("unsmoothed"),
        )
        mass = target.settle().mass().view(batch, 1, steps, 1)
        listed = (logprobs > -math.inf).any(-1)[:, None, :, None]
        share = self.alpha * listed.to(mass.dtype)
        rows = tuple(
            Rows(row.table, row.index.unsqueeze(1), share * mass * row.weights.unsqueeze(1).to(mass.dtype))
            for row in teacher.rows
        )
        rest = scale(target, 1 - share, *rows)
        ids = torch.cat([rest.ids, teacher.ids.unsqueeze(1)], -1)
        weights = torch.cat([rest.weights, share * mass * teacher.weights.unsqueeze(1).to(mass.dtype)], -1)
        return SoftTarget(ids, weights, rest.rows)

    def options(self, setting: Setting | None = None) -> dict[str, object]:
        """The kind of store."""
        store = checksum(self.ids, self.logprobs if setting is None else self._logprobs(setting))
        return {"k": self.ids.shape[-1], "crc": store, "tail": self.tail, "alpha": self.alpha}

    def _logprobs(self, setting: Setting) -> Tensor:  # (B, T, K)
        """Without the tokens that get no mass, as if the store did not list them."""
        return self.logprobs.masked_fill(is_any(self.ids, setting.specials.ids("unsmoothed")), -math.inf)
