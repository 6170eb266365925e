"""Which metrics belong to which task: the one place that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seqsmooth import checks

BLEUS = ("bleu-1", "bleu-2", "bleu-3", "bleu-4")
NAMES = (*BLEUS, "rouge-l", "cider", "meteor", "spice", "sacrebleu", "sacrebleu-13a")
"""All metrics, by the names that commands and configs call them."""


@dataclass(frozen=True)
class Task:
    """The metrics of a task.

    Attributes:
        metrics: the metrics that `seqsmooth decode` calculates by default.
        main: what decides between two systems.
        second: what tables put beside it.
        table: the columns of a table, where the runs have them.
        quick: what a run is scored by where nobody has scored it, without Java.
        output: what the systems write, as pages call it.
    """

    metrics: tuple[str, ...]
    main: str
    second: str
    table: tuple[str, ...]
    quick: tuple[str, ...]
    output: str


TASKS = {
    "captions": Task(
        metrics=(*BLEUS, "rouge-l", "cider", "meteor", "spice"),
        main="cider",
        second="bleu-4",
        table=("bleu-1", "bleu-4", "rouge-l", "meteor", "cider", "spice"),
        quick=("bleu-1", "bleu-4", "rouge-l", "cider"),
        output="captions",
    ),
    "translation": Task(
        metrics=("sacrebleu", "bleu-4"),
        main="sacrebleu",
        second="sacrebleu-13a",
        table=("sacrebleu", "sacrebleu-13a"),
        quick=("sacrebleu",),
        output="translations",
    ),
}
"""By the name that a prepared corpus and the manifest of a run call it."""


def check_names(names: Sequence[str], key: str = "metrics") -> None:
    """Check that all of them are metrics."""
    for name in names:
        checks.one_of(key, name, NAMES)
