"""What several metrics say of one system: a table, and a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from seqsmooth.metrics.bootstrap import Comparison
from seqsmooth.metrics.scores import Scores
from seqsmooth.metrics.writing import write_whole

KIND = "seqsmooth scores 1"


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
            entry["each"] = {str(key): value for key, value in scores.items()}
            held["scores"][name] = entry
        write_whole(path, json.dumps(held, indent=1, allow_nan=False) + "\n")
