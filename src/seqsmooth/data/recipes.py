"""Well-known parallel corpora, from their addresses or from a folder, to a prepared corpus."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from seqsmooth.data.corpus import Corpus
from seqsmooth.data.downloads import Remote, fetch, unpack
from seqsmooth.data.parallel import ParallelText
from seqsmooth.data.writing import Progress, Side, Text, silent, write_pairs
from seqsmooth.ops import checks
from seqsmooth.ops.files import check_new_folder
from seqsmooth.text import tokeniser
from seqsmooth.text.files import read_lines

Languages = tuple[str, str]
Splits = Mapping[str, Iterable[tuple[Text, Text | tuple[Text, ...]]]]
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
        progress: called with what is being done and how many pairs (or MB) are done.
    """
    checks.one_of("recipe", name, tuple(RECIPES))
    recipe = RECIPES[name]
    check_new_folder("out", out)
    both = languages or recipe.languages
    folder = Path(source) if source is not None else _download(name, recipe, both, cache, progress)
    checks.must(folder.is_dir(), "source", "a folder that is there", str(folder))
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
        found = {}
        for split, names in _NAMES.items():
            for name in names:
                files = [_either(folder / below / f"{name}.{language}") for language in languages]
                if None not in files:
                    found[split] = ParallelText([file for file in files if file is not None], name=split)
                    break
        if "train" in found:
            for year in ("2017", "2018"):
                for name in (f"test{year}", f"test_{year}_flickr"):
                    files = [_either(folder / below / f"{name}.{language}") for language in languages]
                    if None not in files:
                        found[f"test{year}"] = ParallelText([file for file in files if file is not None])
            return found
    return None


def _either(path: Path) -> Path | None:
    zipped = path.with_name(f"{path.name}.gz")
    return path if path.is_file() else zipped if zipped.is_file() else None


def _there(folder: Path, name: str) -> Path:
    # Archives are unpacked into folders of their own, or, by hand, into one.
    found = next((path for path in (folder / name, *sorted(folder.glob(f"*/{name}"))) if path.is_file()), None)
    if found is None:
        found = next((path for path in sorted(folder.glob(f"**/{Path(name).name}")) if path.is_file()), None)
    if found is None:
        raise ValueError(f"`source` must be a folder that holds {name}, but {folder} does not.")
    return found


_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_MULTI30K_MD5 = {
    "train.cs": "d9a5fc268917725a2b0efce3a0cc8607",
    "train.de": "81ff90b99829c0cd4b1b587d394afd39",
    "train.en": "0065d13af80720a55ca8153d126e6627",
    "train.fr": "6cb767741dcad3931f966fefbc05203f",
    "val.cs": "83cdc082f646b769095615384cf5c0ca",
    "val.de": "6e0e229eb049e3fc99a1ef02fb2d5f91",
    "val.en": "2b69aa9253948ac9f67e94917272dd40",
    "val.fr": "93fc564584b7e5ba410c761ea5a1c682",
    "test_2016_flickr.cs": "3104872229daa1bef3b401d44dd2220b",
    "test_2016_flickr.de": "efd67d314d98489b716b145475101932",
    "test_2016_flickr.en": "ff2c0fcb4893a13bd73414306bc250ae",
    "test_2016_flickr.fr": "08dc7cd4a662f31718412de95ca9bfe3",
}


def _multi30k_remotes(languages: Languages) -> list[Remote]:
    for language in languages:
        checks.one_of("languages", language, ("cs", "de", "en", "fr"))
    wanted = [name for name in _MULTI30K_MD5 if name.rsplit(".", 1)[-1] in languages]
    return [Remote(f"{_MULTI30K}/{name}.gz", f"md5:{_MULTI30K_MD5[name]}") for name in wanted]


