"""Document frequencies of more text than fits into memory: sorted runs on the disk, which are merged.

The counts are exact, and those that `DocumentFrequencies.build` makes in memory. For each order, the n-grams of a
portion of the text are counted and written as a run, in the order of their keys; then all runs are merged, some of each
at a time. The merge knows where each n-gram of a run ends up, which is what the keys of the next order are made of.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqsmooth.files.atomic import atomic_write
from seqsmooth.ops import checks
from seqsmooth.rewards.document_frequencies import KIND, LAST, count_keys, starts_of

_Ints = NDArray[np.integer[Any]]
_MOST_TOKENS = 1 << 19
"""Tokens that are sorted at a time, and n-grams that are merged at a time: about a hundred bytes each."""


class DocumentCounter:
    """Counts in how many documents n-grams occur, and writes what `DocumentFrequencies.load` reads.

    Args:
        folder: where files are kept while it counts: about 40 bytes a token.
        order: the length of the longest n-grams.
        most_tokens: what is in memory at a time.

    Examples:
        >>> import tempfile
        >>> from seqsmooth.rewards import DocumentFrequencies
        >>> folder = Path(tempfile.mkdtemp())
        >>> counter = DocumentCounter(folder, order=2)
        >>> counter.add(np.array([4, 5, 4, 6, 4, 7]), np.array([2, 2, 2]), np.array([2, 1]))  # [[4 5] [4 6]] [[4 7]]
        >>> counter.save(folder / "frequencies.npz")
        >>> [count.tolist()[:-1] for count in DocumentFrequencies.load(folder / "frequencies.npz").counts]
        [[2, 1, 1, 1], [1, 1, 1]]
    """

    def __init__(self, folder: Path, order: int = 4, most_tokens: int = _MOST_TOKENS) -> None:
        checks.at_least("order", order, 1)
        checks.at_least("most_tokens", most_tokens, 1)
        self.documents = 0
        self._folder, self._order, self._most_tokens = folder, order, most_tokens
        self._held: list[tuple[_Ints, _Ints, _Ints]] = []
        self._tokens = 0
        self._portions: list[_Portion] = []

    def add(
        self,
        ids: _Ints,  # (M,)
        sizes: _Ints,  # (captions,)
        captions: _Ints,  # (documents,)
    ) -> None:
        """Take some documents: their token ids, the tokens of each caption, the captions of each document."""
        self.documents += len(captions)
        self._held.append((ids, sizes, captions))
        self._tokens += len(ids)
        if self._tokens >= self._most_tokens:
            self._let_go()

    def save(self, path: Path, progress: Callable[[int], None] = lambda done: None) -> None:
        """Count, and write the file whole or not at all.

        Args:
            path: the file.
            progress: called with the length of the n-grams that are being counted.
        """
        self._let_go()
        checks.must(self.documents > 0, "documents", "at least one", "none")
        columns: list[tuple[str, Path, str, int]] = []
        words = 0
        for n in range(1, self._order + 1):
            progress(n)
            runs = _Runs(self._folder, n)
            for portion in self._portions:
                runs.write(*portion.count(n, words))
            distinct = runs.merge(self._most_tokens, ranked=n < self._order)
            if n < self._order:
                for portion, ranks in zip(self._portions, runs.ranks(), strict=True):
                    portion.keep_ranks(n, ranks)
            if n == 1:
                words = distinct + 1
            columns.append((f"keys_{n}", runs.keys, "<i8", distinct + 1))
            columns.append((f"counts_{n}", runs.counts, "<i4", distinct + 1))
            runs.clear()
        for portion in self._portions:
            portion.clear()
        columns.sort(key=lambda column: column[0].startswith("counts"))  # as `DocumentFrequencies.save`
        _write_archive(path, {"kind": KIND, "documents": self.documents, "order": self._order}, columns)
        for _, file, _, _ in columns:
            file.unlink()

    def _let_go(self) -> None:
        """Write what is held as a portion."""
        if self._held:
            ids, sizes, captions = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
            caption = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
            document = np.repeat(np.arange(len(captions), dtype=np.int32), captions)[caption]
            self._portions.append(_Portion(self._folder, len(self._portions), ids, caption, document))
        self._held, self._tokens = [], 0


class _Portion:
    """Some documents, on the disk: a folder of arrays."""

    def __init__(self, folder: Path, number: int, ids: _Ints, caption: _Ints, document: _Ints) -> None:
        self._name = str(folder / f"portion{number}")
        self._save("ids", ids)
        self._save("caption", caption)
        self._save("document", document)

    def count(self, n: int, words: int) -> tuple[_Ints, _Ints]:
        """Count the n-grams: their keys, in order, and in how many documents each is.

        Args:
            n: the length of the n-grams.
            words: the number of distinct words in all portions, and one.
        """
        caption, document = self._load("caption"), self._load("document")
        starts = starts_of(caption, n)
        if n == 1:
            key = self._load("ids").astype(np.int64)
        else:
            key = self._load("ranks")[starts] * words + self._load("words")[starts + n - 1]
        distinct, count, place = count_keys(key, document[starts])
        places = np.zeros(len(caption), dtype=np.int32)  # where no n-gram starts, nobody asks
        places[starts] = place
        self._save("places", places)
        return distinct, count

    def keep_ranks(self, n: int, ranks: _Ints) -> None:
        """Keep where each n-gram of this portion is among those of all portions."""
        of_tokens = ranks[self._load("places")] if len(ranks) else np.zeros(0, dtype=np.int64)
        self._save("ranks", of_tokens)
        if n == 1:
            self._save("words", of_tokens.astype(np.int32))

    def clear(self) -> None:
        for file in Path(self._name).parent.glob(f"{Path(self._name).name}.*"):
            file.unlink()

    def _save(self, what: str, values: _Ints) -> None:
        np.save(f"{self._name}.{what}.npy", values)

    def _load(self, what: str) -> NDArray[Any]:
        values: NDArray[Any] = np.load(f"{self._name}.{what}.npy", allow_pickle=False)
        return values


class _Runs:
    """The n-grams of one order: a sorted run for each portion, one after the other in one file, then merged."""

    def __init__(self, folder: Path, n: int) -> None:
        self.keys, self.counts = folder / f"{n}.keys", folder / f"{n}.counts"
        """The files of the merged n-grams, with the key that is greater than all at the end, which counts 0."""
        self._run_keys, self._run_counts, self._ranks = (
            folder / f"{n}.runs.{what}" for what in ("keys", "counts", "ranks")
        )
        self._ends = [0]

    def write(self, keys: _Ints, counts: _Ints) -> None:
        """Write a run: keys in order, and their counts."""
        for path, values, dtype in ((self._run_keys, keys, "<i8"), (self._run_counts, counts, "<i4")):
            with path.open("ab") as file:
                file.write(values.astype(dtype).tobytes())
        self._ends.append(self._ends[-1] + len(keys))

    def merge(self, most: int, *, ranked: bool) -> int:
        """Merge the runs, about so many n-grams at a time, and return the number of distinct ones.

        Args:
            most: how many.
            ranked: whether to keep where each n-gram of a run is among the distinct ones.
        """
        size = max(1, most // (len(self._ends) - 1))
        done = 0
        with (
            self._run_keys.open("rb") as run_keys,
            self._run_counts.open("rb") as run_counts,
            self.keys.open("wb") as keys,
            self.counts.open("wb") as counts,
            self._ranks.open("wb") as ranks,
        ):
            fronts = [_Front(run_keys, run_counts, start, end) for start, end in pairwise(self._ends)]
            while fronts := [front for front in fronts if front.fill(size)]:
                # Up to here all runs are known: none has a smaller key that is still to be read.
                limit = min((front.last for front in fronts if front.more), default=LAST)
                places, parts, numbers = zip(*(front.take(limit) for front in fronts), strict=True)
                key, count = np.concatenate(parts), np.concatenate(numbers)
                order = np.argsort(key, kind="stable")
                key = key[order]
                new = np.diff(key, prepend=-1) != 0
                keys.write(key[new].tobytes())
                counts.write(np.add.reduceat(count[order], np.flatnonzero(new)).astype("<i4").tobytes())
                if ranked:
                    rank = np.empty(len(key), dtype="<i8")
                    rank[order] = np.cumsum(new) + (done - 1)
                    for place, own in zip(
                        places, np.split(rank, np.cumsum([len(part) for part in parts])), strict=False
                    ):
                        ranks.seek(8 * place)
                        ranks.write(own.tobytes())
                done += int(new.sum())
            keys.write(np.array([LAST], dtype="<i8").tobytes())
            counts.write(np.array([0], dtype="<i4").tobytes())
        return done

    def ranks(self) -> Iterator[_Ints]:
        """For each run, where its n-grams are among the distinct ones."""
        with self._ranks.open("rb") as file:
            for start, end in pairwise(self._ends):
                yield np.frombuffer(file.read(8 * (end - start)), dtype="<i8")

    def clear(self) -> None:
        """Remove the runs; what they were merged into stays."""
        for path in (self._run_keys, self._run_counts, self._ranks):
            path.unlink()


class _Front:
    """What is in memory of a run: the smallest n-grams that were not taken yet."""

    def __init__(self, keys: IO[bytes], counts: IO[bytes], start: int, end: int) -> None:
        self._files = keys, counts
        self._start, self._read, self._end = start, start, end
        self._keys, self._counts = np.zeros(0, dtype="<i8"), np.zeros(0, dtype="<i4")

    @property
    def more(self) -> bool:
        """Whether some of the run is still to be read."""
        return self._read < self._end

    @property
    def last(self) -> int:
        """The greatest key in memory."""
        return int(self._keys[-1])

    def fill(self, size: int) -> bool:
        """Read until so many are in memory; False where there are none left."""
        missing = min(size - len(self._keys), self._end - self._read)
        if missing > 0:
            keys, counts = self._files
            keys.seek(8 * self._read)
            counts.seek(4 * self._read)
            self._keys = np.append(self._keys, np.frombuffer(keys.read(8 * missing), dtype="<i8"))
            self._counts = np.append(self._counts, np.frombuffer(counts.read(4 * missing), dtype="<i4"))
            self._read += missing
        return len(self._keys) > 0

    def take(self, limit: int) -> tuple[int, _Ints, _Ints]:
        """Take the n-grams up to a key: their place among those of all runs, their keys, their counts."""
        number, place = int(np.searchsorted(self._keys, limit, side="right")), self._start
        keys, counts = self._keys[:number], self._counts[:number]
        self._keys, self._counts = self._keys[number:], self._counts[number:]
        self._start += number
        return place, keys, counts


def _write_archive(path: Path, values: dict[str, Any], columns: list[tuple[str, Path, str, int]]) -> None:
    """Write an .npz as `numpy.savez` does, with columns that are in files: name, file, type and number of values."""
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, value in values.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(value), allow_pickle=False)  # type: ignore[no-untyped-call]
        for name, column, dtype, size in columns:
            described = {"descr": dtype, "fortran_order": False, "shape": (size,)}
            with (
                column.open("rb") as source,
                archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member,
            ):
                np.lib.format.write_array_header_1_0(member, described)  # type: ignore[no-untyped-call]
                shutil.copyfileobj(source, member, 1 << 20)
