"""From the folder of a run to its record."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from seqsmooth.decoding import Hypothesis, load_hypotheses
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.metrics.scores import Scores
from seqsmooth.metrics.tasks import TASKS
from seqsmooth.ops import checks
from seqsmooth.reports.alike import check_row
from seqsmooth.reports.behaviour import load_behaviour
from seqsmooth.reports.record import FACTS, SEED, Output, Record, Tally
from seqsmooth.text import Vocabulary
from seqsmooth.training.bases import find_row
from seqsmooth.training.config import plain
from seqsmooth.training.evaluation import Judge
from seqsmooth.training.reader import differences, read_config, with_defaults
from seqsmooth.training.runs import FREE, Run
from seqsmooth.training.writing import check_own, check_weights, known_settings

EXAMPLES = 20
_NAMES = ("name", "row", "table", "seed")


def record_run(folder: Path, split: str) -> Record:
    """Make the record of a run that was trained, decoded and scored; its weights need not be there any more."""
    run = _open_finished(folder)
    way_out = f"decoded and scored (`seqsmooth decode {folder} --split {split} --observe`)"
    there = run.hypotheses_file(split).is_file() and run.scores(split).is_file()
    checks.must(there, str(folder), way_out, f"one without scores of {split}")
    other = check_own(run, split)
    rule = (
        f"decoded as its config says (`seqsmooth decode {folder} --split {split} --overwrite`), or else to a file of "
        "its own (`decode --out FILE`, `report record --hypotheses FILE`)"
    )
    checks.must(not other, str(folder), rule, f"decoded with {', '.join(f'{key} {other[key]}' for key in other)}")
    record = _record([run], run.hypotheses_file(split), Scorecard.load(run.scores(split)).scores)
    return replace(record, curve=_curve(run), behaviour=load_behaviour(run, split))


def read_run(folder: Path, split: str) -> Record:
    """Make the record of a run for a report: decoded in any way, and scored here where nobody did; it keeps the run."""
    run = _open_finished(folder)
    rule = f"decoded (`seqsmooth decode {folder} --split {split}`)"
    checks.must(run.hypotheses_file(split).is_file(), str(folder), rule, f"one without hypotheses of {split}")
    check_own(run, split)
    scored = run.scores(split).is_file()
    scores = Scorecard.load(run.scores(split)).scores if scored else _score(run, split)
    return replace(_record([run], run.hypotheses_file(split), scores), curve=_curve(run), run=run)


def record_hypotheses(folders: Sequence[Path], hypotheses: Path) -> Record:
    """Make the record of what `seqsmooth decode RUN... --out FILE` wrote: an ensemble, or one run in another way."""
    runs = [_open_finished(folder) for folder in folders]
    scores = hypotheses.with_suffix(".scores.json")
    there = hypotheses.is_file() and scores.is_file()
    checks.must(there, "hypotheses", "a file of `seqsmooth decode RUN... --out FILE`", str(hypotheses))
    record = _record(runs, hypotheses, Scorecard.load(scores).scores)
    members = [
        replace(record, facts=_facts(run), data=str(run.manifest["data"]["fingerprint"]), run=run) for run in runs
    ]
    check_row(record.label, members)
    *trained, decode = record.commands
    out = f"{decode} --out {shlex.quote(hypotheses.name)}"
    return replace(record, variant=hypotheses.stem, commands=(*trained, out))


def _open_finished(folder: Path) -> Run:
    run = Run.open(folder)
    rule = "trained to its end (the same `seqsmooth train` goes on with it)"
    checks.must(run.finished, str(folder), rule, "unfinished")
    return run


def _score(run: Run, split: str) -> Mapping[str, Scores]:
    """The metrics that need no Java."""
    corpus = run.corpus()
    places = {name: place for place, name in enumerate(corpus.ids(split))}
    hypotheses = {places[name]: several for name, several in run.hypotheses(split)}
    scores, _ = Judge(corpus, split).scores(hypotheses, TASKS[corpus.task].quick)
    return scores


def _record(runs: Sequence[Run], decoded: Path, scores: Mapping[str, Scores]) -> Record:
    hypotheses = load_hypotheses(decoded)
    ids = [str(name) for name, _ in hypotheses]
    for each in scores.values():
        checks.must(list(each) == ids, f"scores of {decoded}", "of the hypotheses beside it", "of other items")
    settings = known_settings(decoded)
    check_weights(runs, decoded, settings)
    facts, split = _facts(runs[0]), str(settings["split"])
    names = [f"runs/{run.name}/{run.manifest['seed']}" for run in runs]
    return Record(
        facts=facts,
        data=str(runs[0].manifest["data"]["fingerprint"]),
        split=split,
        items=hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16],
        decoding={name: value for name, value in settings.items() if name not in ("weights", "corpus", "split")},
        variant="",
        members=tuple(int(run.manifest["seed"]) for run in runs),
        commands=(*(_training(_facts(run)) for run in runs), _decoding(names, facts["config"]["decoding"], settings)),
        curve={},
        scores={name: _tally(name, each) for name, each in scores.items()},
        behaviour=None,
        examples=_examples(runs[0], hypotheses),
    )


def _facts(run: Run) -> dict[str, Any]:
    return {name: _without_places(run.manifest.get(name)) for name in FACTS}


def _examples(run: Run, hypotheses: Sequence[tuple[int | str, Sequence[Hypothesis]]]) -> tuple[Output, ...]:
    vocabulary = Vocabulary.load(run.folder / "vocabulary.json")
    number = len(hypotheses)
    chosen = np.random.default_rng(SEED).choice(number, min(EXAMPLES, number), replace=False)
    outputs = []
    for name, several in (hypotheses[place] for place in sorted(chosen.tolist())):
        words = vocabulary.sentence(several[0].tokens) if several else []
        outputs.append(Output(str(name), " ".join(words)))
    return tuple(outputs)


def _tally(name: str, scores: Scores) -> Tally:
    return Tally(name, scores.scale * scores.value, scores.signature, scores.statistics)


def _curve(run: Run) -> dict[str, list[float | None]]:
    rows = [row for row in run.log if row["split"] == "val"]
    names = [name for name in (rows[0] if rows else {}) if name != "split"]
    columns = {name: [_finite(row.get(name)) for row in rows] for name in names}
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _finite(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def _decoding(names: Sequence[str], config: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The command that decodes in the same way, with the options that are not as the config says."""
    given = [key for key in ("beam", "length") if settings[key] != config[key]]
    given += [key for key in ("mean", "which") if key in settings]
    words = [word for key in given for word in (f"--{key}", str(settings[key]))]
    return shlex.join(["seqsmooth", "decode", *names, "--split", str(settings["split"]), *words])


