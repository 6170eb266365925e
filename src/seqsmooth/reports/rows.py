"""Rows and tables of records: a row is the runs of one loss by seed, a table is rows scored on the same items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean

import numpy as np

from seqsmooth.metrics.bootstrap import resampled_sums
from seqsmooth.metrics.scores import Floats
from seqsmooth.metrics.tasks import TASKS
from seqsmooth.metrics.trainings import Difference, Trained, compare_trainings
from seqsmooth.ops import checks
from seqsmooth.reports.alike import check_row, list_differences
from seqsmooth.reports.behaviour import COLUMNS, Behaviour
from seqsmooth.reports.formats import spread
from seqsmooth.reports.losses import LossName, name_loss
from seqsmooth.reports.record import Record

BASELINE = "MLE"
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
"""Kinds of losses, in the order of the paper's tables."""


@dataclass(frozen=True, eq=False)
class Row:
    """The runs of one loss, by seed.

    Attributes:
        label: its name, which no other row of its table has.
        records: the runs, in the order of their seeds.
    """

    label: str
    records: tuple[Record, ...]

    @classmethod
    def of(cls, label: str, records: Iterable[Record]) -> Row:
        """Sort runs by seed and check that they differ in nothing else."""
        ordered = tuple(sorted(records, key=lambda record: record.seed))
        check_row(label, ordered)
        return cls(label, ordered)

    @property
    def first(self) -> Record:
        """The run of the first seed, which stands for the row where only one can be shown."""
        return self.records[0]

    @cached_property
    def loss(self) -> LossName:
        """The loss in the paper's columns."""
        return name_loss(self.first.facts["config"].get("objective") or {})

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the runs."""
        return tuple(record.seed for record in self.records)

    @property
    def behaviours(self) -> list[Behaviour]:
        """The behaviour of the models that were observed."""
        return [record.behaviour for record in self.records if record.behaviour is not None]

    def describe_behaviours(self) -> list[str]:
        """The behaviour of the models, in the columns of `behaviour.COLUMNS`."""
        return [spread([read(one) for one in self.behaviours], form) for read, form in COLUMNS.values()]

    @property
    def seconds(self) -> float:
        """The mean time of a training."""
        return mean(float(record.facts["seconds"]) for record in self.records)

    def values(self, metric: str) -> list[float]:
        """The score of each run that has this metric, in the unit of papers."""
        return [record.scores[metric].value for record in self.records if metric in record.scores]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that were scored on the same items, and how sure their differences are.

    Attributes:
        name: what the configs of its runs call their table.
        split: the items.
        rows: in the order in which they are shown.
        baseline: the label of the row that the others are compared with.
        resamples: the number of resampled corpora behind each interval.
        seed: the resampled items follow from it.
    """

    name: str
    split: str
    rows: tuple[Row, ...]
    baseline: str = BASELINE
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        records = [record for row in self.rows for record in row.records]
        for other in records[1:]:
            same = (records[0].facts["task"], records[0].items) == (other.facts["task"], other.items)
            rule = f"of the same items of {self.split} in a table (`table` in a config, or --table, tells tables apart)"
            both = f"{self.name!r} with {records[0].file} and {other.file}, which are of others,"
            checks.must(same, "records", rule, both)
        signatures: dict[str, str] = {}
        for name, tally in (pair for record in records for pair in record.scores.items()):
            first = signatures.setdefault(name, tally.signature)
            rule = f"of one signature of {name} in a table"
            checks.must(tally.signature == first, "records", rule, f"{first} and {tally.signature}")

    @property
    def task(self) -> str:
        """Captions or translation."""
        return str(self.rows[0].first.facts["task"])

    @property
    def main(self) -> str:
        """The metric that losses are compared by."""
        return TASKS[self.task].main

    @property
    def metrics(self) -> list[str]:
        """The metrics that any of its runs has."""
        return list(dict.fromkeys(name for row in self.rows for record in row.records for name in record.scores))

    @property
    def own(self) -> list[Record]:
        """The records but for those of a row that it shares with another table."""
        return [record for row in self.rows for record in row.records if record.table == self.name]

    @property
    def losses(self) -> dict[str, LossName]:
        """The rows in the paper's columns, by label; those that read alike there show their label instead."""
        counts = Counter(row.loss for row in self.rows)
        return {
            row.label: row.loss if counts[row.loss] == 1 else row.loss._replace(loss=row.label) for row in self.rows
        }

    def row(self, label: str) -> Row | None:
        """The row of a label."""
        return next((row for row in self.rows if row.label == label), None)

    def sharing(self, row: Row) -> Table:
        """Put a row of another table before the own ones."""
        return replace(self, rows=(row, *self.rows))

    def unlike(self) -> dict[str, dict[str, list[str]]]:
        """List what differs outside the objective: by key and value, the labels of the rows."""
        return list_differences((row.label, record) for row in self.rows for record in row.records)

    def difference(self, metric: str, ours: str, theirs: str | None = None) -> Difference | None:
        """Between two rows by their labels, or from the baseline; None where one of them was not scored."""
        trained, theirs = self._resample_rows(metric), self.baseline if theirs is None else theirs
        return compare_trainings(trained[ours], trained[theirs]) if {ours, theirs} <= trained.keys() else None

    def differences(self, metric: str) -> dict[str, Difference]:
        """The difference of each other row from the baseline, by label."""
        found = {row.label: self.difference(metric, row.label) for row in self.rows if row.label != self.baseline}
        return {label: difference for label, difference in found.items() if difference is not None}

    def difference_of_means(self, metric: str, ours: Sequence[str], theirs: Sequence[str] | None) -> Difference | None:
        """Between the means of several rows, each by its first seed; for None from the baseline with all its seeds."""
        trained = self._resample_rows(metric)
        if not trained.keys() >= {*ours, *(theirs or [self.baseline])}:
            return None
        others = trained[self.baseline] if theirs is None else Trained.first_of([trained[label] for label in theirs])
        return compare_trainings(Trained.first_of([trained[label] for label in ours]), others)

    @cached_property
    def _trained(self) -> dict[str, dict[str, Trained]]:
        return {}

    def _resample_rows(self, metric: str) -> dict[str, Trained]:
        """The scores of the rows that have a metric, by label, on the same resampled items for all."""
        if metric not in self._trained:
            self._trained[metric] = _resample(self.rows, metric, self.resamples, self.seed)
        return self._trained[metric]


