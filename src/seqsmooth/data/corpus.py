"""A prepared corpus: the folder that `seqsmooth prepare` writes and every other verb opens."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqsmooth.data.arrays import open_array
from seqsmooth.data.batches import Batches
from seqsmooth.data.features import FeatureStore, Id
from seqsmooth.data.split import Split
from seqsmooth.data.tokens import TokenStore
from seqsmooth.files.reading import read_record
from seqsmooth.ops import checks
from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.text import Vocabulary
from seqsmooth.text.vocabulary import SPECIALS

KIND = "seqsmooth corpus 1"
_RULE = "a folder written by `seqsmooth prepare`"


@dataclass(frozen=True, eq=False)
class Corpus:
    """A folder of token arrays, texts and features; arrays are memory maps.

    Attributes:
        folder: where it is.
        task: "captions" or "translation".
        splits: the number of items in each.
        fingerprint: names all that training depends on: words, tokens, ids, features.
        made_from: what it was made from, and how.
        vocabulary: of what is to be written.
        source_vocabulary: of what is to be translated.
        features: of the images, or the pictures themselves; None where there are none.

    Examples:
        >>> import tempfile
        >>> from seqsmooth.data import Side, write_captions
        >>> images = [(42, ["a dog runs", "a brown dog"]), (7, ["two cats", "cats on a sofa"])]
        >>> corpus = write_captions(tempfile.mkdtemp() + "/corpus", {"train": images}, side=Side(min_count=1))
        >>> corpus.task, dict(corpus.splits), corpus.ids("train")
        ('captions', {'train': 2}, [42, 7])
        >>> corpus.references("train")[1]
        [['two', 'cats'], ['cats', 'on', 'a', 'sofa']]
    """

    folder: Path
    task: str
    splits: Mapping[str, int]
    fingerprint: str
    made_from: Mapping[str, Any]
    vocabulary: Vocabulary
    source_vocabulary: Vocabulary | None
    features: FeatureStore | None

    @property
    def feature_shape(self) -> tuple[int, ...] | None:
        """The shape of an image's features: (F,), or (R, D) for up to R regions; (3, S, S) for pictures."""
        return None if self.features is None else self.features.shape

    def document_frequencies(self) -> DocumentFrequencies:
        """Load the document frequencies of the training references' n-grams, for CIDEr."""
        path = self.folder / "document_frequencies.npz"
        rule = "one with document frequencies (prepared without --no-document-frequencies)"
        checks.must(path.is_file(), "corpus", rule, f"{self.folder}, which has none")
        return DocumentFrequencies.load(path)

    def ids(self, split: str) -> list[Id]:
        """List the ids of the items, in order."""
        self._check(split)
        path = self.folder / f"{split}.items.json"
        if not path.is_file():
            return list(range(self.splits[split]))
        ids: list[Id] = read_record(path, list, _RULE, name="corpus")
        return ids

    def references(self, split: str) -> list[list[list[str]]]:
        """The words of all that people wrote for each item, whole and as they are scored."""
        targets = self.targets(split)
        if not self.vocabulary.of_pieces:
            return targets
        return [[self.vocabulary.join(tokens) for tokens in several] for several in targets]

    def targets(self, split: str) -> list[list[list[str]]]:
        """The tokens of all that people wrote for each item, as a model writes them: words, or pieces of words."""
        texts = list(self.texts(split))
        firsts = self.split(split).firsts.tolist()
        change = f"{self.folder / split}.targets.txt has {len(texts):,} lines for {firsts[-1]:,} texts"
        checks.must(len(texts) == firsts[-1], "corpus", "as `seqsmooth prepare` wrote it", f"changed: {change}")
        return [[text.split(" ") for text in texts[first:end]] for first, end in pairwise(firsts)]

    def word_counts(self) -> dict[str, int]:
        """Count the words of the training targets; words that are not in the vocabulary are left out."""
        vocabulary = self.vocabulary
        if not vocabulary.of_pieces:
            words = zip(vocabulary.words[len(SPECIALS) :], vocabulary.counts[len(SPECIALS) :], strict=True)
            return {word: count for word, count in words if count > 0}
        return dict(Counter(word for line in self.texts("train") for word in vocabulary.join(line.split(" "))))

    def texts(self, split: str, side: str = "targets") -> Iterator[str]:
        """The tokens of one text after the other, a space between them: targets, or the sources of a translation."""
        self._check(split)
        checks.one_of("side", side, ("targets", "sources"))
        path = self.folder / f"{split}.{side}.txt"
        checks.must(path.is_file(), "side", f"one that {self.folder} has", repr(side))
        return _lines(path)

    def split(self, name: str) -> Split:
        """The arrays of a split."""
        self._check(name)
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def batches(
        self,
        split: str,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        references: int = 5,
        captions_per_image: int | None = None,
        max_words: int | None = None,
        fraction: float = 1.0,
        buckets: int = 6,
        rank: int = 0,
        world: int = 1,
        device: torch.device | str | None = None,
        resident: bool | None = None,
        resident_limit: int | None = None,
    ) -> Batches:
        """Batches of a split: see `Batches`."""
        sizes = (len(self.vocabulary), 0 if self.source_vocabulary is None else len(self.source_vocabulary))
        return Batches(
            self.split(split),
            max(sizes),
            batch_size,
            shuffle=shuffle,
            seed=seed,
            references=references,
            captions_per_image=captions_per_image,
            max_words=max_words,
            fraction=fraction,
            buckets=buckets,
            rank=rank,
            world=world,
            device=device,
            resident=resident,
            resident_limit=resident_limit,
        )

    def inputs(
        self,
        split: str,
        rows: Sequence[int] | Tensor,  # (N,)
        device: torch.device | str | None = None,
    ) -> tuple[Tensor, ...]:
        """What the model reads of some items: features (and the mask of regions), pictures, or source ids."""
        which = np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows, dtype=np.int64)
        return tuple(value.to(device or "cpu") for value in self.split(split).inputs(which))

    @cached_property
    def _opened(self) -> dict[str, Split]:
        return {}

    def _check(self, split: str) -> None:
        checks.one_of("split", split, tuple(self.splits))

    def _open(self, name: str) -> Split:
        base = self.folder / name
        firsts = open_array(f"{base}.firsts.npy", dimensions=1)
        sources = TokenStore.open(f"{base}.sources") if self.source_vocabulary is not None else None
        rows = open_array(f"{base}.features.npy", dimensions=1) if self.features is not None else None
        return Split(TokenStore.open(f"{base}.targets"), firsts, sources, self.features, rows)


