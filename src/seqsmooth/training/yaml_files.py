"""YAML files of keys and values, read strictly: a key that is there twice is an error."""

from __future__ import annotations

from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"`{path}` must be a file that can be read; it is not: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` must be text in UTF-8; it is not at byte {error.start}.") from error
    values = parse_yaml(text, str(path))
    if not isinstance(values, dict):
        value = "nothing" if values is None else repr(values)
        raise ValueError(f"`{path}` must be a YAML file of keys and values; it is {value}.")
    return values


def parse_yaml(text: str, where: str) -> Any:
    """Read a value from YAML; an error names the place, `where`."""
    import yaml

    try:
        return deepcopy(_parse_once(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"{where} must be YAML; it is not{place}: {getattr(error, 'problem', error)}.") from error


@lru_cache(maxsize=1024)
def _parse_once(text: str) -> Any:
    """Parse a text once, since the runs of a sweep share their files."""
    import yaml

    return yaml.load(text, _strict_loader())


@cache
def _strict_loader() -> type[Any]:
    """Make YAML's safe loader refuse a second value for one key, of which it would silently take the last."""
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
