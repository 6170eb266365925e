"""Well-known parallel corpora: where they are published, and how their files are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from seqsmooth.data.downloads import Remote
from seqsmooth.data.parallel import ParallelText
from seqsmooth.data.sides import Side, Text
from seqsmooth.files.reading import read_lines
from seqsmooth.ops import checks

Languages = tuple[str, str]
Splits = Mapping[str, Iterable[tuple[Text, Text | tuple[Text, ...]]]]


def there(folder: Path, name: str) -> Path:
    """A file of a folder, wherever it was unpacked below it."""
    # Archives are unpacked into folders of their own, or, by hand, into one.
    file = next((path for path in (folder / name, *sorted(folder.glob(f"*/{name}"))) if path.is_file()), None)
    if file is None:
        file = next((path for path in sorted(folder.glob(f"**/{Path(name).name}")) if path.is_file()), None)
    if file is None:
        raise ValueError(f"`source` must be a folder that holds {name}, but {folder} does not.")
    return file


MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
MULTI30K_MD5 = {
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


def multi30k_remotes(languages: Languages) -> list[Remote]:
    """Three files for each of the languages."""
    for language in languages:
        checks.one_of("languages", language, ("cs", "de", "en", "fr"))
    wanted = [name for name in MULTI30K_MD5 if name.rsplit(".", 1)[-1] in languages]
    return [Remote(f"{MULTI30K}/{name}.gz", f"md5:{MULTI30K_MD5[name]}") for name in wanted]


def only_plain(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """Say what is missing of a corpus that is plain files."""
    names = " and ".join(f"train.{language}" for language in languages)
    raise ValueError(f"`source` must be a folder that holds {names}, but {folder} does not.")


_THREE_LETTERS = {"fr": "fra", "de": "deu", "es": "spa", "it": "ita", "nl": "nld", "pt": "por", "ru": "rus"}


def tatoeba_remotes(languages: Languages) -> list[Remote]:
    """One archive for each language that is not English."""
    checks.must("en" in languages, "languages", "two with en among them", "-".join(languages))
    other = languages[languages[0] == "en"]
    checks.one_of("languages", other, tuple(_THREE_LETTERS))
    return [Remote(f"https://www.manythings.org/anki/{_THREE_LETTERS[other]}-eng.zip")]


def tatoeba(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """Pairs by their English sentence, so that none is in two splits: 4,000 test, 3,000 validation, the rest."""
    other = languages[languages[0] == "en"]
    path = there(folder, f"{_THREE_LETTERS[other]}.txt")
    groups: dict[str, list[tuple[str, str]]] = {}
    for english, foreign in ParallelText([path], name="tatoeba"):
        pair = (english, str(foreign))
        groups.setdefault(english, []).append(pair if languages[0] == "en" else pair[::-1])
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "val": [], "test": []}
    total = sum(map(len, groups.values()))
    sizes = {"test": min(4000, total // 10), "val": min(3000, total // 10)}
    for english in sorted(groups, key=lambda text: hashlib.sha256(text.encode()).digest()):
        split = next((name for name, size in sizes.items() if len(splits[name]) < size), "train")
        splits[split] += groups[english]
    return splits


IWSLT_TEST = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
_IWSLT_DROPPED = ("<url>", "<talkid>", "<keywords>", "<speaker>", "<reviewer", "<translator", "<doc", "</doc>")


def iwslt14(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """Read IWSLT'14 as MIXER prepares it (Ranzato et al. 2016), like the paper: every 23rd pair is for validation."""
    checks.must(set(languages) == {"de", "en"}, "languages", "de-en or en-de", "-".join(languages))
    train = [there(folder, f"de-en/train.tags.de-en.{language}") for language in languages]
    test = [
        ParallelText([there(folder, f"de-en/IWSLT14.{name}.de-en.{language}.xml") for language in languages])
        for name in IWSLT_TEST
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


LIUM = "http://www-lium.univ-lemans.fr/~schwenk/nnmt-shared-task/data"
SELECTED = ("ep7_pc45", "nc9", "dev08_11", "crawl", "ccb2_pc30", "un2000_pc34")


def wmt14(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """The 12 M pairs that Schwenk selected, as Bahdanau et al. (2015) and the paper use them; they are tokenised."""
    checks.must(set(languages) == {"en", "fr"}, "languages", "en-fr or fr-en", "-".join(languages))

    parts = [_either(folder, f"bitexts.selected/{name}", languages) for name in SELECTED]
    return {
        "train": chain(*parts),
        "val": _either(folder, "dev/ntst1213", languages),
        "test": _either(folder, "dev/ntst14", languages),
    }


_STATMT = "https://www.statmt.org"
_FULL = (
    "training/europarl-v7.fr-en",
    "commoncrawl.fr-en",
    "un/undoc.2000.fr-en",
    "training/news-commentary-v9.fr-en",
    "giga-fren.release2.fixed",
)


def wmt14_full_remotes(languages: Languages) -> list[Remote]:
    """The archives of the task."""
    return [
        Remote(f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz"),
        Remote(f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz"),
        Remote(f"{_STATMT}/wmt13/training-parallel-un.tgz"),
        Remote(f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz"),
        Remote(f"{_STATMT}/wmt10/training-giga-fren.tar"),
        Remote(f"{_STATMT}/wmt14/dev.tgz"),
        Remote(f"{_STATMT}/wmt14/test-full.tgz", "md5:a8cd784e006feb32ac6f3d9ec7eb389a"),  # as sacreBLEU has it
    ]


def wmt14_full(folder: Path, languages: Languages, sides: Sequence[Side]) -> Splits:
    """All that the task gives, raw; newstest2012 and 2013 for validation, newstest2014 whole for the test."""
    checks.must(set(languages) == {"en", "fr"}, "languages", "en-fr or fr-en", "-".join(languages))
    test = [
        there(folder, f"test-full/newstest2014-fren-{kind}.{language}.sgm")
        for kind, language in zip(("src", "ref"), languages, strict=True)
    ]
    return {
        "train": chain(*(_either(folder, name, languages) for name in _FULL)),
        "val": chain(*(_either(folder, f"dev/newstest{year}", languages) for year in (2012, 2013))),
        "test": ParallelText(test, name="newstest2014"),
    }


def _either(folder: Path, name: str, languages: Languages) -> ParallelText:
    """The two files of a name, zipped or not."""
    for ending in (".gz", ""):
        if list(folder.glob(f"**/{Path(name).name}.{languages[0]}{ending}")):
            return ParallelText([there(folder, f"{name}.{one}{ending}") for one in languages], name=name)
    return ParallelText([there(folder, f"{name}.{one}") for one in languages], name=name)
