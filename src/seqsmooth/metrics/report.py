"""What several metrics say of one system: a table, and a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.metrics import coco_bleu, meteor_jar, translation
from seqsmooth.metrics.bootstrap import Comparison
from seqsmooth.metrics.scores import Floats, Scores, mean

KIND = "seqsmooth scores 1"
# How the metrics that are no means come from sums, by the names of the suite.
TOTALS: dict[str, Callable[[Floats, int], Floats]] = {
    **{f"bleu-{n}": partial(coco_bleu.total, order=n) for n in (1, 2, 3, 4)},
    "meteor": meteor_jar.total,
    "sacrebleu": translation.total,
    "sacrebleu-13a": translation.total,
}


@dataclass(frozen=True)
class Report:
    """What several metrics say of one system, and of the difference to another where there is one.

    Attributes:
        scores: by the name of the metric.
        absent: why a metric is not among them.
        other: the scores of the other system.
        confidence: that of the intervals.
        resamples: the number of resampled corpora behind them.
        seed: the resampled items follow from it.
    """

    scores: Mapping[str, Scores]
    absent: Mapping[str, str] = field(default_factory=dict)
    other: Mapping[str, Scores] = field(default_factory=dict)
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The confidence interval of each score."""
        how = {"resamples": self.resamples, "seed": self.seed}
        return {name: scores.interval(self.confidence, **how) for name, scores in self.scores.items()}

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """The difference to the other system, by each metric that both have."""
        how = {"resamples": self.resamples, "seed": self.seed}
        both = [name for name in self.scores if name in self.other]
        return {name: self.scores[name].against(self.other[name], confidence=self.confidence, **how) for name in both}

    def text(self) -> str:
        """A table: metric, value and interval in the unit of papers, signature; the difference to the other system."""
        percent = f"{100 * self.confidence:g} % interval"
        lines = [["metric", "value", percent, *(["difference (p)"] if self.other else []), "signature"]]
        for name, scores in self.scores.items():
            low, high = (scores.scale * end for end in self.intervals[name])
            row = [scores.metric, f"{scores.scale * scores.value:.2f}", f"{low:.2f} to {high:.2f}"]
            if self.other:
                made = self.comparisons.get(name)
                row.append("-" if made is None else f"{scores.scale * made.difference:+.2f} ({made.p_value:.3f})")
            lines.append([*row, scores.signature])
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join(line.rstrip() for line in [*table, *self.absent.values()])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON whole or not at all: what was at `path` before stays until the new file is complete."""
        held: dict[str, Any] = {"kind": KIND, "confidence": self.confidence, "resamples": self.resamples}
        held |= {"seed": self.seed, "absent": dict(self.absent), "scores": {}}
        for name, scores in self.scores.items():
            low, high = self.intervals[name]
            entry: dict[str, Any] = {"metric": scores.metric, "value": scores.value, "low": low, "high": high}
            entry |= {"scale": scores.scale, "signature": scores.signature}
            made = self.comparisons.get(name)
            if made is not None:
                entry["other"] = {"value": self.other[name].value, "difference": made.difference, "low": made.low}
                entry["other"] |= {"high": made.high, "p_value": made.p_value}
            if scores.total is not mean:  # what paired tests need later; of a mean it is the scores of the items
                entry["statistics"] = scores.statistics.tolist()
            entry["each"] = {str(key): value for key, value in scores.items()}
            held["scores"][name] = entry
        with atomic_write_text(path) as file:
            file.write(json.dumps(held, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Read what `save` wrote, to compare with it; the other system is left behind."""
        path = Path(path)
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            if held["kind"] != KIND:
                raise ValueError(f"it is of the kind {held['kind']!r}")
            scores = {name: _scores(name, entry) for name, entry in held["scores"].items()}
            return cls(scores, held["absent"], {}, held["confidence"], held["resamples"], held["seed"])
        except OSError as error:
            raise ValueError(f"`{path}` must be a file that can be read, but is not: {error.strerror}.") from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            rule = "a file written by `seqsmooth score ... --json`"
            raise ValueError(f"`{path}` must be {rule}, but is damaged or something else instead.") from error


def _scores(name: str, entry: Mapping[str, Any]) -> Scores:
    each: dict[str, float] = entry["each"]
    statistics = np.array(entry.get("statistics", [[value] for value in each.values()]), dtype=np.float64)
    if len(statistics) != len(each):
        raise ValueError("its parts do not agree")
    total = TOTALS.get(name, mean)
    return Scores(entry["metric"], entry["value"], each, entry["signature"], statistics, total, entry["scale"])