def _only_plain(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    names = " and ".join(f"train.{language}" for language in languages)
    raise ValueError(f"`source` must be a folder that holds {names}, but {folder} does not.")


_THREE_LETTERS = {"fr": "fra", "de": "deu", "es": "spa", "it": "ita", "nl": "nld", "pt": "por", "ru": "rus"}


def _tatoeba_remotes(languages: Languages) -> list[Remote]:
    checks.must("en" in languages, "languages", "two with en among them", "-".join(languages))
    other = languages[languages[0] == "en"]
    checks.one_of("languages", other, tuple(_THREE_LETTERS))
    return [Remote(f"https://www.manythings.org/anki/{_THREE_LETTERS[other]}-eng.zip")]


def _tatoeba(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """Pairs by their English sentence, so that none is in two splits: 4,000 test, 3,000 validation, the rest."""
    other = languages[languages[0] == "en"]
    path = _there(folder, f"{_THREE_LETTERS[other]}.txt")
    groups: dict[str, list[tuple[str, str]]] = {}
    for english, foreign in ParallelText([path], name="tatoeba"):
        pair = (english, str(foreign))
        groups.setdefault(english, []).append(pair if languages[0] == "en" else pair[::-1])
    found: dict[str, list[tuple[str, str]]] = {"train": [], "val": [], "test": []}
    total = sum(map(len, groups.values()))
    sizes = {"test": min(4000, total // 10), "val": min(3000, total // 10)}
    for english in sorted(groups, key=lambda text: hashlib.sha256(text.encode()).digest()):
        split = next((name for name, size in sizes.items() if len(found[name]) < size), "train")
        found[split] += groups[english]
    return found


_IWSLT_TEST = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
_IWSLT_DROPPED = ("<url>", "<talkid>", "<keywords>", "<speaker>", "<reviewer", "<translator", "<doc", "</doc>")


def _iwslt14(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """As MIXER prepares it (Ranzato et al. 2016), whose settings the paper has: every 23rd pair is for validation."""
    checks.must(set(languages) == {"de", "en"}, "languages", "de-en or en-de", "-".join(languages))
    train = [_there(folder, f"de-en/train.tags.de-en.{language}") for language in languages]
    test = [
        ParallelText([_there(folder, f"de-en/IWSLT14.{name}.de-en.{language}.xml") for language in languages])
        for name in _IWSLT_TEST
    ]

    aside: list[tuple[Text, Text]] = []

    def clean() -> Iterator[tuple[Text, Text]]:
        kept = 0
        for source, target in zip_longest(*(_talks(path) for path in train)):
            if source is None or target is None:
                raise ValueError(f"{train[0]} and {train[1]} must have as many sentences, but do not.")
            words = sides[0].words(source), sides[1].words(target)
            low, high = sorted(map(len, words))
            if low >= 1 and high <= 50 and high <= 1.5 * low:
                kept += 1
                if kept % 23:
                    yield words
                else:
                    aside.append(words)

    # The pairs for validation are put aside while those for training are read, which come first.
    return {"train": clean(), "val": aside, "test": chain(*test)}


def _talks(path: Path) -> Iterator[str]:
    for line in read_lines(path, "train"):
        if not line.startswith(_IWSLT_DROPPED):
            for tag in ("<title>", "</title>", "<description>", "</description>"):
                line = line.replace(tag, "")
            yield line.strip()


_LIUM = "http://www-lium.univ-lemans.fr/~schwenk/nnmt-shared-task/data"
_SELECTED = ("ep7_pc45", "nc9", "dev08_11", "crawl", "ccb2_pc30", "un2000_pc34")


def _wmt14(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """The 12 M pairs that Schwenk selected, as Bahdanau et al. (2015) and the paper use them; they are tokenised."""
    checks.must(set(languages) == {"en", "fr"}, "languages", "en-fr or fr-en", "-".join(languages))

    def text(name: str) -> ParallelText:
        for ending in (".gz", ""):
            if list(folder.glob(f"**/{Path(name).name}.{languages[0]}{ending}")):
                return ParallelText([_there(folder, f"{name}.{one}{ending}") for one in languages], name=name)
        return ParallelText([_there(folder, f"{name}.{one}") for one in languages], name=name)

    parts = [text(f"bitexts.selected/{name}") for name in _SELECTED]
    return {"train": chain(*parts), "val": text("dev/ntst1213"), "test": text("dev/ntst14")}


RECIPES: Mapping[str, Recipe] = {
    "multi30k": Recipe(
        "Multi30k task 1: 29,000 captions in en, de, fr, cs",
        ("de", "en"),
        _multi30k_remotes,
        _only_plain,
        "moses:{}:lower",
        "moses:{}:lower",
        min_count=2,
    ),
    "tatoeba": Recipe(
        "short sentences of Tatoeba with English on one side",
        ("fr", "en"),
        _tatoeba_remotes,
        _tatoeba,
        "moses:{}:lower",
        "moses:{}:lower",
        min_count=2,
    ),
    "iwslt14": Recipe(
        "IWSLT'14 German-English talks, as the paper: 153k pairs",
        ("de", "en"),
        lambda languages: [Remote("http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz")],
        _iwslt14,
        "moses:{}:lower",
        "whitespace",
        min_count=3,
        max_words=50,
    ),
    "wmt14": Recipe(
        "WMT'14 English-French, the selection of 12 M pairs of the paper",
        ("en", "fr"),
        lambda languages: [Remote(f"{_LIUM}/bitexts.tgz"), Remote(f"{_LIUM}/dev+test.tgz")],
        _wmt14,
        "whitespace",
        "whitespace",
        most_words=30_000,
        max_words=50,
    ),
}
