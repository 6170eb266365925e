"""Whether runs belong into one row of a table: they do where they differ in their seed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seqsmooth.training.reader import completed, differences, listed_keys
from seqsmooth.training.runs import FREE

UNLIKE = (*FREE, "name", "seed", "trainer.device", "trainer.bundle")
"""Keys in which the runs of a row may differ: none changes what is learned but the seed."""


@dataclass(frozen=True)
class Member:
    """A run of a row.

    Attributes:
        called: how to name it to people.
        seed: of the run.
        config: resolved, as a plain mapping.
        data: the fingerprint of its corpus.
        decoding: what was decoded otherwise than the config says, or all of how it was decoded.
    """

    called: str
    seed: int
    config: Mapping[str, Any]
    data: str
    decoding: Mapping[str, Any]


def check_row(label: str, members: Sequence[Member]) -> None:
    """Check that the runs of a row can be averaged: a mean over other settings would be nobody's score."""
    first, *others = members
    known = {first.seed: first.called}
    config = completed(first.config)
    for other in others:
        keys = [key for key in differences(config, completed(other.config)) if key not in UNLIKE]
        parts = [listed_keys(keys)] if keys else []
        parts += ["their corpus"] if first.data != other.data else []
        parts += ["how they were decoded"] if first.decoding != other.decoding else []
        if parts:
            raise ValueError(
                f"The runs of a row must differ in their seed alone (another `row` in a config makes another row), but "
                f"those of {label!r}, {first.called} and {other.called}, differ in {' and '.join(parts)}."
            )
        if other.seed in known:
            raise ValueError(
                f"The runs of a row must be of different seeds, but those of {label!r}, {known[other.seed]} and "
                f"{other.called}, are both of seed {other.seed}."
            )
        known[other.seed] = other.called
