"""Sweeps: losses of a base for several seeds, or every point of a grid of values."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from seqsmooth import checks
from seqsmooth.training.bases import Base, find_row, no_such_name, open_base, open_sweep
from seqsmooth.training.config import Config, plain
from seqsmooth.training.places import find_beside, find_corpus
from seqsmooth.training.reader import differences, listed_keys, read_config

KEYS = ("seeds", "overrides", "grid")
Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Planned:
    """One run of a sweep.

    Attributes:
        file: of its base.
        seed: of the run.
        folder: of the run.
        overrides: dotted keys and their values as YAML.
        config: with the overrides.
        point: the values of the grid by dotted key; empty without a grid.
        loss: the loss of the base; none where the file holds a whole run.
    """

    file: Path
    seed: int
    folder: Path
    overrides: tuple[tuple[str, str], ...]
    config: Config
    point: Mapping[str, Scalar] = field(default_factory=dict)
    loss: str | None = None

    @property
    def source(self) -> str:
        """The file and the loss, for messages."""
        return self.file.name if self.loss is None else f"{self.file.name} --loss {self.loss}"

    def words(self) -> list[str]:
        """The words after `seqsmooth` that train it."""
        base = [str(self.file), *([] if self.loss is None else ["--loss", self.loss])]
        values = [word for key, value in self.overrides for word in (f"--{key}", value)]
        return ["train", *base, "--run", str(self.folder), *values, "--seed", str(self.seed)]


def plan_sweep(path: str | Path, runs: Path, overrides: Sequence[tuple[str, str]] = ()) -> list[Planned]:
    """List the runs of a sweep in the order in which they are trained: all of one seed, then the next.

    A sweep lists `losses` of its base, where a `*` stands for any letters (all losses by default); or, as a file of its
    own, `configs`: files and rows, `BASE/LOSS`. It also has a list `seeds`; `overrides` by dotted key; and a `grid`,
    lists of values by dotted key, of which every combination is a run.

    Args:
        path: a sweep of a base, as in coco/stage_one/main, or a file.
        runs: the folder of all runs.
        overrides: dotted keys and their values as YAML, for every run.
    """
    sweep, rows = _rows(path)
    seeds, common = sweep.get("seeds", [0]), sweep.get("overrides") or {}
    whole = isinstance(seeds, list) and len(seeds) > 0 and all(type(seed) is int and seed >= 0 for seed in seeds)
    checks.must(whole, "seeds", "a list of whole numbers, 0 or more", seeds)
    checks.must(isinstance(common, dict), "overrides", "a mapping from dotted keys", common)
    grid = sweep.get("grid")
    points = list(_points(grid))
    for part, keys in (("overrides", common), ("grid", grid or {})):
        checks.must("seed" not in keys, part, "without `seed`, which is for the list `seeds`", "with it")
    asked = [_seed(value) for key, value in overrides if key == "seed"]
    every = (
        *((str(key), _yaml(f"overrides.{key}", value)) for key, value in common.items()),
        *((key, value) for key, value in overrides if key != "seed"),
    )
    planned = []
    for seed in asked or seeds:
        for file, loss in rows:
            for point in points:
                changes = (*every, *_changes(file, loss, every, point))
                config = replace(read_config(file, changes, loss=loss), seed=seed)
                planned.append(Planned(file, seed, runs / config.name / str(seed), changes, config, point, loss))
    return each_once(planned)


def _rows(path: str | Path) -> tuple[Mapping[str, Any], list[tuple[Path, str | None]]]:
    """Read a sweep: its keys, and the file and the loss of each of its rows."""
    base, name = open_sweep(path)
    if name is not None:
        sweep = base.sweeps[name]
        _check_keys(sweep, ("losses", *KEYS))
        return sweep, [(base.file, loss) for loss in _matching(base, sweep.get("losses", ["*"]))]
    if base.sweeps:
        raise ValueError(f"{path} is a base; name one of its sweeps, as in {path}/{next(iter(base.sweeps))}.")
    sweep = base.values
    _check_keys(sweep, ("configs", *KEYS))
    configs = sweep.get("configs")
    checks.must(isinstance(configs, list) and len(configs) > 0, "configs", "a list of files", configs)
    assert isinstance(configs, list)
    beside = base.file.parent
    rows = [find_row(name, beside=beside) or (open_base(name, beside=beside, key="configs"), None) for name in configs]
    return sweep, [(row.file, loss) for row, loss in rows]


def _check_keys(sweep: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in sweep:
        checks.one_of("key", key, keys)


def _matching(base: Base, patterns: Any) -> list[str]:
    """Find the losses of a base that match a list of names, each once; a `*` in a name stands for any letters."""
    checks.must(isinstance(patterns, list) and len(patterns) > 0, "losses", "a list of names", patterns)
    names: dict[str, None] = {}
    for pattern in map(str, patterns):
        matches = fnmatch.filter(base.losses, pattern)
        if not matches:
            raise ValueError(no_such_name("loss", pattern, base.name, base.losses))
        names |= dict.fromkeys(matches)
    return list(names)


def each_once(planned: Iterable[Planned]) -> list[Planned]:
    """Drop repeated runs. Two different runs of one folder are an error, since one would be lost."""
    firsts: dict[Path, Planned] = {}
    for each in planned:
        first = firsts.setdefault(each.folder, each)
        other = [] if first is each else differences(plain(first.config), plain(each.config))
        if other:
            raise ValueError(
                f"The runs of a sweep must have folders of their own, but {first.source} and {each.source} both "
                f"make {each.folder}, with other values of {listed_keys(other)} (`name` in a config tells runs "
                "apart, --runs tells sweeps apart)."
            )
    return list(firsts.values())


def check_files(planned: Iterable[Planned]) -> None:
    """Check that the corpus and the word vectors of every run exist, before the first run starts."""
    for each in planned:
        corpus = find_corpus(each.config.data.folder)
        for key, name in _vectors(plain(each.config)):
            find_beside(corpus, name, key)


def _vectors(section: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of a config that name files of word vectors, and the files."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _vectors(value, f"{above}{key}.")
        elif key.endswith("vectors") and isinstance(value, str):
            yield above + key, value


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Shorten dotted keys to as many of their last parts as tell them apart.

    >>> short_keys(["objective.sequence.tau", "objective.token.alpha", "model.alpha"])
    {'objective.sequence.tau': 'tau', 'objective.token.alpha': 'token.alpha', 'model.alpha': 'model.alpha'}
    """
    short = {}
    for key in keys:
        parts = key.split(".")
        endings = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        unique = (end for end in endings if sum(f".{other}".endswith(f".{end}") for other in keys) == 1)
        short[key] = next(unique, key)
    return short


