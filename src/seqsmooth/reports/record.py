"""A run as it is remembered: one small file of JSON, without weights and without references or sources.

A record holds what the run was (config, objective, seed, corpus, versions, device, time), its validation curve, its
scores with the statistics of every item, how the model behaves, what it wrote for a few items, and the commands that
repeat it. Every test between runs can be repeated from records alone. The file has a line for each part, so that a
change can be read in a diff.
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
from seqsmooth.files.reading import read_record
from seqsmooth.metrics.scorecard import TOTALS
from seqsmooth.metrics.scores import Floats, mean
from seqsmooth.reports.behaviour import Behaviour, read_behaviour
from seqsmooth.reports.packing import pack, unpack
from seqsmooth.training.runs import Run

KIND = "seqsmooth record 1"
SEED = 0
"""The items of the examples follow from this seed."""
FACTS = (
    *("name", "row", "table", "task", "seed", "config", "objective", "versions", "device", "parameters", "started"),
    *("seconds", "epochs", "steps", "best"),
)
"""The keys of a manifest that a record keeps."""


@dataclass(frozen=True, eq=False)
class Tally:
    """A score and the statistics of the items that it is calculated from.

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
class Output:
    """The text that a run wrote for an item."""

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
        run: the folder of the run, where the record was made from it and not read from a file.
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
    examples: tuple[Output, ...]
    run: Run | None = None

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.facts["seed"])

    @property
    def place(self) -> str:
        """The name of the run in messages: its folder, or the file of its record."""
        return str(self.file if self.run is None else self.run.folder)

    @property
    def label(self) -> str:
        """The row of a table that it belongs to."""
        return str(self.facts["row"] or self.facts["name"])

    @property
    def table(self) -> str:
        """The table that it belongs to; "" where its config names none."""
        return str(self.facts["table"] or "")

    @property
    def share(self) -> float | None:
        """The share of the training data that it learned from; None for all of it."""
        share = self.facts["config"].get("data", {}).get("fraction")
        return None if share is None or share == 1 else float(share)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log of the run; where only the record is there, the validation curve as rows of a log."""
        if self.run is not None:
            return self.run.log
        columns = list(self.curve.items())
        number = len(columns[0][1]) if columns else 0
        return [{"split": "val"} | {name: values[n] for name, values in columns} for n in range(number)]

    def _check(self) -> None:
        """Check what tables are made of; whatever is wrong raises an exception that `load` makes a sentence of."""
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
        """The path of its file in a folder of records."""
        parts = [str(self.facts["name"]), str(self.facts["seed"]), self.split, *filter(None, [self.variant])]
        return PurePosixPath(".".join([*parts, "json"]))

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        packed: dict[str, Mapping[str, Any]] = {}
        scores = {}
        for name, tally in self.scores.items():
            array = pack(tally.statistics)
            same = [known for known, other in packed.items() if other == array]  # BLEU-1 to 4 count the same n-grams
            packed |= {} if same else {name: array}
            scores[name] = {"value": tally.value, "signature": tally.signature, "statistics": (same or [name])[0]}
        content = {
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
            "behaviour": None if self.behaviour is None else _round_numbers(asdict(self.behaviour)),
            "examples": {"seed": SEED, "written": [asdict(one) for one in self.examples]},
        }
        lines = [
            f"{json.dumps(key)}: {json.dumps(part, ensure_ascii=False, allow_nan=False)}"
            for key, part in content.items()
        ]
        with atomic_write_text(path) as file:
            file.write("{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote."""
        return read_record(path, cls._parse, "a file written by `seqsmooth report record`", name="record", kind=KIND)

    @classmethod
    def _parse(cls, content: Mapping[str, Any]) -> Record:
        arrays = {name: unpack(part) for name, part in content["statistics"].items()}
        scores = {
            name: Tally(name, float(part["value"]), str(part["signature"]), arrays[part["statistics"]])
            for name, part in content["scores"].items()
        }
        behaviour = content["behaviour"]
        record = cls(
            facts={name: content["run"][name] for name in FACTS},
            data=str(content["data"]),
            split=str(content["split"]),
            items=str(content["items"]),
            decoding=dict(content["decoding"]),
            variant=str(content["variant"]),
            members=tuple(map(int, content["members"])),
            commands=tuple(map(str, content["commands"])),
            curve={str(name): list(values) for name, values in content["curve"].items()},
            scores=scores,
            behaviour=None if behaviour is None else read_behaviour(behaviour),
            examples=tuple(Output(**one) for one in content["examples"]["written"]),
        )
        record._check()
        return record


def _round_numbers(value: Any) -> Any:
    """Round all numbers to eight digits."""
    if isinstance(value, Mapping):
        return {key: _round_numbers(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_round_numbers(part) for part in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value
