"""`Refresh`: a law made from a model's embeddings follows them as they are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from seqsmooth.ops import checks
from seqsmooth.smoothing.objective import Objective
from seqsmooth.smoothing.similarity import Similarity
from seqsmooth.smoothing.token_matrix import KeptMatrix, check_shapes

_CHOICES = ("tau", "beta", "mode", "k", "tail", "scale")


class Refresh:
    """Makes the similarity law of an objective anew every n steps, in place.

    Nothing but tables changes: shapes and addresses stay, so that a captured CUDA graph goes on with the new ones.

    Args:
        objective: one whose `token` is a `Similarity`.
        make: makes the law, as `lambda: Similarity.from_model(model, tau=0.2)`.
        every: n.

    Examples:
        >>> import seqsmooth as ss
        >>> model = torch.nn.Embedding(10, 4)
        >>> def make():
        ...     return ss.Similarity.from_model(model, tau=0.2)
        >>> objective = ss.Objective(token=make())
        >>> optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> handle = Refresh(objective, make, every=100).attach(optimiser)
    """

    def __init__(self, objective: Objective, make: Callable[[], Similarity], *, every: int) -> None:
        checks.must(isinstance(objective, Objective), "objective", "an Objective", checks.describe(objective))
        token = objective.token
        checks.must(
            isinstance(token, Similarity), "objective", "one with a Similarity", f"one with {type(token).__name__}"
        )
        rule = "a function that makes a Similarity, as `lambda: Similarity.from_model(model, tau=0.2)`"
        makes = callable(make) and not isinstance(make, nn.Module)  # a law would be called when its turn comes
        checks.must(makes, "make", rule, checks.describe(make))
        self.objective = objective
        self.make = make
        self.every = checks.at_least("every", every, 1)
        self.steps = 0

    def step(self) -> bool:
        """Count one training step; True where the law was made anew."""
        self.steps += 1
        due = self.steps % self.every == 0
        if due:
            self.now()
        return due

    @torch.no_grad()
    def now(self) -> None:
        """Make the law anew, and whatever the sequence law keeps of it."""
        objective, token = self.objective, self.objective.token
        assert isinstance(token, Similarity)
        fresh = self.make()
        checks.must(isinstance(fresh, Similarity), "make", "a function that gives a Similarity", checks.describe(fresh))
        same = all(getattr(fresh, name) == getattr(token, name) for name in _CHOICES)
        checks.must(same, "make", "a function that gives the same law with other tables", "one that gives another law")
        tables = objective.token_tables
        assert isinstance(tables, KeptMatrix)
        fresh = fresh.to(token.units.device)
        renewed = fresh.prepare(objective.setting)
        check_shapes(tables, renewed, KeptMatrix.NAMES)  # before anything is written over
        token.take(fresh)
        tables.take(renewed)
        sequence_tables = objective.sequence.prepare(objective.setting)
        if objective.sequence_tables is not None and sequence_tables is not None:
            values = dict(sequence_tables.named_buffers())
            for name, buffer in objective.sequence_tables.named_buffers():
                buffer.copy_(values[name])

    def attach(self, optimiser: torch.optim.Optimizer) -> Any:
        """Count a step whenever the optimiser takes one; `remove()` of what it returns ends that."""
        rule = "a torch.optim.Optimizer (a Trainer's is made by `trainer.create_optimizer()`)"
        checks.must(hasattr(optimiser, "register_step_post_hook"), "optimiser", rule, checks.describe(optimiser))

        def taken(*_: object) -> None:
            self.step()

        return optimiser.register_step_post_hook(taken)