def _points(grid: Any) -> Iterator[dict[str, Scalar]]:
    """Yield every combination of the values of a grid; the last key varies fastest."""
    lists = {} if grid is None else grid
    checks.must(isinstance(lists, dict), "grid", "a mapping from dotted keys to lists of values", repr(grid))
    for key, values in lists.items():
        single = isinstance(values, list) and all(isinstance(value, Scalar) for value in values)
        checks.must(single and len(values) > 0, f"grid.{key}", "a list of single values", repr(values))
    for values in product(*lists.values()):
        yield dict(zip(map(str, lists), values, strict=True))


def _changes(
    file: Path, loss: str | None, every: Sequence[tuple[str, str]], point: Mapping[str, Scalar]
) -> Iterator[tuple[str, str]]:
    """Yield the overrides of a point of a grid: its values, and a name and a row that tell it from the others."""
    if not point:
        return
    short = short_keys(list(point))
    values = [(key, _yaml(f"grid.{key}", value)) for key, value in point.items()]
    yield from values
    config = read_config(file, (*every, *values), loss=loss)
    words = {short[key]: _word(value) for key, value in point.items()}
    listed = ", ".join(f"{key} {value}" for key, value in words.items())
    yield "name", json.dumps(f"{config.name}/{','.join(f'{key}={value}' for key, value in words.items())}")
    yield "row", json.dumps(f"{config.row} ({listed})".lstrip())


def _yaml(key: str, value: Any) -> str:
    """Write a value as a word of a command line; JSON is YAML."""
    try:
        return json.dumps(value)
    except TypeError:  # YAML knows dates, and sets
        raise checks.wrong(key, "text (in quotes), a number, a list or a mapping", repr(value)) from None


def _seed(text: str) -> int:
    try:
        return checks.at_least("seed", int(text), 0)
    except ValueError:
        raise checks.wrong("seed", "a whole number, 0 or more", repr(text)) from None


def _word(value: Scalar) -> str:
    """Write a value as part of the name of a folder."""
    word = value if isinstance(value, str) else json.dumps(value)
    return "".join(letter if letter.isalnum() or letter in "-+._" else "-" for letter in word)
