"""Which batches make a step, and which steps a bundle."""

from __future__ import annotations

import pytest

from seqsmooth.training.bundles import Bundles


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("accumulate", [1, 2, 3, 10])
def test_every_batch_is_in_one_step_and_every_step_in_one_bundle(size: int, accumulate: int) -> None:
    """However the numbers go into each other, what is left makes the last step and the last bundle."""
    batches = range(7)
    bundles = Bundles(batches, size, accumulate)  # type: ignore[arg-type]
    made = list(bundles)
    steps = [step for bundle in made for step in bundle.steps]
    assert [batch for step in steps for batch in step] == list(batches)
    assert {len(step) for step in steps[:-1]} <= {accumulate}
    assert {len(bundle.steps) for bundle in made[:-1]} <= {size}
    assert (len(made), len(steps)) == (len(bundles), bundles.steps)
