"""From YAML files and words of the command line to a `Config`: every key known, every value of its type."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from seqsmooth.files.paths import inner_path
from seqsmooth.ops import checks
from seqsmooth.training import config as sections
from seqsmooth.training.config import Config
from seqsmooth.training.model_sections import model_sections
from seqsmooth.training.places import find_config

EXTENDS = "extends"


def read_config(path: str | Path, overrides: Iterable[tuple[str, str]] = ()) -> Config:
    """Read a config, with what it extends, and change some of its values.

    Args:
        path: a YAML file; one that is not there is looked for among those that come with the package.
        overrides: dotted keys and their values as YAML, as in ("trainer.max_epochs", "1").
    """
    file = find_config(path)
    values = _merged(file, ())
    for key, text in overrides:
        values = merge(values, _nested(key.split("."), _yaml(text, f"the value of --{key}")))
    if not values.get("name"):
        values["name"] = config_name(file)
    made = parse_config(values)
    inner_path("name", made.name)  # folders of runs and files of records are called by it
    return made


def parse_config(values: Mapping[str, Any]) -> Config:
    """Make a config of what a YAML file holds, `extends` already followed."""
    made: Config = _parse(Config, values, "")
    return made


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a mapping over another one, at all depths.

    Where `above` names another `kind`, nothing of the mapping below stays: its keys belong to what it was.
    """
    kind = above.get("kind")
    if kind is not None and kind != below.get("kind"):
        return dict(above)
    made = dict(below)
    for key, value in above.items():
        old = made.get(key)
        made[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return made


def text_of(config: Config) -> str:
    """A config as YAML, every value written out."""
    import yaml

    text: str = yaml.safe_dump(sections.plain(config), sort_keys=False, allow_unicode=True, width=120)
    return text


def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A config that was written out before some option came, with the default of that option.

    So the default of a new option must be what was done before it came. A config that cannot be read any more stays as
    it is.
    """
    try:
        made: Mapping[str, Any] = sections.plain(parse_config(values))
    except ValueError:
        return values
    return made


def differences(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The dotted keys at which two configs, as plain mappings, differ."""
    found = []
    for key in {**one, **other}:
        ours, theirs = one.get(key), other.get(key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            found += differences(ours, theirs, f"{prefix}{key}.")
        elif ours != theirs:
            found.append(f"{prefix}{key}")
    return found


def listed_keys(keys: Sequence[str]) -> str:
    """The first of some dotted keys, and how many more there are."""
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(f"`{key}`" for key in keys[:3]) + more


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"`{path}` must be a file that can be read, but is not: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` must be text in UTF-8, but is not at byte {error.start}.") from error
    values = _yaml(text, str(path))
    if not isinstance(values, dict):
        raise ValueError(f"`{path}` must be a YAML file of keys and values, but is {_said(values)} instead.")
    return values


def _merged(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    checks.must(path not in below, EXTENDS, "a file that does not extend this one again", str(path))
    values = load_yaml(path)
    bases = values.pop(EXTENDS, [])
    made: dict[str, Any] = {}
    for key, base in _bases(bases):
        held = _merged(find_config(base, beside=path.parent, key=EXTENDS), (*below, path))
        made = merge(made, _nested(key.split("."), held) if key else held)
    return merge(made, values)


def _bases(entries: Any) -> Iterator[tuple[str, str]]:
    """What is extended: the dotted key of the section that a file is, or none where it is a whole config; the file."""
    for entry in entries if isinstance(entries, list) else [entries]:
        for key, base in entry.items() if isinstance(entry, Mapping) else [("", entry)]:
            rule = "the path of a file, or a dotted key and the path of a file"
            checks.must(isinstance(key, str) and isinstance(base, str), EXTENDS, rule, repr(entry))
            yield key, base


def _nested(keys: Sequence[str], value: Any) -> dict[str, Any]:
    return {keys[0]: value if len(keys) == 1 else _nested(keys[1:], value)}


def _yaml(text: str, where: str) -> Any:
    import yaml

    try:
        return deepcopy(_loaded(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"{where} must be YAML, but is not{place}: {getattr(error, 'problem', error)}.") from error


@lru_cache(maxsize=1024)
def _loaded(text: str) -> Any:
    """What a text holds, read once: hundreds of configs of a sweep extend the same few files."""
    import yaml

    return yaml.load(text, _loader())


@cache
def _loader() -> type[Any]:
    """YAML's safe loader, which would silently take the last of two values for one key."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    problem = f"the key {key.value!r} is there twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add((key.tag, str(key.value)))
            return node

    return Loader


def config_name(path: Path) -> str:
    """The path of a config below the folder `configs`, without its suffix; or the name of the file."""
    parts = path.with_suffix("").parts
    below = [place for place, part in enumerate(parts) if part == "configs"]
    return "/".join(parts[below[-1] + 1 :]) if below else parts[-1]


def _parse(kind: Any, value: Any, key: str) -> Any:
    """A value of a type, or one sentence why not."""
    if key == "model":
        return _chosen(model_sections(), value, key)
    if dataclasses.is_dataclass(kind):
        return _record(typing.cast(type, kind), value, key)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, key)
    if origin is Literal:
        checks.one_of(key, value, [str(choice) for choice in get_args(kind)])
        return value
    if origin is tuple:
        return _several(get_args(kind), value, key)
    return _scalar(kind, value, key)


def _record(kind: type, value: Any, key: str) -> Any:
    checks.must(isinstance(value, Mapping), key or "the config", "a section of keys and values", _said(value))
    known = {item.name: item for item in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    dotted = f"{key}." if key else ""
    for given in value:
        if given not in known:
            near = difflib.get_close_matches(str(given), known, n=1, cutoff=0.0)
            raise ValueError(f"There is no key `{dotted}{given}` in a config; the nearest is `{dotted}{near[0]}`.")
    for name, item in known.items():
        optional = item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING
        if name not in value and not optional:
            raise ValueError(f"`{dotted}{name}` must be given in a config, but is not.")
    return kind(**{name: _parse(hints[name], given, dotted + name) for name, given in value.items()})


def _one_of(kinds: Sequence[Any], value: Any, key: str) -> Any:
    records: dict[str, Any] = {}
    for kind in kinds:
        if dataclasses.is_dataclass(kind):
            records[str(kind.__dataclass_fields__["kind"].default)] = kind
    if value is None and type(None) in kinds:
        return None
    if records:
        return _chosen(records, value, key)
    rest = [kind for kind in kinds if kind is not type(None)]
    return _parse(rest[0], value, key)


def _chosen(records: Mapping[str, Any], value: Any, key: str) -> Any:
    checks.must(isinstance(value, Mapping), key, "a section with a `kind`", _said(value))
    kind = value.get("kind")
    if kind not in records:
        listed = ", ".join(f"`{name}`" for name in records)
        raise ValueError(f"`{key}.kind` must be one of {listed}, but is {_said(kind)} instead.")
    return _record(records[kind], value, key)


def _several(kinds: Sequence[Any], value: Any, key: str) -> tuple[Any, ...]:
    checks.must(isinstance(value, (list, tuple)), key, "a list", _said(value))
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_parse(kinds[0], item, f"{key}[{number}]") for number, item in enumerate(value))
    checks.must(len(value) == len(kinds), key, f"a list of {len(kinds)}", f"one of {len(value)}")
    pairs = zip(kinds, value, strict=True)
    return tuple(_parse(kind, item, f"{key}[{number}]") for number, (kind, item) in enumerate(pairs))


def _scalar(kind: Any, value: Any, key: str) -> Any:
    if kind is bool:
        checks.must(isinstance(value, bool), key, "true or false", _said(value))
        return value
    if kind is int:
        checks.must(isinstance(value, int) and not isinstance(value, bool), key, "a whole number", _said(value))
        return value
    if kind is float:
        return _number(value, key)
    assert kind is str, kind
    checks.must(isinstance(value, str), key, "text", _said(value))
    return value


def _number(value: Any, key: str) -> float:
    if isinstance(value, str):  # YAML 1.1 takes 5e-4 for text, for want of a point
        try:
            value = float(value)
        except ValueError:
            raise checks.wrong(key, "a number", _said(value)) from None
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    checks.must(fits, key, "a number", _said(value))
    return float(value)


def _said(value: Any) -> str:
    return "nothing" if value is None else repr(value)
