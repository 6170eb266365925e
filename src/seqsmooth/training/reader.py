"""Read a `Config` from YAML files and overrides; an unknown key or a value of another type is an error."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from seqsmooth import checks
from seqsmooth.files.paths import inner_path
from seqsmooth.training.bases import merge, nest, open_base
from seqsmooth.training.config import Config, plain
from seqsmooth.training.sections import choices
from seqsmooth.training.yaml_files import parse_yaml


def read_config(path: str | Path, overrides: Iterable[tuple[str, str]] = (), *, loss: str | None = None) -> Config:
    """Read the config of a run: a base with one of its losses, or a file that holds a whole run.

    Args:
        path: a YAML file; one that is not there is looked for among those that come with the package.
        overrides: dotted keys and their values as YAML, as in ("trainer.max_epochs", "1").
        loss: one of the base's losses, by name.
    """
    base = open_base(path)
    values = base.run(loss)
    for key, text in overrides:
        values = merge(values, nest(key.split("."), parse_yaml(text, f"the value of --{key}")))
    if not values.get("name"):
        values["name"] = base.name
    config = parse_config(values)
    inner_path("name", config.name)  # folders of runs and files of records are called by it
    return config


def parse_config(values: Mapping[str, Any]) -> Config:
    """Make a config of nested keys and values."""
    config: Config = _parse(Config, values, "")
    return config


def text_of(config: Config) -> str:
    """Write a config as YAML, with every value."""
    import yaml

    text: str = yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True, width=120)
    return text


def with_defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the defaults of options that came after a config was written out.

    So the default of a new option must be what was done before it came. A config that cannot be read any more stays as
    it is.
    """
    try:
        written: Mapping[str, Any] = plain(parse_config(values))
    except ValueError:
        return values
    return written


def differences(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    """List the dotted keys at which two configs, as plain mappings, differ."""
    keys = []
    for key in {**one, **other}:
        ours, theirs = one.get(key), other.get(key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            keys += differences(ours, theirs, f"{prefix}{key}.")
        elif ours != theirs:
            keys.append(f"{prefix}{key}")
    return keys


def listed_keys(keys: Sequence[str]) -> str:
    """Name the first three of some dotted keys, and how many more there are."""
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(f"`{key}`" for key in keys[:3]) + more


def _parse(kind: Any, value: Any, key: str) -> Any:
    """Check a value against a type; the error is one sentence."""
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
    checks.must(isinstance(value, Mapping), key or "the config", "a section of keys and values", _quote(value))
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
            raise ValueError(f"`{dotted}{name}` must be given in a config; it is not.")
    return kind(**{name: _field(known[name], hints[name], given, dotted + name) for name, given in value.items()})


def _field(item: dataclasses.Field[Any], hint: Any, value: Any, key: str) -> Any:
    sections = choices(item)
    if sections is None or (value is None and item.default is None):
        return None if sections is not None else _parse(hint, value, key)
    return _choose(sections, value, key)


def _one_of(kinds: Sequence[Any], value: Any, key: str) -> Any:
    records: dict[str, Any] = {}
    for kind in kinds:
        if dataclasses.is_dataclass(kind):
            records[str(kind.__dataclass_fields__["kind"].default)] = kind
    if value is None and type(None) in kinds:
        return None
    if records:
        return _choose(records, value, key)
    rest = [kind for kind in kinds if kind is not type(None)]
    return _parse(rest[0], value, key)


def _choose(records: Mapping[str, Any], value: Any, key: str) -> Any:
    checks.must(isinstance(value, Mapping), key, "a section with a `kind`", _quote(value))
    kind = value.get("kind")
    if kind not in records:
        listed = ", ".join(f"`{name}`" for name in records)
        raise ValueError(f"`{key}.kind` must be one of {listed}; it is {_quote(kind)}.")
    return _record(records[kind], value, key)


def _several(kinds: Sequence[Any], value: Any, key: str) -> tuple[Any, ...]:
    checks.must(isinstance(value, (list, tuple)), key, "a list", _quote(value))
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_parse(kinds[0], item, f"{key}[{number}]") for number, item in enumerate(value))
    checks.must(len(value) == len(kinds), key, f"a list of {len(kinds)}", f"one of {len(value)}")
    pairs = zip(kinds, value, strict=True)
    return tuple(_parse(kind, item, f"{key}[{number}]") for number, (kind, item) in enumerate(pairs))


def _scalar(kind: Any, value: Any, key: str) -> Any:
    if kind is bool:
        checks.must(isinstance(value, bool), key, "true or false", _quote(value))
        return value
    if kind is int:
        checks.must(isinstance(value, int) and not isinstance(value, bool), key, "a whole number", _quote(value))
        return value
    if kind is float:
        return _number(value, key)
    assert kind is str, kind
    checks.must(isinstance(value, str), key, "text", _quote(value))
    return value


def _number(value: Any, key: str) -> float:
    if isinstance(value, str):  # YAML 1.1 takes 5e-4 for text, for want of a point
        try:
            value = float(value)
        except ValueError:
            raise checks.wrong(key, "a number", _quote(value)) from None
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    checks.must(fits, key, "a number", _quote(value))
    return float(value)


def _quote(value: Any) -> str:
    return "nothing" if value is None else repr(value)
