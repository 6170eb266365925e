"""One step of training: propose, decode, loss, gradient, clip, update."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqsmooth.data import Batch
from seqsmooth.models import Model
from seqsmooth.ops import checks
from seqsmooth.ops.sampling import Generator
from seqsmooth.smoothing import Candidates, Loss, Objective


@dataclass(frozen=True, eq=False)
class Report:
    """What a step tells: numbers on the device, to be read now and then, not at every step.

    Examples:
        >>> from seqsmooth.smoothing import label_smoothing
        >>> loss = label_smoothing(0.1)(torch.zeros(1, 2, 4), torch.tensor([[3, -100]]))
        >>> report = Report(loss, norm=torch.tensor(0.5))
        >>> f"{report.loss.nll:.4f} {report.norm:.1f}"  # reading them waits for the device
        '1.3863 0.5'
    """

    loss: Loss
    norm: Tensor | None  # () of the gradient before clipping; None without clipping


class TrainingStep:
    """Call it with a batch, and the model has learned from it. Nothing on the way looks at the host.

    When lazy, the decoder reads the ground truth whatever is drawn. So on a GPU the objective draws and scores on a
    stream of its own while the model computes, and the two meet at the loss.

    Args:
        model: what learns.
        objective: what it should learn; its specials must have a BOS.
        optimizer: over the model's parameters. One that is fused also clips, in the same pass over the gradient.
        clip: the largest norm of the whole gradient.
        autocast: the type of the arithmetic of model and head, as torch.bfloat16; by default that of the parameters.
        generator: source of the samples; torch's global one by default.
        world: how many processes of `torch.distributed` learn together. The gradient is the sum of theirs, so each
            batch must know the `tokens` of the batches of all of them.

    Examples:
        >>> import seqsmooth as ss
        >>> from seqsmooth.models import ShowTell
        >>> _ = torch.manual_seed(0)
        >>> model = ShowTell(vocab_size=50, feature_size=8, embedding_size=16, units=16, embedding_dropout=0.0)
        >>> objective = ss.label_smoothing(0.1, specials=ss.Specials(pad=0, bos=1, eos=2), vocab_size=50)
        >>> batch = Batch((torch.randn(2, 8),), torch.tensor([[4, 5, 2], [6, 2, 0]]))
        >>> step = TrainingStep(model, objective, adam(model.parameters(), lr=0.01), clip=5.0)
        >>> first, *_, last = [float(step(batch).loss.nll) for _ in range(20)]
        >>> last < first
        True
    """

    def __init__(
        self,
        model: Model[Any, Any],
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        clip: float | None = None,
        autocast: torch.dtype | None = None,
        generator: Generator | None = None,
        world: int = 1,
    ) -> None:
        checks.must(isinstance(model, Model), "model", "a seqsmooth.models.Model", checks.describe(model))
        checks.must(isinstance(objective, Objective), "objective", "an Objective", checks.describe(objective))
        known, wide = objective.vocab_size, model.head.weight.shape[0]
        checks.must(known in (None, wide), "objective", f"over the model's {wide} tokens", f"over {known}")
        bos = objective.specials.bos
        checks.must(bos is not None, "objective.specials.bos", "given, for the decoder starts from it", None)
        home = model.head.weight.device
        for buffer in objective.buffers():
            checks.device("objective", buffer, home, " of the model (`objective.to(...)` moves it)")
        self.model = model
        self.objective = objective
        self.optimizer = optimizer
        self.clip = None if clip is None else checks.positive("clip", clip)
        self.autocast = autocast
        self.generator = generator
        self.world = checks.at_least("world", world, 1)
        self.parameters = [value for group in optimizer.param_groups for value in group["params"]]
        self.device = home
        apart = home.type == "cuda" and objective.lazy
        # Proposals are small, and run before kernels of the model that wait.
        self._aside = torch.cuda.Stream(home, priority=-1) if apart else None  # type: ignore[no-untyped-call]

    def __call__(self, *batches: Batch) -> Report:
        """Learn from a batch, or from several as if they were one: their gradients are accumulated."""
        self.optimizer.zero_grad(set_to_none=True)
        losses, whole = [], self.whole(batches)
        for batch in batches:
            loss = self.loss(batch, whole)
            loss.total.backward()  # type: ignore[no-untyped-call]
            losses.append(Loss(loss.total.detach(), loss.nll, loss.tokens, loss.ess))
        norm = self._update()
        return Report(_together(losses), norm)

    def loss(
        self,
        batch: Batch,
        num_items: Tensor | None = None,  # ()
    ) -> Loss:
        """The loss of a batch, ready for its backward pass: a mean over its tokens, or over so many items."""
        with torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None):
            if self.objective.lazy:
                candidates = self._propose(batch, self._aside)
                # What `candidates.inputs` are when lazy, without waiting for the candidates.
                hidden = self.model(batch.inputs, self.objective.truth(batch.targets).inputs)
            else:
                candidates = self._propose(batch)
                hidden = self.model(batch.inputs, candidates.inputs)
            head = self.model.head
            return self.objective.head(hidden, head.weight, candidates, head.bias, num_items=num_items)

    def whole(self, batches: tuple[Batch, ...]) -> Tensor | None:  # ()
        """What the losses of batches are divided by; None for the tokens of the only one."""
        rule = "batches that know the tokens of all processes"
        checks.must(self.world == 1 or all(batch.tokens is not None for batch in batches), "batches", rule, "not")
        if len(batches) == 1:
            return batches[0].tokens
        counts = [
            self.objective.truth(batch.targets).mask.sum() if batch.tokens is None else batch.tokens
            for batch in batches
        ]
        return torch.stack(counts).sum()

    def _propose(self, batch: Batch, stream: torch.cuda.Stream | None = None) -> Candidates:
        with torch.autocast(self.device.type, enabled=False):  # weights and rewards are few, and keep their precision
            return self.objective.propose(
                batch.targets, references=batch.references, generator=self.generator, stream=stream
            )

    def _update(self) -> Tensor | None:
        if self.world > 1:
            self._sum_gradients()
        if self.clip is None:
            self.optimizer.step()
            return None
        gradients = [value.grad for value in self.parameters if value.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not all(group.get("fused") for group in self.optimizer.param_groups):
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip, norm)
            self.optimizer.step()
            return norm
        # A fused optimiser divides the gradient by this number as it reads it, as it does for a GradScaler: one pass
        # over all parameters less. The same 1e-6 as in `clip_grad_norm_`.
        optimizer: Any = self.optimizer
        optimizer.grad_scale = ((norm + 1e-6) / self.clip).clamp_min(1)
        try:
            optimizer.step()
        finally:
            del optimizer.grad_scale
        return norm

    def _sum_gradients(self) -> None:
        """Sum those of all processes, in one message."""
        for value in self.parameters:
            if value.grad is None:
                value.grad = torch.zeros_like(value)
        gradients = [value.grad for value in self.parameters]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        torch.distributed.all_reduce(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def _together(losses: list[Loss]) -> Loss:
    """The losses of parts of a batch as that of the whole."""
    if len(losses) == 1:
        return losses[0]
    total, nll, tokens, ess = (
        torch.stack([getattr(loss, name) for loss in losses]) for name in ("total", "nll", "tokens", "ess")
    )
    return Loss(total.sum(), nll.sum(), tokens.sum(), ess.mean())


def adam(
    parameters: Iterable[torch.nn.Parameter] | Iterable[dict[str, Any]],
    lr: float,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> torch.optim.Adam | torch.optim.AdamW:
    """Adam in one launch, which can be captured; its learning rate is a tensor: `group["lr"].fill_(...)` changes it.

    Groups of parameters may have an `lr` of their own, which becomes a tensor, too, and is kept as `initial_lr`.
    Where `decoupled`, the decay of the weights is apart from the gradient (AdamW, Loshchilov and Hutter 2019).

    Examples:
        >>> optimizer = adam(torch.nn.Linear(3, 2).parameters(), lr=5e-4)
        >>> optimizer.param_groups[0]["lr"]
        tensor(0.0005)
        >>> _ = optimizer.param_groups[0]["lr"].fill_(1e-4)  # captured steps see it
    """
    given: list[Any] = list(parameters)
    groups: list[dict[str, Any]] = given if given and isinstance(given[0], dict) else [{"params": given}]
    everything = [value for group in groups for value in group["params"]]
    checks.must(len(everything) > 0, "parameters", "one or more", "none")
    home = everything[0].device
    rates = [checks.non_negative("lr", group.get("lr", lr)) for group in groups]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    return kind(
        [
            {**group, "lr": torch.tensor(rate, device=home), "initial_lr": rate}
            for group, rate in zip(groups, rates, strict=True)
        ],
        betas=betas,
        eps=eps,
        weight_decay=weight_decay,
        fused=True,
        capturable=home.type == "cuda",
    )
