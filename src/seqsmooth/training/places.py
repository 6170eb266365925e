"""Where the files that a config names are."""

from __future__ import annotations

import os
from pathlib import Path

from seqsmooth.ops import checks

DATA = "SEQSMOOTH_DATA"
"""The environment variable that names the folder of all data."""


def find_config(path: str | os.PathLike[str]) -> Path:
    """A config: here, or else among those that come with the package, as in configs/demo/mle.yaml."""
    given = Path(path)
    for place in (given, *(root.joinpath(*_below_configs(given)) for root in shipped_configs())):
        for named in (place, place.parent / f"{place.name}.yaml"):
            if named.is_file():
                return named.resolve()
    raise checks.wrong("config", "a file that is there, here or among the configs of the package", str(path))


def shipped_configs() -> list[Path]:
    """The folders of configs that come with the package: inside it, or beside `src` in a checkout."""
    package = Path(__file__).resolve().parents[1]
    return [folder for folder in (package / "configs", package.parents[1] / "configs") if folder.is_dir()]


def find_corpus(folder: str | os.PathLike[str]) -> Path:
    """The folder of a prepared corpus: absolute or seen from here, or else from $SEQSMOOTH_DATA."""
    given = Path(folder).expanduser()
    below = os.environ.get(DATA)
    places = [given, *([Path(below) / given, Path(below) / given.name] if below else [])]
    for place in places:
        if (place / "corpus.json").is_file():
            return place.resolve()
    hint = "" if below else f" (${DATA} may name the folder it is in)"
    raise checks.wrong("data.folder", f"what `seqsmooth prepare` wrote{hint}", f"{folder}, where there is no corpus,")


def find_beside(corpus: Path, name: str, key: str) -> Path:
    """A file that goes with a corpus: in its folder, or seen from here."""
    for place in (corpus / name, Path(name).expanduser()):
        if place.is_file():
            return place.resolve()
    way_out = f"`seqsmooth glove {corpus} --out {corpus / name}` makes one"
    raise checks.wrong(key, f"a file that is there, in {corpus} or here ({way_out})", name)


def _below_configs(path: Path) -> tuple[str, ...]:
    parts = path.parts
    return parts[parts.index("configs") + 1 :] if "configs" in parts else parts
