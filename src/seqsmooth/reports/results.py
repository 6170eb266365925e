"""Records as rows: the runs of one loss with their seeds, and how sure their differences are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from statistics import mean
from typing import Any

import numpy as np

from seqsmooth.files.paths import files_below
from seqsmooth.metrics.bootstrap import resampled_sums
from seqsmooth.metrics.scores import Floats
from seqsmooth.metrics.trainings import Difference, Trained, compare_trainings
from seqsmooth.ops import checks
from seqsmooth.reports import choices, record
from seqsmooth.reports.alike import Member, check_row
from seqsmooth.reports.behaviour import Behaviour
from seqsmooth.reports.record import Record

BASELINE = "MLE"
RESAMPLES, SEED = 1000, 0


@dataclass(frozen=True, eq=False)
class Line:
    """The records of one row of a table, by seed."""

    label: str
    records: tuple[Record, ...]

    @property
    def logs(self) -> list[list[dict[str, Any]]]:
        """The validation curve of each run."""
        return [one.log for one in self.records]

    @property
    def seen(self) -> list[Behaviour]:
        """How the models behave, those that were observed."""
        return [one.behaviour for one in self.records if one.behaviour is not None]

    @property
    def seconds(self) -> float:
        """Of training, a run."""
        return mean(float(one.facts["seconds"]) for one in self.records)

    def values(self, metric: str) -> list[float]:
        """The scores of those that have it."""
        return [one.scores[metric].value for one in self.records if metric in one.scores]


@dataclass(frozen=True, eq=False)
class Group:
    """The lines of one table, of one split and one corpus."""

    table: str
    split: str
    lines: tuple[Line, ...]

    def __post_init__(self) -> None:
        known: dict[str, str] = {}
        records = [one for line in self.lines for one in line.records]
        for name, tally in (pair for one in records for pair in one.scores.items()):
            first = known.setdefault(name, tally.signature)
            told = f"{first} and {tally.signature}"
            checks.must(tally.signature == first, "records", f"of one signature of {name} in a table", told)

    def sharing(self, line: Line) -> Group:
        """The same with a line of another table, the first here."""
        made = replace(self, lines=(line, *self.lines))
        _check_items(self.table, self.split, [one for each in made.lines for one in each.records])
        return made

    @property
    def own(self) -> list[Record]:
        """The records but for those of a line that it shares."""
        return [one for line in self.lines for one in line.records if _table(one) == self.table]

    @property
    def task(self) -> str:
        """Captions or translation."""
        return str(self.lines[0].records[0].facts["task"])

    @property
    def metrics(self) -> list[str]:
        """Those that a record of it has."""
        return list(dict.fromkeys(name for line in self.lines for one in line.records for name in one.scores))

    def line(self, label: str) -> Line | None:
        """The line of a label."""
        return next((line for line in self.lines if line.label == label), None)

    @cached_property
    def _trained(self) -> dict[str, dict[str, Trained]]:
        return {}

    def difference(self, metric: str, ours: str, theirs: str) -> Difference | None:
        """Between two lines, by their labels; None where one is not there."""
        known = self._resampled(metric)
        return compare_trainings(known[ours], known[theirs]) if ours in known and theirs in known else None

    def difference_of_rows(self, metric: str, ours: Sequence[str], theirs: Sequence[str] | None) -> Difference | None:
        """Between the means of several lines, each by its first seed, or from all seeds of MLE; None as above."""
        known = self._resampled(metric)
        if not known.keys() >= {*ours, *(theirs or [BASELINE])}:
            return None
        others = known[BASELINE] if theirs is None else Trained.first_of([known[label] for label in theirs])
        return compare_trainings(Trained.first_of([known[label] for label in ours]), others)

    def _resampled(self, metric: str) -> dict[str, Trained]:
        if metric not in self._trained:
            self._trained[metric] = resample(self.lines, metric)
        return self._trained[metric]

    def differences(self, metric: str) -> dict[str, Difference]:
        """Of each line from MLE, by label."""
        others = [line.label for line in self.lines if line.label != BASELINE]
        found = {label: self.difference(metric, label, BASELINE) for label in others}
        return {label: made for label, made in found.items() if made is not None}


@dataclass(frozen=True, eq=False)
class Results:
    """All that a folder of results holds.

    Attributes:
        records: in the order of their files.
        choices: by the name of their files, what `seqsmooth choose` wrote of a grid.
        discussion: what people say about it, in Markdown.
    """

    records: tuple[Record, ...]
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    discussion: str = ""

    @property
    def groups(self) -> list[Group]:
        """The tables, of runs on all of their data that were decoded as their config says."""
        own = [one for one in self.records if not one.variant and _fraction(one) is None]
        return _groups(own)

    @property
    def variants(self) -> list[Record]:
        """What was decoded in another way: other beams, ensembles."""
        return [one for one in self.records if one.variant]

    @property
    def fractions(self) -> list[dict[float, Group]]:
        """Runs on a share of the training data, and those of the same losses on all of it, by the share.

        One mapping for each corpus and split.
        """
        part = [one for one in self.records if not one.variant and _fraction(one) is not None]
        labels = {_base(one): _without_share(_label(one), " ", "()") for one in part}
        found: dict[tuple[str, str], dict[float, dict[str, list[Record]]]] = {(one.data, one.split): {} for one in part}
        own = [one for one in self.records if not one.variant and _base(one) in labels]
        points = {_base(one) for one in own if _fraction(one) is None and _base(one) != one.facts["name"]}
        for one in own:
            shares = found.get((one.data, one.split))
            # Where the whole is a point of the grid of shares, it alone is that, and not the row of the main table.
            if shares is not None and (_fraction(one) or one.facts["name"] not in points):
                lines = shares.setdefault(_fraction(one) or 1.0, {})
                lines.setdefault(labels[_base(one)], []).append(one)
        return [
            {share: Group("", split, _lines(lines)) for share, lines in sorted(shares.items())}
            for (_, split), shares in found.items()
        ]


def read_results(folder: Path) -> Results:
    """Read the records, choices and discussion.md of a folder, and of those below it."""
    checks.must(folder.is_dir(), "results", "a folder of records (`seqsmooth record` writes them)", str(folder))
    records: list[Record] = []
    places: dict[PurePosixPath, Path] = {}
    grids = {}
    for path in files_below(folder, "*.json"):
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            kind = held["kind"]
            if kind == choices.KIND:
                choices.check_choice(held)
        except (OSError, ValueError, KeyError, TypeError) as error:
            rule = "a file of `seqsmooth record` or `seqsmooth choose`, as all JSON in a folder of results"
            raise checks.wrong(str(path), rule, "damaged or something else") from error
        checks.one_of(f"kind of {path}", kind, (record.KIND, choices.KIND))
        if kind == choices.KIND:
            grids[path.relative_to(folder).with_suffix("").as_posix()] = held
        else:
            records.append(Record.load(path))
            twice = places.setdefault(records[-1].file, path)
            rule = f"there once (remove {twice} or {path})"
            checks.must(twice == path, str(records[-1].file), rule, "there twice")
    said = folder / "discussion.md"
    try:
        told = said.read_text(encoding="utf-8") if said.is_file() else ""
    except UnicodeDecodeError as error:
        raise checks.wrong(str(said), "text in UTF-8", f"not, at byte {error.start},") from error
    return Results(tuple(records), grids, told)


def resample(lines: Sequence[Line], metric: str) -> dict[str, Trained]:
    """The scores of lines by label, on the same resampled items for all."""
    held = [(line, one.scores[metric], one) for line in lines for one in line.records if metric in one.scores]
    if not held:
        return {}
    sums = resampled_sums(np.concatenate([tally.statistics for _, tally, _ in held], 1), resamples=RESAMPLES, seed=SEED)
    ends = np.cumsum([tally.statistics.shape[1] for _, tally, _ in held])
    drawn: dict[str, list[Floats]] = {}
    for (line, tally, _), part in zip(held, np.split(sums, ends[:-1], axis=1), strict=True):
        drawn.setdefault(line.label, []).append(tally.total(part))
    return {
        line.label: Trained(np.array(line.values(metric)), np.stack(drawn[line.label]))
        for line in lines
        if line.label in drawn
    }


def _groups(records: Iterable[Record]) -> list[Group]:
    found: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for one in records:
        found.setdefault((_table(one), one.split), {}).setdefault(_label(one), []).append(one)
    for (table, split), several in found.items():
        _check_items(table, split, [one for row in several.values() for one in row])
    return [Group(table, split, _lines(several)) for (table, split), several in found.items()]


def _check_items(table: str, split: str, records: Sequence[Record]) -> None:
    """Check that the records of a table compare item by item."""
    first, *others = records
    for other in others:
        same = (first.facts["task"], first.items) == (other.facts["task"], other.items)
        rule = f"of the same items of {split} in a table (`table` in a config, or --table, tells tables apart)"
        told = f"{table!r} with {first.file} and {other.file}, which are of others,"
        checks.must(same, "records", rule, told)


def _lines(rows: Mapping[str, Sequence[Record]]) -> tuple[Line, ...]:
    return tuple(Line(label, _by_seed(label, several)) for label, several in rows.items())


def _by_seed(label: str, records: Sequence[Record]) -> tuple[Record, ...]:
    ordered = sorted(records, key=lambda one: int(one.facts["seed"]))
    told = [
        Member(str(one.file), int(one.facts["seed"]), one.facts["config"], one.data, one.decoding) for one in ordered
    ]
    check_row(label, told)
    return tuple(ordered)


def _table(one: Record) -> str:
    return str(one.facts["table"] or "")


def _label(one: Record) -> str:
    return str(one.facts["row"] or one.facts["name"])


def _fraction(one: Record) -> float | None:
    share = one.facts["config"].get("data", {}).get("fraction")
    return None if share is None or share == 1 else float(share)


def _base(one: Record) -> str:
    """The name of the run on all data: a point of a grid has its values behind it."""
    name = str(one.facts["name"])
    head, slash, last = name.rpartition("/")
    if "=" not in last:
        return name
    left = _without_share(last, "=", "")
    return head if slash and not left else f"{head}{slash}{left}"


def _without_share(told: str, between: str, around: str) -> str:
    """The values of a point of a grid as its name or its row lists them, but for the share of the data.

    >>> _without_share("tau=0.2,fraction=0.1", "=", ""), _without_share("fraction=0.1", "=", "")
    ('tau=0.2', '')
    >>> _without_share("Seq (lazy) (tau 0.2, fraction 0.1)", " ", "()"), _without_share("MLE (fraction 0.1)", " ", "()")
    ('Seq (lazy) (tau 0.2)', 'MLE')
    >>> _without_share("Seq (lazy)", " ", "()")
    'Seq (lazy)'
    """
    before, values = "", told
    if around:
        found = re.fullmatch(r"(.*?) ?\(([^()]*)\)", told)
        if found is None:
            return told
        before, values = found.groups()
    kept = [part for part in re.split(", ?", values) if not re.match(rf"(\w+\.)*fraction{between}", part)]
    listed = (", " if around else ",").join(kept)
    return " ".join(filter(None, [before, f"({listed})" if around and listed else listed]))
