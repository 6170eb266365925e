"""Runs as rows of tables: those that differ in nothing but their seed are one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqsmooth.metrics.bootstrap import Comparison, compare
from seqsmooth.metrics.report import Report
from seqsmooth.metrics.scores import Floats, Scores
from seqsmooth.metrics.suite import check_names
from seqsmooth.metrics.tasks import TASKS
from seqsmooth.ops import checks
from seqsmooth.reports.alike import Member, check_row
from seqsmooth.reports.losses import LossName, name_loss
from seqsmooth.training.evaluation import Judge
from seqsmooth.training.runs import Run
from seqsmooth.training.writing import check_own

ORDER = (
    "MLE",
    "MLE + gamma H",
    "Label smoothing",
    "Label smoothing + gamma H",
    "Tok",
    "Tok + gamma H",
    "Seq",
    "Tok-Seq",
)


@dataclass(frozen=True, eq=False)
class Row:
    """The runs of one loss, by seed.

    Attributes:
        label: what names it; different from all others of its table.
        table: what it is a row of.
        loss: the same in the paper's columns.
        runs: by seed, in order.
        scores: for each run its scores, by metric.
    """

    label: str
    table: str
    loss: LossName
    runs: tuple[Run, ...]
    scores: tuple[Mapping[str, Scores], ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the runs."""
        return tuple(int(run.manifest["seed"]) for run in self.runs)

    @property
    def logs(self) -> list[list[dict[str, Any]]]:
        """The log of each run."""
        return [run.log for run in self.runs]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that all its runs have."""
        return tuple(name for name in self.scores[0] if all(name in scores for scores in self.scores))

    def values(self, metric: str) -> list[float]:
        """The score of each run, in the unit of papers."""
        return [scores[metric].scale * scores[metric].value for scores in self.scores]

    def against(self, other: Row, metric: str, *, resamples: int, seed: int) -> Comparison:
        """The paired bootstrap test of two rows, in the unit of papers.

        What is resampled is the items. The statistics of an item are averaged over the runs of a row, so that the
        test is of the systems over their seeds; that seeds differ is said by the spread beside the mean.
        """
        ours = self.scores[0][metric]
        for scores in (*self.scores, *other.scores):
            if scores[metric].signature != ours.signature or list(scores[metric]) != list(ours):
                told = f"{ours.signature} and {scores[metric].signature}"
                raise ValueError(f"Runs compare where {ours.metric} is of one signature and of the same items: {told}.")
        made = compare(self._averaged(metric), other._averaged(metric), ours.total, resamples=resamples, seed=seed)
        scale = ours.scale
        return Comparison(scale * made.difference, scale * made.low, scale * made.high, made.p_value)

    def _averaged(self, metric: str) -> Floats:  # (N, K)
        held = np.stack([scores[metric].statistics for scores in self.scores])
        averaged: Floats = held.mean(0)
        return averaged


def gather(folders: Sequence[Path], split: str) -> list[Row]:
    """Open runs, score what is not scored yet, and put them into rows, in the order of the paper's tables."""
    checks.must(len(folders) > 0, "runs", "one or more", "none")
    groups: dict[tuple[str, str], list[Run]] = {}
    judges: dict[str, Judge] = {}
    for folder in folders:
        run = Run.open(folder)
        rule = "trained to its end (the same `seqsmooth train` goes on with it)"
        checks.must(run.finished, str(folder), rule, "unfinished")
        groups.setdefault((str(run.manifest.get("table") or ""), _label(run)), []).append(run)
    tasks = {str(run.manifest["task"]) for runs in groups.values() for run in runs}
    checks.must(len(tasks) == 1, "runs", "all of one task", " and ".join(sorted(tasks)))
    rows = []
    for (table, label), runs in groups.items():
        ordered = sorted(runs, key=lambda run: int(run.manifest["seed"]))
        check_row(label, [_member(run, split) for run in ordered])
        scores = tuple(_scores(run, split, judges) for run in ordered)
        for name, held in scores[0].items():
            signatures = {each[name].signature for each in scores if name in each}
            told = f"{held.metric} of {label!r} by {' and '.join(sorted(signatures))}"
            checks.must(len(signatures) == 1, "runs", "scored by one signature of a metric in a row", told)
        rows.append(Row(label, table, name_loss(ordered[0].manifest["config"]["objective"]), tuple(ordered), scores))
    return sorted(rows, key=lambda row: place(row.loss.loss))  # of one kind, in the order given


def _member(run: Run, split: str) -> Member:
    """A run by what it has in common with others of its row."""
    rule = f"decoded (`seqsmooth decode {run.folder} --split {split}`)"
    checks.must(run.decoded(split).is_file(), str(run.folder), rule, f"one without hypotheses of {split}")
    held = run.manifest
    return Member(
        str(run.folder), int(held["seed"]), held["config"], str(held["data"]["fingerprint"]), check_own(run, split)
    )


def place(loss: str) -> int:
    """Where a loss stands in a table, by its kind, which is what its name begins with."""
    kind = loss.split(",")[0]
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def shared_metrics(rows: Iterable[Row], wanted: Sequence[str] | None = None) -> tuple[str, ...]:
    """The metrics of a table: those wanted, or those of the task that every row has."""
    rows = list(rows)
    if wanted is not None:
        check_names(wanted)
        for name in wanted:
            for row in rows:
                rule = f"one that all runs are scored by (`seqsmooth decode RUN --metrics {name}`)"
                checks.must(name in row.metrics, "metrics", rule, f"{name}, which {row.label} lacks,")
        return tuple(wanted)
    shown = TASKS[str(rows[0].runs[0].manifest["task"])].table
    return tuple(name for name in shown if all(name in row.metrics for row in rows))


def find_row(rows: Iterable[Row], name: str) -> Row | None:
    """The row of a label, of a loss, or of a run's name; None where there is none, or more than one."""
    rows = list(rows)
    for told in (lambda row: row.label, lambda row: str(row.loss), lambda row: row.runs[0].name):
        found = [row for row in rows if told(row).lower() == name.lower()]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _label(run: Run) -> str:
    return str(run.manifest.get("row") or name_loss(run.manifest["config"]["objective"]))


def _scores(run: Run, split: str, judges: dict[str, Judge]) -> Mapping[str, Scores]:
    if run.scores(split).is_file():
        return Report.load(run.scores(split)).scores
    corpus = run.corpus()
    judge = judges.setdefault(corpus.fingerprint, Judge(corpus, split))
    rows = {name: row for row, name in enumerate(corpus.ids(split))}
    scores, _ = judge.scores({rows[name]: several for name, several in run.hypotheses(split)}, TASKS[corpus.task].quick)
    return scores
