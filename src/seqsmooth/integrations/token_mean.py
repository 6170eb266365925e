"""`TokenMean`: a LightningModule whose tokens all count the same, however a step is cut into batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.smoothing import Loss


class TokenMean:
    """A mixin for a `LightningModule`: `class MyModule(TokenMean, LightningModule): ...`.

    Lightning averages the losses of micro-batches, and DDP those of processes, so tokens of short batches count for
    more (Lightning-AI/pytorch-lightning#20350). Here the losses of a step are summed, and before it is clipped the
    gradient is divided by the tokens of all micro-batches and processes.

    It needs automatic optimisation and a strategy that averages gradients over processes, as DDP does.
    """

    trainer: Any
    _tokens: Tensor | None = None  # () of this process since the last step

    def summed(self, loss: Loss) -> Tensor:  # ()
        """The loss of a micro-batch as a sum over its tokens: what `training_step` returns."""
        rule = "the Loss that an objective returns, whose tokens are counted"
        checks.must(isinstance(loss, Loss), "loss", rule, checks.describe(loss))
        tokens = loss.tokens.detach().clone()
        self._tokens = tokens if self._tokens is None else self._tokens + tokens
        micro_batches: int = self.trainer.accumulate_grad_batches  # Lightning divides by it
        return loss.total * (tokens * micro_batches)

    def on_train_start(self) -> None:
        """Forget a step that an earlier training did not finish."""
        super().on_train_start()  # type: ignore[misc]
        self._tokens = None

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradient by the tokens of the step."""
        super().on_before_optimizer_step(optimizer)  # type: ignore[misc]
        sentence = "No tokens were counted in this step; return `self.summed(loss)` from `training_step`."
        checks.require(self._tokens is not None, sentence)
        parameters = [value for group in optimizer.param_groups for value in group["params"]]
        gradients = [value.grad for value in parameters if value.grad is not None]
        sentence = (
            "The parameters have no gradients to divide; TokenMean does not work with DeepSpeed, which hides them."
        )
        checks.require(len(gradients) > 0, sentence)
        tokens = self.trainer.strategy.reduce(self._tokens, reduce_op="sum")
        torch._foreach_mul_(gradients, self.trainer.world_size / tokens.clamp_min(1))
        self._tokens = None
