"""Bases: a YAML file says what the runs of a table share, and lists the losses in which they differ.

A run is a corpus, a model, a recipe and a loss. A base extends a file of each; with one of its losses it is a run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from seqsmooth import checks
from seqsmooth.training.places import below_configs, find_file, missing_file, packaged_folders
from seqsmooth.training.yaml_files import load_yaml

EXTENDS = "extends"
FACTORS = ("corpora", "models", "recipes", "losses")
"""Folders of packaged files that bases extend."""


@dataclass(frozen=True)
class Base:
    """What the runs of a table share.

    Attributes:
        file: the YAML file.
        values: keys and values of a config, what is extended included.
        losses: what each loss changes of them, by name; a loss may change any key, and may extend another one.
        sweeps: losses, seeds, overrides and a grid of values to train together, by name.
    """

    file: Path
    values: Mapping[str, Any]
    losses: Mapping[str, Mapping[str, Any]]
    sweeps: Mapping[str, Mapping[str, Any]]

    @property
    def name(self) -> str:
        """The path of the file below a folder `configs`, without its suffix, or else its name."""
        return "/".join(below_configs(self.file.with_suffix(""))) if "configs" in self.file.parts else self.file.stem

    @property
    def summary(self) -> str:
        """The first line of the file, where that is a comment."""
        line = self.file.read_text(encoding="utf-8").split("\n", 1)[0]
        return line.removeprefix("#").strip() if line.startswith("#") else ""

    def run(self, loss: str | None) -> dict[str, Any]:
        """Make the keys and values of a run: the base with one of its losses, or a base that has none by itself."""
        if loss is None:
            if self.losses:
                raise ValueError(
                    f"A run of {self.name} needs one of its {len(self.losses)} losses, as in `--loss "
                    f"{next(iter(self.losses))}`; `seqsmooth train {self.name} --list` lists them."
                )
            return {"name": self.name, **self.values}
        values = merge(self.values, self._changes(loss))
        if "name" not in self._changes(loss):
            values["name"] = f"{self.values.get('name') or self.name}/{loss}"
        start = values.get("trainer", {}).get("start_from")
        if isinstance(start, str):
            values = merge(values, {"trainer": {"start_from": start.replace("{loss}", loss)}})
        return values

    def _changes(self, loss: str, below: tuple[str, ...] = ()) -> dict[str, Any]:
        """Collect what a loss changes, including what it extends: other losses of the base, or files."""
        if loss not in self.losses:
            raise ValueError(no_such_name("loss", loss, self.name, self.losses))
        checks.must(loss not in below, f"losses.{loss}.{EXTENDS}", "a loss that does not extend this one again", loss)
        changes = dict(self.losses[loss])
        parts: dict[str, Any] = {}
        for part in _as_list(changes.pop(EXTENDS, [])):
            known = part in self.losses
            parts = merge(parts, self._changes(part, (*below, loss)) if known else _read_part(part, self.file, ()))
        return merge(parts, changes)


def open_base(path: str | Path, *, beside: Path = Path(), key: str = "config") -> Base:
    """Open a base or a config of one run: a YAML file, here or among those of the package.

    Args:
        path: of the file; its suffix may be left out, and `configs/` where it is one of the package's.
        beside: the folder that the path is seen from.
        key: what the path was given for.
    """
    file = find_file(path, beside=beside)
    if file is None:
        raise explain_move(path) or missing_file(path, beside=beside, key=key, names=_names())
    return _open(file, ())


def find_row(path: str | PurePath, *, beside: Path = Path()) -> tuple[Base, str | None] | None:
    """Find the run that a path names: a file, or `BASE/LOSS` with or without a suffix; None where there is none."""
    file = find_file(path, beside=beside)
    return _inside(path, beside, "losses") if file is None else (_open(file, ()), None)


def open_sweep(path: str | Path) -> tuple[Base, str | None]:
    """Open what a path names: a file that is a sweep, or `BASE/SWEEP`."""
    folder, name = Path(path).parent, Path(path).name
    base = find_file(folder) if folder.name and find_file(path) is None else None
    if base is None or name.endswith(".yaml"):
        return open_base(path, key="sweep"), None
    inside = _open(base, ())
    if name not in inside.sweeps:
        raise ValueError(no_such_name("sweep", name, inside.name, inside.sweeps))
    return inside, name


def packaged_bases() -> list[Base]:
    """Open the bases that come with the package, in the order of their names."""
    files = {
        file.relative_to(root): file
        for root in reversed(packaged_folders())  # of two files with a path, the first root's counts
        for file in root.rglob("*.yaml")
        if file.relative_to(root).parts[0] not in FACTORS
    }
    return [_open(files[path].resolve(), ()) for path in sorted(files, key=lambda path: path.with_suffix("").parts)]


def explain_move(path: str | Path) -> ValueError | None:
    """Say how a config or a sweep is spelled that was a file before losses were lists; None for any other path."""
    for part, option in (("losses", "loss"), ("sweeps", "sweep")):
        if (option == "sweep") is str(path).endswith(".sweep.yaml"):
            inside = _inside(path, Path(), part)
            if inside is not None:
                words = f"{inside[0].name} --{option} {inside[1]}"
                return ValueError(f"There is no file {path} any more: it is `seqsmooth train {words}` now.")
    if below_configs(Path(path))[:1] in (("base",), ("chosen",)):
        return ValueError(
            f"There is no file {path} any more. Extend a base (`seqsmooth train --list` lists them), one of its rows "
            "(coco/stage_one/tok), a section of a row ({objective.token: coco/stage_one/tok}) or a file of configs/"
            "corpora, models, recipes or losses."
        )
    return None


def respell(command: str) -> str:
    """Spell a command `seqsmooth train` of before losses were lists as it is now; leave any other as it is."""
    verb, _, rest = command.partition(" train ")
    path, _, options = rest.partition(" ")
    row = find_row(path) if verb == "seqsmooth" and path.endswith(".yaml") else None
    if row is None:
        return command
    base, loss = row
    return " ".join(filter(None, ["seqsmooth train", base.name, f"--loss {loss}" if loss else "", options]))


def no_such_name(kind: str, name: str, base: str, names: Mapping[str, Any]) -> str:
    """Say that a base does not have a loss or a sweep, and which one comes nearest."""
    near = [known for known in names if known.startswith(f"{name}_")]
    near = near or difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    listed = ", ".join(f"`{known}`" for known in near)
    hint = f"; the nearest {'is' if len(near) == 1 else 'are'} {listed}" if near else ", which has none"
    return f"There is no {kind} `{name}` in {base}{hint}."


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a mapping over another one, at all depths.

    Where `above` names another `kind`, nothing of the mapping below stays: its keys belong to what it was.
    """
    kind = above.get("kind")
    if kind is not None and kind != below.get("kind"):
        return dict(above)
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def nest(keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Put a value below a dotted key that was split at its dots."""
    return {keys[0]: value if len(keys) == 1 else nest(keys[1:], value)}


def _open(file: Path, below: tuple[Path, ...]) -> Base:
    values = _values(file, below)
    parts = {}
    for name in ("losses", "sweeps"):
        entries = values.pop(name, None) or {}
        checks.must(isinstance(entries, Mapping), name, "a mapping from names", repr(entries))
        parts[name] = {str(key): entry for key, entry in entries.items() if entry is not None}
        for key, entry in parts[name].items():
            checks.must(isinstance(entry, Mapping), f"{name}.{key}", "a section of keys and values", repr(entry))
    return Base(file, values, **parts)


def _values(file: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    """Read a file over what it extends. A key `x-...` is there for its anchors, and dropped."""
    checks.must(file not in below, EXTENDS, "a file that does not extend this one again", str(file))
    values = {key: value for key, value in load_yaml(file).items() if not str(key).startswith("x-")}
    merged: dict[str, Any] = {}
    for key, path in _entries(values.pop(EXTENDS, [])):
        part = _read_part(path, file, (*below, file), key)
        merged = merge(merged, nest(key.split("."), part) if key else part)
    return merge(merged, values)


def _read_part(path: str, file: Path, below: tuple[Path, ...], key: str = "") -> Any:
    """Read what a file extends: another file, with its losses; a row, `BASE/LOSS`; or a section of that row."""
    other = find_file(path, beside=file.parent)
    if other is not None:
        return _values(other, below)
    row = _inside(path, file.parent, "losses", below)
    if row is None:
        raise explain_move(path) or missing_file(path, beside=file.parent, key=EXTENDS, names=_names())
    part: Any = row[0].run(row[1])
    del part["name"]
    for name in filter(None, key.split(".")):
        checks.must(isinstance(part, Mapping) and name in part, EXTENDS, f"a row that sets `{key}`", path)
        part = part[name]
    return part


def _entries(entries: Any) -> Iterator[tuple[str, str]]:
    """Yield what is extended: the dotted key of a section, empty for a whole config, and the path."""
    for entry in _as_list(entries):
        for key, path in entry.items() if isinstance(entry, Mapping) else [("", entry)]:
            rule = "the path of a file, or a dotted key and the path of a file"
            checks.must(isinstance(key, str) and isinstance(path, str), EXTENDS, rule, repr(entry))
            yield key, path


def _as_list(entries: Any) -> list[Any]:
    return entries if isinstance(entries, list) else [entries]


def _inside(path: str | PurePath, beside: Path, part: str, below: tuple[Path, ...] = ()) -> tuple[Base, str] | None:
    """Find the base and its loss or sweep that a path names, suffixes and the former folder `grids` left out."""
    plain = Path(str(path).removesuffix(".yaml").removesuffix(".sweep"))
    for folder in (plain.parent, *([plain.parent.parent] if plain.parent.name == "grids" else [])):
        file = find_file(folder, beside=beside) if folder.name else None
        base = None if file is None else _open(file, below)
        if base is not None and plain.name in getattr(base, part):
            return base, plain.name
    return None


@cache
def _names() -> list[str]:
    """List everything of the package that a path may name."""
    parts = [
        file.relative_to(root).with_suffix("").as_posix()
        for root in packaged_folders()
        for kind in FACTORS
        for file in sorted((root / kind).glob("*.yaml"))
    ]
    bases = packaged_bases()
    rows = [f"{base.name}/{loss}" for base in bases for loss in base.losses]
    return [*(base.name for base in bases), *parts, *rows]