def make_tables(records: Iterable[Record]) -> list[Table]:
    """Put records into rows and tables: by the table and the row of their configs, and by split."""
    groups: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        groups.setdefault((record.table, record.split), {}).setdefault(record.label, []).append(record)
    return [
        Table(name, split, tuple(Row.of(label, several) for label, several in rows.items()))
        for (name, split), rows in groups.items()
    ]


def place(loss: str) -> int:
    """Where a loss stands in a table, by its kind, which is what its name begins with."""
    kind = loss.split(",")[0]
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def find_row(rows: Sequence[Row], name: str) -> Row | None:
    """The row of a label, of a loss, or of a run's name; None where there is none, or more than one."""
    for names in (lambda row: row.label, lambda row: str(row.loss), lambda row: row.first.facts["name"]):
        found = [row for row in rows if names(row).lower() == name.lower()]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _resample(rows: Sequence[Row], metric: str, resamples: int, seed: int) -> dict[str, Trained]:
    scored = [(row.label, record.scores[metric]) for row in rows for record in row.records if metric in record.scores]
    if not scored:
        return {}
    statistics = np.concatenate([tally.statistics for _, tally in scored], 1)
    sums = resampled_sums(statistics, resamples=resamples, seed=seed)
    ends = np.cumsum([tally.statistics.shape[1] for _, tally in scored])
    drawn: dict[str, list[Floats]] = {}
    for (label, tally), part in zip(scored, np.split(sums, ends[:-1], axis=1), strict=True):
        drawn.setdefault(label, []).append(tally.total(part))
    return {
        row.label: Trained(np.array(row.values(metric)), np.stack(drawn[row.label]))
        for row in rows
        if row.label in drawn
    }
