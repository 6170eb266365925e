"""Find the files that a config names."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from seqsmooth import checks

DATA = "SEQSMOOTH_DATA"
"""The environment variable that names the folder of all data."""


def find_file(path: str | os.PathLike[str], *, beside: Path = Path()) -> Path | None:
    """Find a YAML file in the folder `beside`, or else in the package; None where neither has it.

    The suffix may be left out, and so may `configs/` where it is one of the package's.

    Args:
        path: of the file; one that is absolute is that file and no other.
        beside: the folder that `path` is seen from; the working directory by default.
    """
    given = Path(path)
    for place in (beside / given, *_package_places(given)):
        for file in (place, place.parent / f"{place.name}.yaml"):
            if file.is_file():
                return file.resolve()
    return None


def missing_file(path: str | os.PathLike[str], *, beside: Path, key: str, names: Sequence[str]) -> ValueError:
    """Say that neither the folder `beside` nor the package has a file, and which of `names` come near it."""
    here = "here" if beside == Path() else f"in {beside}"
    package = ", ".join(map(str, packaged_folders()))
    word = Path(*below_configs(Path(path))).as_posix().removesuffix(".yaml")
    local = [file.name for file in sorted(beside.glob("*.yaml"))]
    near = difflib.get_close_matches(word, [*names, *(name.removesuffix(".yaml") for name in local)])
    hint = f"; near it: {', '.join(near)}" if near and word != "." else ""
    return ValueError(f"`{key}` names {path}, which is neither {here} nor among the package's in {package}{hint}.")


def packaged_folders() -> list[Path]:
    """List the folders of packaged configs: inside the package, or beside `src` in a checkout."""
    package = Path(__file__).resolve().parents[1]
    return [folder for folder in (package / "configs", package.parents[1] / "configs") if folder.is_dir()]


def find_corpus(folder: str | os.PathLike[str]) -> Path:
    """Find the folder of a prepared corpus, seen from here or else from $SEQSMOOTH_DATA."""
    given = Path(folder).expanduser()
    below = os.environ.get(DATA)
    places = [given, *([Path(below) / given, Path(below) / given.name] if below else [])]
    for place in places:
        if (place / "corpus.json").is_file():
            return place.resolve()
    hint = "" if below else f" (${DATA} may name the folder it is in)"
    raise checks.wrong("data.folder", f"what `seqsmooth prepare` wrote{hint}", f"{folder}, where there is no corpus")


def find_beside(corpus: Path, name: str, key: str) -> Path:
    """Find a file that goes with a corpus: in its folder, or seen from here."""
    for place in (corpus / name, Path(name).expanduser()):
        if place.is_file():
            return place.resolve()
    way_out = f"`seqsmooth glove {corpus} --out {corpus / name}` makes one"
    raise checks.wrong(key, f"a file that is there, in {corpus} or here ({way_out})", name)


def below_configs(path: Path) -> tuple[str, ...]:
    """Split a path into its parts below a folder `configs`, or into all parts where it has none."""
    parts = path.parts
    return parts[len(parts) - parts[::-1].index("configs") :] if "configs" in parts else parts


def _package_places(given: Path) -> list[Path]:
    """List the places of a packaged config, whose path may begin with `configs`."""
    if given.is_absolute():
        return []
    places = ((root, root.joinpath(*below_configs(given)).resolve()) for root in packaged_folders())
    return [place for root, place in places if place.is_relative_to(root)]  # `..` may lead out of them
