"""Rows that have a part of their label in common, taken together: a pool, a reward, laziness, both levels.

Each row is one training there, that of its first seed, so many rows of one seed say as much as one row of many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from seqsmooth.metrics.trainings import LEAST, Difference
from seqsmooth.reports.rows import Table

TOGETHER = """\
Rows of one seed say little; those with a part in common say more. Each is there with the run of its first seed,
{baseline} with all of its own. What differs between rows counts as spread over trainings, so the intervals are rather
too wide: in simulations they hold the mean of these rows in 97 to 99 % of the cases. Where another part is subtracted,
it is from the same rows but for that part."""


@dataclass(frozen=True)
class LabelParts:
    """The label of a row, taken apart.

    >>> LabelParts.of("Seq, lazy, Hamming, V_batch", ["V_batch"])
    LabelParts(kind='Seq, lazy', reward='Hamming', pool='V_batch')
    >>> LabelParts.of("Tok, GloVe", ["V_batch"]) is None
    True
    """

    kind: str
    reward: str
    pool: str

    @classmethod
    def of(cls, label: str, pools: Sequence[str]) -> LabelParts | None:
        """Take a label apart; None where its last part is no pool."""
        *kind, reward, pool = label.split(", ") if label.count(", ") >= 2 else ("", "")
        return cls(", ".join(kind), reward, pool) if kind and pool in pools else None

    def without(self, axis: str) -> tuple[str, ...]:
        """All parts but one."""
        return tuple(value for name, value in vars(self).items() if name != axis)


@dataclass(frozen=True)
class Family:
    """Rows taken together, against the baseline or against the same rows with one part changed.

    Attributes:
        name: the part that they have in common.
        minus: the part that stands in its place, or the baseline.
        rows: how many they are.
        paper: the mean difference of the same rows in the paper, where it has them all.
        ours: the mean difference of ours.
    """

    name: str
    minus: str
    rows: int
    paper: float | None
    ours: Difference


def families(
    table: Table,
    labels: Iterable[str],
    paper: Mapping[str, float],
    pools: Sequence[str],
    contrasts: Sequence[tuple[str, str, str]],
) -> list[Family]:
    """Families of three rows or more, first against the baseline, then part by part; none without the latter.

    Args:
        table: the rows, compared by their main metric.
        labels: the rows that may take part: rows of a control say nothing about their pool.
        paper: the paper's numbers, by label.
        pools: the last parts of labels that have parts.
        contrasts: a part, and two values of it that are compared.
    """
    known = {label: parts for label in labels if table.row(label) and (parts := LabelParts.of(label, pools))}
    found = []
    for axis, value in dict.fromkeys((axis, value) for axis, *both in contrasts for value in reversed(both)):
        members = [label for label, parts in known.items() if getattr(parts, axis) == value]
        found.append(_compare(table, paper, value, table.baseline, [(label, table.baseline) for label in members]))
    for axis, ours, theirs in contrasts:
        places = {parts.without(axis): label for label, parts in known.items() if getattr(parts, axis) == theirs}
        pairs = [
            (label, places[parts.without(axis)])
            for label, parts in known.items()
            if getattr(parts, axis) == ours and parts.without(axis) in places
        ]
        found.append(_compare(table, paper, ours, theirs, pairs))
    families = [family for family in found if family is not None]
    return families if any(family.minus != table.baseline for family in families) else []


def _compare(
    table: Table, paper: Mapping[str, float], name: str, minus: str, pairs: Sequence[tuple[str, str]]
) -> Family | None:
    if len(pairs) < LEAST:
        return None
    ours, theirs = [one for one, _ in pairs], [two for _, two in pairs]
    difference = table.difference_of_means(table.main, ours, None if minus == table.baseline else theirs)
    printed = {*ours, *theirs} <= paper.keys()
    gain = mean(paper[one] - paper[two] for one, two in pairs) if printed else None
    return None if difference is None else Family(name, minus, len(pairs), gain, difference)
