"""Several steps as one batch of Lightning's loop, whose cost is then paid once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from seqsmooth.data import Batch, Batches
from seqsmooth.ops import checks


class Bundle:
    """The batches of a few steps, in a type that Lightning does not look into."""

    def __init__(self, steps: list[tuple[Batch, ...]]) -> None:
        self.steps = steps


class Bundles:
    """A loader of bundles that resumes in the middle of an epoch, at a step.

    Its state is how far batches were given out, so a checkpoint is exact where everything given out was learned.

    Args:
        batches: of the training split.
        size: steps a bundle.
        accumulate: batches a step; the last step of an epoch may have fewer.
    """

    def __init__(self, batches: Batches, size: int, accumulate: int = 1) -> None:
        self.batches = batches
        self.size = checks.at_least("trainer.bundle", size, 1)
        self.accumulate = checks.at_least("trainer.accumulate", accumulate, 1)
        self.epoch: Callable[[], int] | None = None
        """The epoch at hand, where somebody knows: Lightning makes two iterators where it resumes at an epoch's end."""

    @property
    def steps(self) -> int:
        """The number of steps of an epoch."""
        return -(-len(self.batches) // self.accumulate)

    def __len__(self) -> int:
        return -(-self.steps // self.size)

    def __iter__(self) -> Iterator[Bundle]:
        bundle: list[tuple[Batch, ...]] = []
        step: list[Batch] = []
        if self.epoch is not None:
            self.batches.set_epoch(self.epoch())
        for batch in self.batches:
            step.append(batch)
            if len(step) == self.accumulate:
                bundle.append(tuple(step))
                step = []
                if len(bundle) == self.size:
                    yield Bundle(bundle)
                    bundle = []
        if step:
            bundle.append(tuple(step))
        if bundle:
            yield Bundle(bundle)

    def state_dict(self) -> dict[str, Any]:
        """Return how far batches were given out."""
        return self.batches.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.batches.load_state_dict(state)