def open_corpus(folder: str | os.PathLike[str]) -> Corpus:
    """Open what `seqsmooth prepare` wrote.

    Examples:
        >>> import tempfile
        >>> from seqsmooth.data import Side, write_captions
        >>> folder = tempfile.mkdtemp() + "/corpus"
        >>> written = write_captions(folder, {"train": [(42, ["a dog runs"])]}, side=Side(min_count=1))
        >>> open_corpus(folder).fingerprint == written.fingerprint
        True
    """
    folder = Path(folder).absolute()
    index = folder / "corpus.json"
    checks.must(index.is_file(), "corpus", _RULE, str(folder))

    def parse(value: Any) -> tuple[str, dict[str, int], str, dict[str, Any], str | None]:
        splits = {str(name): int(count) for name, count in value["splits"].items()}
        return str(value["task"]), splits, str(value["fingerprint"]), dict(value["made_from"]), value["features"]

    task, splits, fingerprint, made_from, features = read_record(index, parse, _RULE, name="corpus", kind=KIND)
    return Corpus(
        folder,
        task,
        splits,
        fingerprint,
        made_from,
        Vocabulary.load(folder / "vocabulary.json"),
        Vocabulary.load(folder / "source.vocabulary.json") if task == "translation" else None,
        None if features is None else FeatureStore.open(folder / features),
    )


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")
