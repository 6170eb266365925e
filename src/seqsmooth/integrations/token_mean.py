"""`TokenMean`: a LightningModule whose tokens all count the same, however a step is cut into batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.smoothing import Loss


class TokenMean:
    """A mixin for a `LightningModule`: `class MyModule(TokenMean, LightningModule): ...`.

    Lightning divides the loss of each micro-batch by the number of them, and DDP averages over processes. So tokens of
    short batches count for more than others, and a step depends on how it was cut (Lightning-AI/pytorch-lightning
    #20350). Here the losses of a step are summed, and the gradient is divided by all their tokens, of all processes,
    before it is clipped.

    It works with automatic optimisation and gradients that are averaged over processes, as DDP's.
    """

    trainer: Any
    _tokens: Tensor | None = None  # () of this process since the last step

    def summed(self, loss: Loss) -> Tensor:  # ()
        """What `training_step` returns: the loss of a micro-batch, a mean over its tokens, as their sum."""
        rule = "the Loss that an objective returns, whose tokens are counted"
        checks.must(isinstance(loss, Loss), "loss", rule, checks.described(loss))
        tokens = loss.tokens.detach().clone()
        self._tokens = tokens if self._tokens is None else self._tokens + tokens
        parts: int = self.trainer.accumulate_grad_batches  # by which Lightning will divide
        return loss.total * (tokens * parts)

    def on_train_start(self) -> None:
        """Forget a step that an earlier training did not finish."""
        super().on_train_start()  # type: ignore[misc]
        self._tokens = None

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradient by the tokens of the step."""
        super().on_before_optimizer_step(optimizer)  # type: ignore[misc]
        checks.must(self._tokens is not None, "training_step", "one that returns `self.summed(loss)`", "another")
        held = (value.grad for group in optimizer.param_groups for value in group["params"])
        gradients = [gradient for gradient in held if gradient is not None]
        rule = "where the parameters are (not with DeepSpeed, which keeps its own)"
        checks.must(len(gradients) > 0, "the gradients", rule, "elsewhere")
        tokens = self.trainer.strategy.reduce(self._tokens, reduce_op="sum")
        torch._foreach_mul_(gradients, self.trainer.world_size / tokens.clamp_min(1))
        self._tokens = None