def _training(facts: Mapping[str, Any]) -> str:
    """The command that trains this run from a config of the package, with every value that was set otherwise."""
    name, seed = str(facts["name"]), facts["seed"]
    for path in (PurePosixPath(name), *PurePosixPath(name).parents):  # a point of a grid has its values behind the name
        row = find_row(PurePosixPath("configs", path))
        if row is None or not path.name or (row[1] is None and row[0].losses):
            continue
        base, loss = row
        packaged = _without_places(json.loads(json.dumps(plain(read_config(base.file, loss=loss)))))
        config = with_defaults(facts["config"])
        changed = [key for key in differences(packaged, config) if key not in (*FREE, *_NAMES)]
        words = [base.name, *([] if loss is None else ["--loss", loss])]
        words += [word for key in changed for word in (f"--{key}", json.dumps(_at(config, key)))]
        words += [] if packaged["name"] == name else ["--run", f"runs/{name}/{seed}"]
        return shlex.join(["seqsmooth", "train", *words, "--seed", str(seed)])
    # A config of one's own: the folder of the run keeps it as it was resolved, with its name and its seed.
    return shlex.join(["seqsmooth", "train", f"runs/{name}/{seed}/config.yaml"])


def _at(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _without_places(value: Any) -> Any:
    """Remove the folders of a machine from a config: of an absolute path the last part stays."""
    if isinstance(value, Mapping):
        return {key: _without_places(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_places(part) for part in value]
    return PurePosixPath(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value
