from __future__ import annotations

import dataclasses
import math
import os
import pickle
import random
import re
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.ops.hash_table import find
from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.rewards.document_frequencies import build_hash_table, fits_hash_table

captions = st.lists(st.integers(0, 3), max_size=6)
documents = st.lists(st.lists(captions, max_size=3), min_size=1, max_size=5)


def grams(caption: list[int], n: int) -> list[tuple[int, ...]]:
    return list(zip(*(caption[k:] for k in range(n)), strict=False))


def counted(documents: list[list[list[int]]], order: int) -> Counter[tuple[int, ...]]:
    held: Counter[tuple[int, ...]] = Counter()
    for document in documents:
        held.update({gram for caption in document for n in range(1, order + 1) for gram in grams(caption, n)})
    return held


def corpus(captions: int, vocabulary: int = 50) -> list[list[list[int]]]:
    draw = random.Random(0)
    return [[[draw.randrange(vocabulary) for _ in range(10)] for _ in range(5)] for _ in range(captions // 5)]


@settings(deadline=None)
@given(documents, captions, st.integers(1, 5))
def test_frequencies_are_those_of_a_dictionary(documents: list[list[list[int]]], caption: list[int], order: int):
    frequencies = DocumentFrequencies.build(documents, order)
    expected = counted(documents, order)
    assert frequencies.documents == len(documents)
    assert frequencies.order == order
    # A caption that may hold strangers, then all that are known.
    for probe in [caption, *(caption for document in documents for caption in document)]:
        found = frequencies.lookup(torch.tensor([[*probe, -1]]).long())
        for n in range(1, order + 1):
            wanted = [expected[gram] for gram in grams(probe, n)]
            width = max(0, len(probe) + 2 - n)
            assert found[n - 1].tolist() == [wanted + [0] * (width - len(wanted))]
    stored = [sum(len(gram) == n for gram in expected) for n in range(1, order + 1)]
    assert [keys.numel() - 1 for keys in frequencies.keys] == stored


def test_a_vocabulary_of_any_size_is_exact():
    low = [[[0, 1, 2, 0, 1], [2, 1]], [[1, 2, 0]], [[2, 2, 2]]]
    ids = [2**20 + 1, 2**40, 2**63 - 1]
    high = [[[ids[token] for token in caption] for caption in document] for document in low]
    probe = torch.tensor([[0, 1, 2, 0], [2, 2, 2, 1], [1, 0, 2, 2]])
    near, far = DocumentFrequencies.build(low), DocumentFrequencies.build(high)
    for a, b in zip(near.lookup(probe), far.lookup(torch.tensor(ids)[probe]), strict=True):
        assert torch.equal(a, b)


def test_strangers_are_never_taken_for_others():
    # With places 0 and 1, an unseen word after the first could pass for the second's, if only arithmetic decided.
    frequencies = DocumentFrequencies.build([[[3, 3], [5, 3], [5, 5]]], 2)
    ones, twos = frequencies.lookup(torch.tensor([[3, 9], [9, 3], [3, 2**63 - 1], [2**63 - 1, 3], [4, 4], [5, 3]]))
    assert ones.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1], [0, 0], [1, 1]]
    assert twos.tolist() == [[0], [0], [0], [0], [0], [1]]


@settings(deadline=None)
@given(documents, captions, st.integers(1, 4))
def test_the_hash_table_is_the_trie(documents: list[list[list[int]]], caption: list[int], order: int):
    frequencies = DocumentFrequencies.build(documents, order)
    assert fits_hash_table(frequencies.keys)
    table = build_hash_table(len(documents), frequencies.keys, frequencies.counts)
    expected = counted(documents, order)
    for probe in [caption, *(caption for document in documents for caption in document)]:
        for n in range(1, order + 1):
            for gram in grams(probe, n):
                value = 0
                for word in gram:
                    value = find(table, torch.tensor(value >> 32 << 32 | word)).item() if value >= 0 else -1
                assert (value >= 0) == (gram in expected)
                if gram in expected:
                    square = torch.tensor(value & 0xFFFFFFFF, dtype=torch.int32).view(torch.float32).item()
                    assert square == pytest.approx(math.log(len(documents) / expected[gram]) ** 2, rel=1e-6)


def test_what_fits_the_hash_table():
    assert fits_hash_table(DocumentFrequencies.build([[[2**32 - 1]]]).keys)
    assert not fits_hash_table(DocumentFrequencies.build([[[2**32]]]).keys)
    assert fits_hash_table(DocumentFrequencies.build([[]]).keys)


def test_documents_can_come_from_an_iterator_and_hold_padding_and_arrays():
    plain = DocumentFrequencies.build([[[1, 2, 3], [2, 3]], [[4]]])
    for others in (
        ([[1, 2, 3], [2, 3]] if one else [[4]] for one in (True, False)),
        [[[1, 2, 3, -1], [2, 3, -7, -7]], [[4, -1], [-1, -1]]],
        [[np.array([1, 2, 3]), torch.tensor([2, 3])], ((4,),)],
    ):
        built = DocumentFrequencies.build(others)
        assert built.documents == 2
        assert all(map(torch.equal, built.keys + built.counts, plain.keys + plain.counts))


