"""Scorecards: the scores of one system by several metrics, as a table and as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.reading import read_record
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
class Scorecard:
    """The scores of one system by several metrics, and the differences to another where there is one.

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
                one = self.comparisons.get(name)
                row.append("-" if one is None else f"{scores.scale * one.difference:+.2f} ({one.p_value:.3f})")
            lines.append([*row, scores.signature])
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join(line.rstrip() for line in [*table, *self.absent.values()])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON whole or not at all: what was at `path` before stays until the new file is complete."""
        content: dict[str, Any] = {"kind": KIND, "confidence": self.confidence, "resamples": self.resamples}
        content |= {"seed": self.seed, "absent": dict(self.absent), "scores": {}}
        for name, scores in self.scores.items():
            low, high = self.intervals[name]
            entry: dict[str, Any] = {"metric": scores.metric, "value": scores.value, "low": low, "high": high}
            entry |= {"scale": scores.scale, "signature": scores.signature}
            one = self.comparisons.get(name)
            if one is not None:
                entry["other"] = {"value": self.other[name].value, "difference": one.difference}
                entry["other"] |= {"low": one.low, "high": one.high, "p_value": one.p_value}
            if scores.total is not mean:  # what paired tests need later; of a mean it is the scores of the items
                entry["statistics"] = scores.statistics.tolist()
            entry["each"] = {str(key): value for key, value in scores.items()}
            content["scores"][name] = entry
        with atomic_write_text(path) as file:
            file.write(json.dumps(content, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scorecard:
        """Read what `save` wrote, to compare with it; the other system is left behind."""

        def parse(value: Any) -> Scorecard:
            scores = {name: _scores(name, entry) for name, entry in value["scores"].items()}
            return cls(scores, value["absent"], {}, value["confidence"], value["resamples"], value["seed"])

        return read_record(path, parse, "a file written by `seqsmooth score ... --json`", kind=KIND)


def _scores(name: str, entry: Mapping[str, Any]) -> Scores:
    each: dict[str, float] = entry["each"]
    statistics = np.array(entry.get("statistics", [[value] for value in each.values()]), dtype=np.float64)
    if len(statistics) != len(each):
        raise ValueError("its parts do not agree")
    total = TOTALS.get(name, mean)
    return Scores(entry["metric"], entry["value"], each, entry["signature"], statistics, total, entry["scale"])
