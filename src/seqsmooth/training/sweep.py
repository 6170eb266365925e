"""Many runs, one after the other: the rows of a table, for several seeds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seqsmooth.ops import checks
from seqsmooth.training.places import find_config
from seqsmooth.training.reader import load_yaml, read_config
from seqsmooth.training.runs import Run


@dataclass(frozen=True)
class Planned:
    """One run of a sweep."""

    config: Path
    seed: int
    folder: Path
    overrides: tuple[tuple[str, str], ...]

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return (self.folder / "manifest.json").is_file() and Run.open(self.folder).finished

    def words(self) -> list[str]:
        """The words of the command line that do it."""
        given = [word for key, value in self.overrides for word in (f"--{key}", value)]
        return ["train", str(self.config), "--run", str(self.folder), *given, "--seed", str(self.seed)]


def plan_sweep(path: str | Path, runs: Path, overrides: Sequence[tuple[str, str]] = ()) -> list[Planned]:
    """The runs of a sweep file: a list `configs`, seen from the file, a list `seeds`, and `overrides` by dotted key."""
    import yaml

    file = find_config(path)
    held = load_yaml(file)
    for key in held:
        checks.one_of("key", key, ("table", "configs", "seeds", "overrides"))
    configs, seeds, common = held.get("configs"), held.get("seeds", [0]), held.get("overrides") or {}
    checks.must(isinstance(configs, list) and len(configs) > 0, "configs", "a list of files", configs)
    assert isinstance(configs, list)
    whole = isinstance(seeds, list) and all(isinstance(seed, int) for seed in seeds)
    checks.must(whole, "seeds", "a list of whole numbers", seeds)
    checks.must(isinstance(common, dict), "overrides", "a mapping from dotted keys", common)
    written = [
        (str(key), yaml.safe_dump(value, default_flow_style=True).split("\n")[0]) for key, value in common.items()
    ]
    asked = [value for key, value in overrides if key == "seed"]
    chosen = [int(value) for value in asked] or seeds
    every = (*written, *((key, value) for key, value in overrides if key != "seed"))
    planned = []
    for seed in chosen:
        for name in configs:
            config = find_config(file.parent / str(name))
            folder = runs / read_config(config, every).name / str(seed)
            planned.append(Planned(config, seed, folder, tuple(every)))
    return planned


def run_sweep(path: str | Path, runs: Path, overrides: Sequence[tuple[str, str]] = ()) -> int:
    """Train what is not finished, each in a process of its own, so that one that fails takes no other with it."""
    planned = plan_sweep(path, runs, overrides)
    failed = []
    for number, each in enumerate(planned, 1):
        told = f"[{number} of {len(planned)}] {each.folder}"
        if each.finished:
            _say(f"{told}: finished before")
            continue
        _say(told)
        if subprocess.run([sys.executable, "-m", "seqsmooth", *each.words()], check=False).returncode:
            failed.append(str(each.folder))
    if failed:
        _say(f"{len(failed)} of {len(planned)} runs failed: {', '.join(failed)}")
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
