"""What a sweep file asks for: the rows of a table for several seeds, or every point of a grid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from seqsmooth.ops import checks
from seqsmooth.training.config import Config, plain
from seqsmooth.training.places import find_beside, find_config, find_corpus
from seqsmooth.training.reader import differences, listed_keys, load_yaml, read_config

KEYS = ("configs", "seeds", "overrides", "grid")
Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Planned:
    """One run of a sweep.

    Attributes:
        config: the file that it is of.
        seed: of the run.
        folder: of the run.
        overrides: dotted keys and their values as YAML.
        made: what comes of the file and the overrides.
        point: the values of the grid by dotted key; empty without a grid.
    """

    config: Path
    seed: int
    folder: Path
    overrides: tuple[tuple[str, str], ...]
    made: Config
    point: Mapping[str, Scalar] = field(default_factory=dict)

    def words(self) -> list[str]:
        """The words of the command line that do it."""
        given = [word for key, value in self.overrides for word in (f"--{key}", value)]
        return ["train", str(self.config), "--run", str(self.folder), *given, "--seed", str(self.seed)]


def plan_sweep(path: str | Path, runs: Path, overrides: Sequence[tuple[str, str]] = ()) -> list[Planned]:
    """The runs of a sweep file, in the order in which they are to be done: all of one seed, then the next.

    The file holds a list `configs`, seen from the file or among those of the package; a list `seeds`; `overrides` by
    dotted key; and a `grid`, lists of values by dotted key, of which every combination is a run.
    """
    file = find_config(path)
    held = load_yaml(file)
    for key in held:
        checks.one_of("key", key, KEYS)
    configs, seeds, common = held.get("configs"), held.get("seeds", [0]), held.get("overrides") or {}
    checks.must(isinstance(configs, list) and len(configs) > 0, "configs", "a list of files", configs)
    assert isinstance(configs, list)
    whole = isinstance(seeds, list) and len(seeds) > 0 and all(type(seed) is int and seed >= 0 for seed in seeds)
    checks.must(whole, "seeds", "a list of whole numbers, 0 or more", seeds)
    checks.must(isinstance(common, dict), "overrides", "a mapping from dotted keys", common)
    grid = held.get("grid")
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
        for name in configs:
            config = find_config(str(name), beside=file.parent, key="configs")
            for point in points:
                changed = (*every, *_changes(config, every, point))
                made = replace(read_config(config, changed), seed=seed)
                planned.append(Planned(config, seed, runs / made.name / str(seed), changed, made, point))
    return each_once(planned)


def each_once(planned: Iterable[Planned]) -> list[Planned]:
    """The runs without those that come again; two different ones of one folder are refused, for one would be lost."""
    firsts: dict[Path, Planned] = {}
    for each in planned:
        first = firsts.setdefault(each.folder, each)
        other = [] if first is each else differences(plain(first.made), plain(each.made))
        if other:
            raise ValueError(
                f"The runs of a sweep must have folders of their own, but {first.config.name} and {each.config.name} "
                f"both make {each.folder}, with other values of {listed_keys(other)} (`name` in a config tells runs "
                "apart, --runs tells sweeps apart)."
            )
    return list(firsts.values())


def check_files(planned: Iterable[Planned]) -> None:
    """Check that the corpus and the word vectors of every run are there: better now than when its turn comes."""
    for each in planned:
        corpus = find_corpus(each.made.data.folder)
        for key, name in _vectors(plain(each.made)):
            find_beside(corpus, name, key)


def _vectors(section: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The files of word vectors that a config names, by dotted key."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _vectors(value, f"{above}{key}.")
        elif key.endswith("vectors") and isinstance(value, str):
            yield above + key, value


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """The last parts of dotted keys, as many as tell them apart.

    >>> short_keys(["objective.sequence.tau", "objective.token.alpha", "model.alpha"])
    {'objective.sequence.tau': 'tau', 'objective.token.alpha': 'token.alpha', 'model.alpha': 'model.alpha'}
    """
    found = {}
    for key in keys:
        parts = key.split(".")
        endings = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        alone = (end for end in endings if sum(f".{other}".endswith(f".{end}") for other in keys) == 1)
        found[key] = next(alone, key)
    return found


def _points(grid: Any) -> Iterator[dict[str, Scalar]]:
    """Every combination of the values; the last key varies fastest."""
    lists = {} if grid is None else grid
    checks.must(isinstance(lists, dict), "grid", "a mapping from dotted keys to lists of values", repr(grid))
    for key, values in lists.items():
        single = isinstance(values, list) and all(isinstance(value, Scalar) for value in values)
        checks.must(single and len(values) > 0, f"grid.{key}", "a list of single values", repr(values))
    for values in product(*lists.values()):
        yield dict(zip(map(str, lists), values, strict=True))


def _changes(config: Path, every: Sequence[tuple[str, str]], point: Mapping[str, Scalar]) -> Iterator[tuple[str, str]]:
    """What makes a point of a grid: its values, and a name and a row that tell it from the others."""
    if not point:
        return
    short = short_keys(list(point))
    given = [(key, _yaml(f"grid.{key}", value)) for key, value in point.items()]
    yield from given
    made = read_config(config, (*every, *given))
    told = {short[key]: _told(value) for key, value in point.items()}
    listed = ", ".join(f"{key} {value}" for key, value in told.items())
    yield "name", json.dumps(f"{made.name}/{','.join(f'{key}={value}' for key, value in told.items())}")
    yield "row", json.dumps(f"{made.row} ({listed})".lstrip())


def _yaml(key: str, value: Any) -> str:
    """A value as a word of a command line; JSON is YAML."""
    try:
        return json.dumps(value)
    except TypeError:  # YAML knows dates, and sets
        raise checks.wrong(key, "text (in quotes), a number, a list or a mapping", repr(value)) from None


def _seed(text: str) -> int:
    try:
        return checks.at_least("seed", int(text), 0)
    except ValueError:
        raise checks.wrong("seed", "a whole number, 0 or more", repr(text)) from None


def _told(value: Scalar) -> str:
    """A value as part of the name of a folder."""
    told = value if isinstance(value, str) else json.dumps(value)
    return "".join(letter if letter.isalnum() or letter in "-+._" else "-" for letter in told)
