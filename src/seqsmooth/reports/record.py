"""What a run leaves behind for good: one small file of JSON, without weights and without anybody's texts.

A record holds what the run was (config, objective, seed, corpus, versions, device, time), its validation curve, its
scores with the statistics of every item, so that every test between runs can be repeated from records alone, how the
model behaves, what it wrote for a few items that are the same in all records of a corpus, and the command that repeats
it. A line a part, so that changes can be read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.paths import inner_path
from seqsmooth.metrics.report import TOTALS
from seqsmooth.metrics.scores import Floats, mean
from seqsmooth.reports.behaviour import Behaviour, read_behaviour
from seqsmooth.reports.packing import pack, unpack

KIND = "seqsmooth record 1"
SEED = 0
"""The items of the examples follow from it."""
FACTS = (
    *("name", "row", "table", "task", "seed", "config", "objective", "versions", "device", "parameters", "started"),
    *("seconds", "epochs", "steps", "best"),
)
"""What of a manifest is kept."""


@dataclass(frozen=True, eq=False)
class Tally:
    """A score, and what it is the sum of.

    Attributes:
        metric: the name of the metric in `seqsmooth.metrics.suite`.
        value: the score in the unit of papers.
        signature: names the metric exactly, its references included.
        statistics: one row an item.
    """

    metric: str
    value: float
    signature: str
    statistics: Floats  # (N, K)

    def total(
        self,
        sums: Floats,  # (M, K)
    ) -> Floats:  # (M,)
        """Scores of sums of as many rows as there are items, in the unit of papers."""
        scale = 1.0 if self.metric.startswith("sacrebleu") else 100.0
        return scale * TOTALS.get(self.metric, mean)(sums, len(self.statistics))


@dataclass(frozen=True)
class Written:
    """What a run wrote for an item."""

    item: str
    text: str


@dataclass(frozen=True, eq=False)
class Record:
    """A run as it is remembered.

    Attributes:
        facts: of the manifest: name, row, table, task, seed, config, objective, versions, device, seconds, steps...
        data: the fingerprint of the corpus.
        split: of the items.
        items: a checksum of their ids, in order.
        decoding: how the hypotheses were found: beam, length...
        variant: names hypotheses that are not the run's own: those of another beam, of an ensemble; "" for its own.
        members: the seeds of the models behind them.
        commands: what repeats it.
        curve: by column, what validation measured.
        scores: by metric.
        behaviour: beyond scores; None where it was not observed.
        examples: what was written for items drawn at random.
    """

    facts: Mapping[str, Any]
    data: str
    split: str
    items: str
    decoding: Mapping[str, Any]
    variant: str
    members: tuple[int, ...]
    commands: tuple[str, ...]
    curve: Mapping[str, Sequence[float | None]]
    scores: Mapping[str, Tally]
    behaviour: Behaviour | None
    examples: tuple[Written, ...]

    @property
    def log(self) -> list[dict[str, Any]]:
        """The validation curve as rows of a log."""
        columns = list(self.curve.items())
        number = len(columns[0][1]) if columns else 0
        return [{"split": "val"} | {name: values[n] for name, values in columns} for n in range(number)]

    def _check(self) -> None:
        """Check what tables are made of; any of the usual exceptions where it is not what it should be."""
        facts = self.facts
        numbers = [tally.value for tally in self.scores.values()] + [float(facts["seconds"])]
        numbers += [value for values in self.curve.values() for value in values if value is not None]
        whole = len(self.scores) > 0 and len(self.members) > 0 and all(map(math.isfinite, numbers))
        whole = whole and isinstance(facts["config"], Mapping) and isinstance(facts["seed"], int)
        whole = whole and facts["task"] in ("captions", "translation") and facts["config"].get("data") is not None
        whole = whole and len({len(tally.statistics) for tally in self.scores.values()}) == 1
        whole = whole and all(np.isfinite(tally.statistics).all() for tally in self.scores.values())
        whole = whole and len({len(values) for values in self.curve.values()}) <= 1
        whole = whole and (self.behaviour is None or len(self.behaviour.calibration) > 0)
        datetime.fromisoformat(str(facts["started"]))
        inner_path("name", str(self.file))
        if not whole:
            raise ValueError("its parts do not go together")

    @property
    def file(self) -> PurePosixPath:
        """Where it goes in a folder of records."""
        parts = [
            str(self.facts["name"]),
            str(self.facts["seed"]),
            self.split,
            *([self.variant] if self.variant else []),
        ]
        return PurePosixPath(".".join([*parts, "json"]))

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        packed: dict[str, Mapping[str, Any]] = {}
        scores = {}
        for name, held in self.scores.items():
            made = pack(held.statistics)
            same = [known for known, other in packed.items() if other == made]  # BLEU-1 to 4 count the same n-grams
            packed |= {} if same else {name: made}
            scores[name] = {"value": held.value, "signature": held.signature, "statistics": (same or [name])[0]}
        told = {
            "kind": KIND,
            "run": dict(self.facts),
            "data": self.data,
            "split": self.split,
            "items": self.items,
            "decoding": dict(self.decoding),
            "variant": self.variant,
            "members": list(self.members),
            "commands": list(self.commands),
            "curve": {name: list(values) for name, values in self.curve.items()},
            "scores": scores,
            "statistics": packed,
            "behaviour": None if self.behaviour is None else _short(asdict(self.behaviour)),
            "examples": {"seed": SEED, "written": [asdict(one) for one in self.examples]},
        }
        lines = [
            f"{json.dumps(key)}: {json.dumps(part, ensure_ascii=False, allow_nan=False)}" for key, part in told.items()
        ]
        with atomic_write_text(path) as file:
            file.write("{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote."""
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            if held["kind"] != KIND:
                raise ValueError(f"it is of the kind {held['kind']!r}")
            arrays = {name: unpack(part) for name, part in held["statistics"].items()}
            scores = {
                name: Tally(name, float(part["value"]), str(part["signature"]), arrays[part["statistics"]])
                for name, part in held["scores"].items()
            }
            seen = held["behaviour"]
            made = cls(
                facts={name: held["run"][name] for name in FACTS},
                data=str(held["data"]),
                split=str(held["split"]),
                items=str(held["items"]),
                decoding=dict(held["decoding"]),
                variant=str(held["variant"]),
                members=tuple(map(int, held["members"])),
                commands=tuple(map(str, held["commands"])),
                curve={str(name): list(values) for name, values in held["curve"].items()},
                scores=scores,
                behaviour=None if seen is None else read_behaviour(seen),
                examples=tuple(Written(**one) for one in held["examples"]["written"]),
            )
            made._check()
            return made
        except OSError as error:
            raise ValueError(
                f"`record` must be a file that can be read, but {path} cannot: {error.strerror}."
            ) from error
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            rule = "a file written by `seqsmooth record`"
            raise ValueError(f"`record` must be {rule}, but {path} is damaged or something else instead.") from error


def _short(value: Any) -> Any:
    """Numbers to eight digits."""
    if isinstance(value, Mapping):
        return {key: _short(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(part) for part in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value
