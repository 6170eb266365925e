"""Where the files that a config names are."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from seqsmooth.ops import checks

DATA = "SEQSMOOTH_DATA"
"""The environment variable that names the folder of all data."""


def find_config(path: str | os.PathLike[str], *, beside: Path = Path(), key: str = "config") -> Path:
    """A config: in the folder `beside`, or else among those of the package, as in configs/demo/mle.yaml.

    The suffix may be left out, and so may `configs/` where it is one of the package's.

    Args:
        path: of a YAML file; one that is absolute is that file and no other.
        beside: the folder that `path` is seen from; the working directory by default.
        key: what the path was given for.
    """
    given = Path(path)
    for place in (beside / given, *_shipped(given)):
        for named in (place, place.parent / f"{place.name}.yaml"):
            if named.is_file():
                return named.resolve()
    here = "here" if beside == Path() else f"in {beside}"
    package = ", ".join(map(str, shipped_configs()))
    rule = f"a file that is there, {here} or among the package's in {package}{_near(given, beside)}"
    raise checks.wrong(key, rule, str(path))


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


def _shipped(given: Path) -> list[Path]:
    """Where a config of the package may be: below its folders, with or without their name in front."""
    if given.is_absolute():
        return []
    places = ((root, root.joinpath(*_below_configs(given)).resolve()) for root in shipped_configs())
    return [place for root, place in places if place.is_relative_to(root)]  # `..` may lead out of them


def _near(given: Path, beside: Path) -> str:
    """A hint at what may have been meant, in the folder `beside` or of the package; or nothing."""
    names = [file.name for file in sorted(beside.glob("*.yaml"))]
    names += [file.relative_to(root).as_posix() for root in shipped_configs() for file in sorted(root.rglob("*.yaml"))]
    word = Path(*_below_configs(given))
    found = difflib.get_close_matches(word.with_suffix(".yaml").as_posix(), names) if word.name else []
    return f" (near it: {', '.join(found)})" if found else ""


def _below_configs(path: Path) -> tuple[str, ...]:
    parts = path.parts
    return parts[parts.index("configs") + 1 :] if "configs" in parts else parts