def test_an_empty_document_is_a_document():
    assert DocumentFrequencies.build([[], [[]], [[1]]]).documents == 3


def test_memory_grows_with_the_corpus_and_not_with_its_square():
    peaks = []
    for captions in (1000, 8000):
        held = corpus(captions)
        tracemalloc.start()
        DocumentFrequencies.build(held)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 10 * peaks[0]


def test_it_is_frozen_and_says_what_it_is():
    frequencies = DocumentFrequencies.build([[[1, 2], [1, 3]], [[1]]], 2)
    assert repr(frequencies) == "DocumentFrequencies(documents=2, order=2, ngrams=[3, 2])"
    with pytest.raises(dataclasses.FrozenInstanceError):
        frequencies.documents = 3  # type: ignore[misc]


def test_what_is_saved_is_loaded(tmp_path: Path):
    frequencies = DocumentFrequencies.build(corpus(100), 3)
    path = tmp_path / "frequencies"  # no suffix is added
    frequencies.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["frequencies"]
    loaded = DocumentFrequencies.load(str(path))
    assert (loaded.documents, loaded.order) == (20, 3)
    assert all(map(torch.equal, loaded.keys + loaded.counts, frequencies.keys + frequencies.counts))


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "frequencies.npz"
    DocumentFrequencies.build([[[1]]]).save(path)
    before = path.read_bytes()

    def full(file: object, **_: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(ValueError, match="must be a file that can be written; it is not: no space left"):
        DocumentFrequencies.build([[[1], [2]]]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_does_not_touch_the_file_that_it_replaces(tmp_path: Path):
    path, reader = tmp_path / "frequencies.npz", tmp_path / "reader"
    DocumentFrequencies.build([[[1]]]).save(path)
    os.link(path, reader)  # as somebody who has the old file open
    DocumentFrequencies.build([[[1]], [[2]]]).save(path)
    assert DocumentFrequencies.load(reader).documents == 1
    assert DocumentFrequencies.load(path).documents == 2


class Trap:
    def __reduce__(self) -> tuple:
        return (os.abort, ())


def strangers(folder: Path) -> list[Path]:
    """Files that are not ours, each for another reason."""
    DocumentFrequencies.build(corpus(100)).save(folder / "whole")
    whole = (folder / "whole").read_bytes()
    middle = len(whole) // 2
    written = {
        "empty": b"",
        "text": b"a man riding a motorcycle\n",
        "pickle": pickle.dumps(Trap()),
        "cut": whole[:middle],
        "cut late": whole[:-1],
        "damaged": whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :],
    }
    for name, content in written.items():
        (folder / name).write_bytes(content)
    arrays = dict(np.load(folder / "whole"))
    with (folder / "array").open("wb") as file:
        np.save(file, np.arange(3))
    changes = {
        "other archive": {"features": np.arange(3)},
        "other kind": arrays | {"kind": np.array("something else")},
        "trap": arrays | {"kind": np.array(Trap(), dtype=object)},
        "lost order": {name: value for name, value in arrays.items() if name != "keys_3"},
        "floats": arrays | {"keys_2": arrays["keys_2"].astype(np.float64)},
        "uneven": arrays | {"counts_2": arrays["counts_2"][:-1]},
        "no documents": arrays | {"documents": np.array(0)},
        "out of order": arrays | {"keys_2": np.append(arrays["keys_2"][-2::-1], arrays["keys_2"][-1])},
        "twice": arrays | {"keys_1": np.append(arrays["keys_1"][:1], arrays["keys_1"][:-1])},
        "below zero": arrays | {"counts_3": -arrays["counts_3"]},
        "in more documents than there are": arrays | {"documents": np.array(1)},
        "without its first word": arrays | {"keys_4": arrays["keys_4"] + (arrays["keys_4"] < 2**62) * 2**50},
    }
    for name, content in changes.items():
        with (folder / name).open("wb") as file:
            np.savez(file, **content)
    return [folder / name for name in ["array", *written, *changes]]


def test_other_files_are_refused_in_a_sentence(tmp_path: Path):
    for path in strangers(tmp_path):
        rule = "`path` must be a file written by `DocumentFrequencies.save`; "
        sentence = f"^{re.escape(rule + str(path))} is damaged or something else.$"
        with pytest.raises(ValueError, match=sentence):
            DocumentFrequencies.load(path)


def test_a_missing_file_is_refused_in_a_sentence(tmp_path: Path):
    for path in (tmp_path / "nowhere", tmp_path):
        sentence = f"^`path` must be a file that is there; it is {re.escape(str(path))}.$"
        with pytest.raises(ValueError, match=sentence):
            DocumentFrequencies.load(path)


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"^`order` must be 1 or more; it is 0.$"):
        DocumentFrequencies.build([[[1]]], 0)
    with pytest.raises(ValueError, match=r"^`documents` must be at least one; it is none.$"):
        DocumentFrequencies.build([])
    for wrong in ([[1, 2]], [[["a", "man"]]], ["a man"], [[[1.5]]], 3):
        with pytest.raises(ValueError, match=r"^`documents` must be an iterable of documents, each a sequence of"):
            DocumentFrequencies.build(wrong)  # type: ignore[arg-type]
