"""The best point of a grid by its validation scores: temperatures are chosen here, and never on a test split."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from seqsmooth import checks
from seqsmooth.training.reader import listed_keys
from seqsmooth.training.runs import Run
from seqsmooth.training.sweep import Planned, short_keys

KIND = "seqsmooth choice 1"


@dataclass(frozen=True)
class Point:
    """One combination of values, over all its seeds.

    Attributes:
        config: the name of the config.
        values: by dotted key.
        scores: the best validation of each run that is finished, by seed.
        epochs: the epochs of these scores, by seed.
        unfinished: the seeds of the runs that are not.
    """

    config: str
    values: Mapping[str, Any]
    scores: Mapping[int, float]
    epochs: Mapping[int, int]
    unfinished: tuple[int, ...]

    @property
    def score(self) -> float | None:
        """The mean over the seeds; None before all runs are finished."""
        return None if self.unfinished else mean(self.scores.values())


@dataclass(frozen=True)
class Choice:
    """The points of a sweep in its order, and the best of each config.

    Attributes:
        metric: the metric by which the runs chose their best weights.
        points: all points.
        best: by config, the best point whose runs are all finished; of several the first.
    """

    metric: str
    points: tuple[Point, ...]
    best: Mapping[str, Point]

    def record(self) -> dict[str, Any]:
        """The choice, ready for JSON."""
        return {
            "kind": KIND,
            "metric": self.metric,
            "points": [
                {
                    "config": point.config,
                    "values": dict(point.values),
                    "score": point.score,
                    "scores": {str(seed): score for seed, score in point.scores.items()},
                    "epochs": {str(seed): epoch for seed, epoch in point.epochs.items()},
                    "unfinished": list(point.unfinished),
                    "best": point is self.best.get(point.config),
                }
                for point in self.points
            ],
        }

    def text(self) -> str:
        """The points as a table, the best ones marked."""
        keys = list(dict.fromkeys(key for point in self.points for key in point.values))
        short = short_keys(keys)
        table = [["config", *(short[key] for key in keys), self.metric, "epoch", ""]]
        for point in self.points:
            score = "-" if point.score is None else f"{point.score:.2f}"
            best = self.best.get(point.config)
            note = "" if best is None or point.score != best.score else "best" if point is best else "as good"
            if point.unfinished:
                note = f"unfinished: seed {', '.join(map(str, point.unfinished))}"
            epochs = "-" if not point.epochs else ", ".join(map(str, point.epochs.values()))
            values = [str(point.values.get(key, "")) for key in keys]
            table.append([point.config, *values, score, epochs, note])
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
        return "\n".join(line.rstrip() for line in lines)


def choose(planned: Sequence[Planned]) -> Choice:
    """Read what the runs of a sweep reached in validation, and choose."""
    groups: dict[tuple[str, tuple[tuple[str, Any], ...]], list[Planned]] = {}
    for each in planned:
        groups.setdefault((_name(each), tuple(each.point.items())), []).append(each)
    metrics: dict[str, None] = {}
    points = []
    for (_, values), several in groups.items():
        known = {each.seed: _best(each) for each in several}
        there = {seed: best for seed, best in known.items() if best is not None}
        metrics |= dict.fromkeys(str(best["metric"]) for best in there.values())
        points.append(
            Point(
                _name(several[0]),
                dict(values),
                {seed: float(best["value"]) for seed, best in there.items()},
                {seed: int(best["epoch"]) for seed, best in there.items()},
                tuple(seed for seed in known if seed not in there),
            )
        )
    checks.must(len(metrics) > 0, "sweep", "one with finished runs (`seqsmooth train --sweep` makes them)", "without")
    checks.must(len(metrics) == 1, "runs", "all chosen by one metric", " and ".join(metrics))
    best: dict[str, Point] = {}
    for point in points:
        ahead = best.get(point.config)
        if point.score is not None and (ahead is None or ahead.score is None or point.score > ahead.score):
            best[point.config] = point
    return Choice(next(iter(metrics)), tuple(points), best)


def _name(planned: Planned) -> str:
    """The name of the config, without the values of the point behind it; two files may be called alike."""
    return planned.config.name.rpartition("/")[0] if planned.point else planned.config.name


def _best(planned: Planned) -> dict[str, Any] | None:
    """The best validation of a run; None where it is not finished."""
    folder = planned.folder
    if not (folder / "manifest.json").is_file():
        return None
    run = Run.open(folder)
    if not run.finished:
        return None
    changed = run.differing_keys(planned.config)
    if changed:
        raise ValueError(
            f"The run in {folder} must be of this sweep as it is now, but was made with other values of "
            f"{listed_keys(changed)} (what `train --sweep` was given on the command line is given here, too)."
        )
    best: dict[str, Any] | None = run.manifest["best"]
    checks.must(best is not None, str(folder), "a run with validation (`validation.every` above 0)", "one without")
    assert best is not None
    checks.must(math.isfinite(best["value"]), str(folder), "a run with a finite score", f"one with {best['value']}")
    return best


def check_choice(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that a value from a JSON file is what `Choice.record` gave; raise one of the usual exceptions if not."""
    for point in content["points"]:
        whole = isinstance(point["values"], Mapping) and isinstance(point["best"], bool)
        whole = whole and isinstance(point["config"], str) and isinstance(content["metric"], str)
        if not whole or not (point["score"] is None or math.isfinite(point["score"])):
            raise ValueError("it is not a choice")
    return content
