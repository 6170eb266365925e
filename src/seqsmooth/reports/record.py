"""What a run leaves behind for good: one small file of JSON, without weights and without anybody's texts.

A record holds what the run was (config, objective, seed, corpus, versions, device, time), its validation curve, its
scores with the statistics of every item, so that every test between runs can be repeated from records alone, how the
model behaves, what it wrote for a few items that are the same in all records of a corpus, and the command that repeats
it. A line a part, so that changes can be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from seqsmooth.decoding import Hypothesis, read_hypotheses
from seqsmooth.metrics.report import TOTALS, Report
from seqsmooth.metrics.scores import Floats, Scores, mean
from seqsmooth.ops import checks
from seqsmooth.ops.files import text_written_whole
from seqsmooth.reports.behaviour import Behaviour, read_behaviour, remembered
from seqsmooth.reports.packing import pack, unpack
from seqsmooth.text import Vocabulary
from seqsmooth.training.config import plain
from seqsmooth.training.places import find_config
from seqsmooth.training.reader import differences, read_config
from seqsmooth.training.runs import FREE, Run

KIND = "seqsmooth record 1"
EXAMPLES, SEED = 20, 0
_NAMES = ("name", "row", "table", "seed")
_FACTS = (
    *("name", "row", "table", "task", "seed", "config", "objective", "versions", "device", "parameters", "started"),
    *("seconds", "epochs", "steps", "best"),
)


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
        lines = [f"{json.dumps(key)}: {json.dumps(part, ensure_ascii=False)}" for key, part in told.items()]
        with text_written_whole(path) as file:
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
            return cls(
                {name: held["run"][name] for name in _FACTS},
                str(held["data"]),
                str(held["split"]),
                str(held["items"]),
                dict(held["decoding"]),
                str(held["variant"]),
                tuple(map(int, held["members"])),
                tuple(map(str, held["commands"])),
                {str(name): list(values) for name, values in held["curve"].items()},
                scores,
                None if seen is None else read_behaviour(seen),
                tuple(Written(**one) for one in held["examples"]["written"]),
            )
        except OSError as error:
            raise ValueError(
                f"`record` must be a file that can be read, but {path} cannot: {error.strerror}."
            ) from error
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            rule = "a file written by `seqsmooth record`"
            raise ValueError(f"`record` must be {rule}, but {path} is damaged or something else instead.") from error


def record_run(folder: Path, split: str) -> Record:
    """Make the record of a run that was trained, decoded and scored; its weights are not asked for."""
    run = _finished(folder)
    way_out = f"decoded and scored (`seqsmooth decode {folder} --split {split} --observe`)"
    there = run.decoded(split).is_file() and run.scores(split).is_file()
    checks.must(there, str(folder), way_out, f"one without scores of {split}")
    made = _record([run], run.decoded(split), run.scores(split))
    return replace(made, curve=_curve(run), behaviour=remembered(run, split))


def record_hypotheses(folders: Sequence[Path], hypotheses: Path) -> Record:
    """Make the record of what `seqsmooth decode RUN... --out FILE` wrote: an ensemble, or one run in another way."""
    runs = [_finished(folder) for folder in folders]
    scores = hypotheses.with_suffix(".scores.json")
    there = hypotheses.is_file() and scores.is_file()
    checks.must(there, "hypotheses", "a file of `seqsmooth decode RUN... --out FILE`", str(hypotheses))
    made = _record(runs, hypotheses, scores)
    words = ["seqsmooth decode", *(f"runs/{run.name}/{run.manifest['seed']}" for run in runs)]
    words += [f"--split {made.split} --beam {made.decoding['beam']}"]
    words += [f"--mean {made.decoding['mean']}"] if len(runs) > 1 else []
    decode = " ".join([*words, f"--out {hypotheses.name}"])
    trained = [_commands(_facts(run), made.split)[0] for run in runs]
    return replace(made, variant=hypotheses.stem, commands=(*trained, decode))


def _finished(folder: Path) -> Run:
    run = Run.open(folder)
    rule = "trained to its end (the same `seqsmooth train` goes on with it)"
    checks.must(run.finished, str(folder), rule, "unfinished")
    return run


def _record(runs: Sequence[Run], decoded: Path, scored: Path) -> Record:
    hypotheses = read_hypotheses(decoded)
    ids = [str(name) for name, _ in hypotheses]
    report = Report.load(scored)
    for scores in report.scores.values():
        checks.must(list(scores) == ids, str(scored), "of the hypotheses beside it", "of other items")
    try:
        settings = json.loads(decoded.with_suffix(".settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise checks.wrong(str(decoded), "with its settings beside it", "without") from error
    facts, split = _facts(runs[0]), str(settings["split"])
    return Record(
        facts,
        str(runs[0].manifest["data"]["fingerprint"]),
        split,
        hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16],
        {name: value for name, value in settings.items() if name not in ("weights", "corpus", "split")},
        "",
        tuple(int(run.manifest["seed"]) for run in runs),
        _commands(facts, split),
        {},
        {name: _tally(name, scores) for name, scores in report.scores.items()},
        None,
        _examples(runs[0], hypotheses),
    )


def _facts(run: Run) -> dict[str, Any]:
    return {name: _without_places(run.manifest.get(name)) for name in _FACTS}


def _examples(run: Run, hypotheses: Sequence[tuple[int | str, Sequence[Hypothesis]]]) -> tuple[Written, ...]:
    vocabulary = Vocabulary.load(run.folder / "vocabulary.json")
    number = len(hypotheses)
    chosen = np.random.default_rng(SEED).choice(number, min(EXAMPLES, number), replace=False)
    found = []
    for name, several in (hypotheses[place] for place in sorted(chosen.tolist())):
        words = vocabulary.sentence(several[0].tokens) if several else []
        found.append(Written(str(name), " ".join(words)))
    return tuple(found)


def _tally(name: str, scores: Scores) -> Tally:
    return Tally(name, scores.scale * scores.value, scores.signature, scores.statistics)


def _curve(run: Run) -> dict[str, list[float | None]]:
    rows = [row for row in run.log if row["split"] == "val"]
    names = [name for name in (rows[0] if rows else {}) if name != "split"]
    found: dict[str, list[float | None]] = {name: [row.get(name) for row in rows] for name in names}
    return {name: values for name, values in found.items() if any(value is not None for value in values)}


def _commands(facts: Mapping[str, Any], split: str) -> tuple[str, ...]:
    """From the config that comes with the package to this run: its name, and whatever was set otherwise."""
    name, seed = str(facts["name"]), facts["seed"]
    for base in (PurePosixPath(name), *PurePosixPath(name).parents):  # a point of a grid has its values behind the name
        try:
            path = PurePosixPath("configs", base).with_suffix(".yaml")
            shipped = _without_places(json.loads(json.dumps(plain(read_config(find_config(path))))))
        except ValueError:
            continue
        changed = [key for key in differences(shipped, facts["config"]) if key not in (*FREE, *_NAMES)]
        words = [f"--{key} {_word(_at(facts['config'], key))}" for key in changed]
        words += [] if shipped["name"] == name else [f"--run runs/{name}/{seed}"]
        train = " ".join(["seqsmooth train", str(path), *words, f"--seed {seed}"])
        break
    else:
        train = f"seqsmooth train {name}.yaml --seed {seed}"
    return train, f"seqsmooth decode runs/{name}/{seed} --split {split}"


def _at(config: Mapping[str, Any], key: str) -> Any:
    held: Any = config
    for part in key.split("."):
        held = held.get(part) if isinstance(held, Mapping) else None
    return held


def _word(value: Any) -> str:
    told = json.dumps(value)
    return told if isinstance(value, (int, float)) else f"'{told}'"


def _without_places(value: Any) -> Any:
    """The same, without the folders of the machine it was made on: of an absolute path the last part stays."""
    if isinstance(value, Mapping):
        return {key: _without_places(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_places(part) for part in value]
    return PurePosixPath(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def _short(value: Any) -> Any:
    """Numbers to eight digits."""
    if isinstance(value, Mapping):
        return {key: _short(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(part) for part in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value
