"""Well-known parallel corpora, from their addresses or from a folder, to a prepared corpus."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seqsmooth.data import known_corpora as known
from seqsmooth.data.corpus import Corpus
from seqsmooth.data.downloads import Remote, fetch, unpack
from seqsmooth.data.known_corpora import Languages, Splits
from seqsmooth.data.parallel import ParallelText
from seqsmooth.data.sides import Side
from seqsmooth.data.writing import Progress, silent, write_pairs
from seqsmooth.files.paths import check_folder, check_new_folder
from seqsmooth.ops import checks
from seqsmooth.text import tokeniser

_NAMES = {"train": ("train",), "val": ("val", "valid", "dev"), "test": ("test", "test_2016_flickr", "test2016")}


@dataclass(frozen=True)
class Recipe:
    """One corpus.

    Attributes:
        summary: what it is.
        languages: source and target, unless others are asked for.
        remotes: the files to download for two languages.
        read: the splits of what was downloaded; sides that are given have split the texts already.
        tokeniser: as in "moses:{}:lower", with the language in the braces.
        plain: the same for plain parallel files, as they go round.
        min_count: words that are rarer become UNK.
        most_words: keep no more than so many words.
        max_words: longer training pairs are dropped.
    """

    summary: str
    languages: Languages
    remotes: Callable[[Languages], Sequence[Remote]]
    read: Callable[[Path, Languages, Sequence[Side]], Splits]
    tokeniser: str
    plain: str
    min_count: int = 1
    most_words: int | None = None
    max_words: int | None = None


def prepare_recipe(
    name: str,
    out: str | os.PathLike[str],
    *,
    languages: Languages | None = None,
    source: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    tokenised_by: str | None = None,
    min_count: int | None = None,
    most_words: int | None = None,
    max_words: int | None = None,
    document_frequencies: bool = True,
    workers: int = 1,
    progress: Progress = silent,
) -> Corpus:
    """Prepare a well-known corpus.

    Args:
        name: of the recipe.
        out: the folder, made anew.
        languages: source and target; those of the recipe by default.
        source: a folder that holds the downloaded files, or plain `train.de`, `train.en`, `val.de` and so on; nothing
            is downloaded then.
        cache: where downloads are kept; `~/.cache/seqsmooth` by default.
        tokenised_by: the name of a tokeniser, with the language in braces, as in "moses:{}:lower".
        min_count: words that are rarer become UNK.
        most_words: keep no more than so many words.
        max_words: longer training pairs are dropped.
        document_frequencies: whether to count in how many targets each n-gram occurs, for CIDEr.
        workers: the number of processes that split texts.
        progress: called with what is being done and how many pairs (or MB) are done.
    """
    checks.one_of("recipe", name, tuple(RECIPES))
    recipe = RECIPES[name]
    check_new_folder("out", out)
    both = languages or recipe.languages
    folder = Path(source) if source is not None else _download(name, recipe, both, cache, progress)
    check_folder("source", folder)
    plain = _plain(folder, both)
    chosen = tokenised_by or (recipe.tokeniser if plain is None else recipe.plain)
    rarest = recipe.min_count if min_count is None else min_count
    sides = [Side(tokeniser(chosen.replace("{}", one)), rarest, most_words or recipe.most_words) for one in both]
    splits = plain if plain is not None else recipe.read(folder, both, sides)
    return write_pairs(
        out,
        splits,
        source=sides[0],
        target=sides[1],
        max_words=max_words or recipe.max_words,
        longer="drop",
        empty="drop",
        document_frequencies=document_frequencies,
        workers=workers,
        made_from={"recipe": name, "languages": list(both)},
        progress=progress,
    )


def _download(
    name: str, recipe: Recipe, languages: Languages, cache: str | os.PathLike[str] | None, progress: Progress
) -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seqsmooth"
    folder = (home if cache is None else Path(cache)) / name
    way_out = "--source FOLDER takes files that are here already"
    for remote in recipe.remotes(languages):
        file = fetch(remote, folder, way_out, lambda what, done, of: progress(f"MB of {what}", done >> 20))
        if file.name.endswith((".tgz", ".tar", ".zip")):
            progress(f"files of {file.name}", 0)
            unpack(file, folder)
    return folder


def _plain(folder: Path, languages: Languages) -> dict[str, ParallelText] | None:
    """Plain parallel files, `.gz` or not, in a folder or where Multi30k has them below it; None without any."""
    for below in (".", "raw", "data/task1/raw"):
        texts = {}
        for split, names in _NAMES.items():
            for name in names:
                files = [_either(folder / below / f"{name}.{language}") for language in languages]
                if None not in files:
                    texts[split] = ParallelText([file for file in files if file is not None], name=split)
                    break
        if "train" in texts:
            for year in ("2017", "2018"):
                for name in (f"test{year}", f"test_{year}_flickr"):
                    files = [_either(folder / below / f"{name}.{language}") for language in languages]
                    if None not in files:
                        texts[f"test{year}"] = ParallelText([file for file in files if file is not None])
            return texts
    return None


def _either(path: Path) -> Path | None:
    zipped = path.with_name(f"{path.name}.gz")
    return path if path.is_file() else zipped if zipped.is_file() else None


RECIPES: Mapping[str, Recipe] = {
    "multi30k": Recipe(
        "Multi30k task 1: 29,000 captions in en, de, fr, cs",
        ("de", "en"),
        known.multi30k_remotes,
        known.only_plain,
        "moses:{}:lower",
        "moses:{}:lower",
        min_count=2,
    ),
    "tatoeba": Recipe(
        "short sentences of Tatoeba with English on one side",
        ("fr", "en"),
        known.tatoeba_remotes,
        known.tatoeba,
        "moses:{}:lower",
        "moses:{}:lower",
        min_count=2,
    ),
    "iwslt14": Recipe(
        "IWSLT'14 German-English talks, as the paper: 153k pairs",
        ("de", "en"),
        lambda languages: [Remote("http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz")],
        known.iwslt14,
        "moses:{}:lower",
        "whitespace",
        min_count=3,
        max_words=50,
    ),
    "wmt14": Recipe(
        "WMT'14 English-French, the selection of 12 M pairs of the paper",
        ("en", "fr"),
        lambda languages: [Remote(f"{known.LIUM}/bitexts.tgz"), Remote(f"{known.LIUM}/dev+test.tgz")],
        known.wmt14,
        "whitespace",
        "whitespace",
        most_words=30_000,
        max_words=50,
    ),
    "wmt14-full": Recipe(
        "WMT'14 English-French, all 40 M pairs of the task, raw",
        ("en", "fr"),
        known.wmt14_full_remotes,
        known.wmt14_full,
        "moses:{}",
        "whitespace",
        most_words=30_000,
        max_words=50,
    ),
}
