"""Hashes of resolved configs: what a config, a sweep or a record comes to, as one number.

`python -m oracles.resolved_configs`, in tests, rewrites the committed list, which was made before configs were factored
into corpora, models, recipes and losses. A change of a value or of a key of any of them shows as another hash.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from seqsmooth.training.bases import find_row, packaged_bases
from seqsmooth.training.config import Config, plain
from seqsmooth.training.reader import parse_config, read_config
from seqsmooth.training.sweep import plan_sweep

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "training" / "config_hashes.json"


def digest(config: Config) -> str:
    """The first 64 bits of the SHA-256 of a resolved config as JSON with sorted keys; of an absolute path the last part
    counts."""
    text = json.dumps(_without_folders(plain(config)), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_folders(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_folders(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_folders(part) for part in value]
    return PurePosixPath(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def configs() -> dict[str, str]:
    """The hash of every run that a packaged base and one of its losses make, by its name.

    A config that was a file has the name of its path below `configs`: the base, then the loss.
    """
    hashes = {}
    for base in packaged_bases():
        for loss in base.losses or [None]:
            config = read_config(base.name, loss=loss)
            assert config.name == (base.name if loss is None else f"{base.name}/{loss}")
            hashes[config.name] = digest(config)
    return hashes


def sweeps() -> dict[str, list[str]]:
    """The runs of every packaged sweep, by the path that a sweep had below `configs`: name, seed, hash."""
    grids = json.loads(LIST.read_text(encoding="utf-8"))["sweeps"]
    hashes = {}
    for base in packaged_bases():
        for sweep in base.sweeps:
            path = f"{base.name}/grids/{sweep}"
            planned = plan_sweep(f"{base.name}/{sweep}", Path("runs"))
            runs = [f"{each.config.name} {each.seed} {digest(each.config)}" for each in planned]
            hashes[path if path in grids else f"{base.name}/{sweep}"] = runs
    return hashes


def records() -> dict[str, str]:
    """Of every record under results: the hash of the config that it holds, then of what each of its commands trains."""
    found = {}
    for path in sorted((ROOT / "results").rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["kind"] != "seqsmooth record 1":
            continue
        held = digest(parse_config(record["run"]["config"]))
        trained = [trained_by(command) for command in record["commands"] if command.startswith("seqsmooth train ")]
        found[path.relative_to(ROOT / "results").as_posix()] = " ".join([held, *trained])
    return found


def trained_by(command: str) -> str:
    """The hash of the config that a command `seqsmooth train` resolves to, as it is spelled now or as it was."""
    _, _, path, *words = shlex.split(command)
    given = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    given.pop("run", None)
    row = find_row(path)
    assert row is not None, path
    base, loss = row
    return digest(read_config(base.file, given.items(), loss=given.pop("loss", loss)))


def everything() -> dict[str, Any]:
    """All three lists."""
    return {"configs": configs(), "sweeps": sweeps(), "records": records()}


if __name__ == "__main__":
    LIST.write_text(json.dumps(everything(), indent=1) + "\n", encoding="utf-8")
