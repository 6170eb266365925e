"""What rows that have something in common say together: a pool, a reward, laziness, both levels.

Each row is one training there, that of its first seed, so many rows of one seed say as much as one row of many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from seqsmooth.metrics.trainings import LEAST, Difference
from seqsmooth.reports.results import BASELINE, Group

POOLS = ("V", "V_batch", "V_refs")
CONTRASTS = (
    ("pool", "V_batch", "V"),
    ("pool", "V_refs", "V"),
    ("kind", "Seq", "Seq, lazy"),
    ("kind", "Tok-Seq", "Seq"),
    ("reward", "CIDEr", "Hamming"),
    ("reward", "BLEU-4", "Hamming"),
    ("reward", "BLEU-4 single", "BLEU-4"),
)
TOGETHER = f"""\
Rows of one seed say little; those with a part in common say more. Each is there with the run of its first seed,
{BASELINE} with all of its own. What differs between rows counts as spread over trainings, so the intervals are rather
too wide: in simulations they hold the mean of these rows in 97 to 99 % of the cases. Where another part is subtracted,
it is from the same rows but for that part."""


@dataclass(frozen=True)
class Parts:
    """The label of a row, taken apart.

    >>> Parts.of("Seq, lazy, Hamming, V_batch")
    Parts(kind='Seq, lazy', reward='Hamming', pool='V_batch')
    >>> Parts.of("Tok, GloVe") is None
    True
    """

    kind: str
    reward: str
    pool: str

    @classmethod
    def of(cls, label: str) -> Parts | None:
        """None where a row has no pool."""
        *kind, reward, pool = label.split(", ") if label.count(", ") >= 2 else ("", "")
        return cls(", ".join(kind), reward, pool) if kind and pool in POOLS else None

    def apart_from(self, axis: str) -> tuple[str, ...]:
        """All parts but one."""
        return tuple(value for name, value in vars(self).items() if name != axis)


@dataclass(frozen=True)
class Family:
    """Rows taken together, against MLE or against the same rows with one part changed.

    Attributes:
        name: what they have in common.
        minus: what is changed, or MLE.
        rows: how many they are.
        paper: the mean difference of the same rows in the paper, where it has them all.
        ours: the difference of ours.
    """

    name: str
    minus: str
    rows: int
    paper: float | None
    ours: Difference


def families(group: Group, metric: str, labels: Iterable[str], paper: Mapping[str, float]) -> list[Family]:
    """Those of three rows or more, first against MLE, then against each other, part by part; none without the latter.

    Args:
        group: the table.
        metric: what is compared.
        labels: the rows that may take part: rows of a control say nothing about their pool.
        paper: its numbers, by label.
    """
    known = {label: parts for label in labels if group.line(label) and (parts := Parts.of(label))}
    found = []
    for axis, value in dict.fromkeys((axis, value) for axis, *both in CONTRASTS for value in reversed(both)):
        members = [label for label, parts in known.items() if getattr(parts, axis) == value]
        found.append(_compared(group, metric, paper, value, BASELINE, [(label, BASELINE) for label in members]))
    for axis, ours, theirs in CONTRASTS:
        places = {parts.apart_from(axis): label for label, parts in known.items() if getattr(parts, axis) == theirs}
        pairs = [
            (label, places[parts.apart_from(axis)])
            for label, parts in known.items()
            if getattr(parts, axis) == ours and parts.apart_from(axis) in places
        ]
        found.append(_compared(group, metric, paper, ours, theirs, pairs))
    made = [family for family in found if family is not None]
    return made if any(family.minus != BASELINE for family in made) else []


def _compared(
    group: Group, metric: str, paper: Mapping[str, float], name: str, minus: str, pairs: Sequence[tuple[str, str]]
) -> Family | None:
    if len(pairs) < LEAST:
        return None
    ours, theirs = [one for one, _ in pairs], [two for _, two in pairs]
    made = group.difference_of_rows(metric, ours, None if minus == BASELINE else theirs)
    printed = {*ours, *theirs} <= paper.keys()
    gain = mean(paper[one] - paper[two] for one, two in pairs) if printed else None
    return None if made is None else Family(name, minus, len(pairs), gain, made)
