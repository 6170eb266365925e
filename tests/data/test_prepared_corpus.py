from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.corpora import caption_corpus, captions, pair_corpus
from seqsmooth.data import FeatureStore, Side, TokenStore, open_corpus, write_captions, write_pairs
from seqsmooth.data.arrays import ArrayWriter, open_array
from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.text import Vocabulary, WordCounts, document_frequencies


def test_an_array_grows_and_numpy_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with ArrayWriter(path, np.float16, (3,)) as writer:
        for rows in (2, 0, 5):
            writer.append(np.full((rows, 3), rows, dtype=np.float32))
    found = np.load(path)
    assert found.dtype == np.float16
    assert found[:, 0].tolist() == [2, 2, 5, 5, 5, 5, 5]
    with pytest.raises(ValueError, match=r"rows of shape \(3,\)"):
        ArrayWriter(tmp_path / "b.npy", np.float16, (3,)).append(np.zeros((1, 4)))


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "unfinished"])
def test_a_damaged_array_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.npy"
    writer = ArrayWriter(path, np.int64)
    writer.append(np.arange(1000))
    if damage == "unfinished":  # the process was killed before the head was written
        writer._file.flush()
    else:
        writer.close()
        whole = path.read_bytes()
        path.write_bytes({"cut": whole[:-8], "empty": b"", "other": b"{}"}[damage])
    with pytest.raises(ValueError, match=r"must be a whole \.npy file; it is damaged"):
        open_array(path)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    given = {"train": captions(30), "val": captions(4, 1, name="v")}
    ids = [identity for several in given.values() for identity, _ in several]
    # In another order than the images, and with one that nobody asks for.
    store = FeatureStore([*reversed(ids), "x"], np.arange((len(ids) + 1) * 3, dtype=np.float32).reshape(-1, 3))
    written = write_captions(tmp_path / "c", given, store, side=Side(min_count=3), max_words=6, dtype="float16")
    corpus = open_corpus(tmp_path / "c")
    assert corpus.fingerprint == written.fingerprint
    assert corpus.task == "captions"
    assert dict(corpus.splits) == {"train": 30, "val": 4}
    sentences = [words for _, several in given["train"] for words in several]
    expected = WordCounts.of(sentences).vocabulary(min_count=3)
    assert corpus.vocabulary.words == expected.words
    assert corpus.vocabulary.counts == expected.counts
    for name, images in given.items():
        assert corpus.ids(name) == [identity for identity, _ in images]
        assert corpus.references(name) == [several for _, several in images]
        (features,) = corpus.inputs(name, range(len(images)))
        assert features.tolist() == [store.array[store.places[identity]].tolist() for identity, _ in images]
        targets = corpus.split(name).targets
        flat = [words for _, several in images for words in several]
        for row, words in enumerate(flat):
            expected_ids = corpus.vocabulary.encode(words, eos=True, max_words=6)
            assert targets.ids[targets.offsets[row] : targets.offsets[row + 1]].tolist() == expected_ids
    df = document_frequencies((several for _, several in given["train"]), expected)
    found = corpus.document_frequencies()
    assert isinstance(found, DocumentFrequencies)
    assert found.documents == 30
    for ours, theirs in zip(found.keys + found.counts, df.keys + df.counts, strict=True):
        assert ours.tolist() == theirs.tolist()


def test_pairs_are_cut_or_dropped_in_training_only(tmp_path: Path) -> None:
    given = {
        "train": [("a b c", "x"), ("a", "x y z w"), ("a b", "x y"), ("", "x")],
        "test": [("a b c d", ("x y z", "y"))],
    }
    side = Side(min_count=1)
    dropped = write_pairs(tmp_path / "d", given, source=side, target=side, max_words=2, longer="drop", empty="drop")
    assert dropped.splits["train"] == 1
    assert dropped.made_from["longer_pairs"] == 2
    assert dropped.made_from["empty_pairs"] == 1
    assert dropped.references("test") == [[["x", "y", "z"], ["y"]]]
    cut = write_pairs(tmp_path / "c", given, source=side, target=side, max_words=2, empty="drop")
    assert cut.splits["train"] == 3
    assert cut.split("train").targets.lengths.tolist() == [2, 3, 3]  # with EOS
    assert cut.source_vocabulary is not None
    assert cut.split("test").sources.lengths.tolist() == [5]  # type: ignore[union-attr]
    assert cut.ids("train") == [0, 1, 2]


def test_the_fingerprint_tells_corpora_apart_and_not_their_places(tmp_path: Path) -> None:
    one = caption_corpus(tmp_path / "a")
    assert caption_corpus(tmp_path / "b").fingerprint == one.fingerprint
    assert caption_corpus(tmp_path / "c", seed=1).fingerprint != one.fingerprint
    # The same words and other features.
    images = {"train": captions(3)}
    ids = [identity for identity, _ in images["train"]]
    prints = [
        write_captions(
            tmp_path / f"f{value}", images, FeatureStore(ids, np.full((3, 2), value, np.float32))
        ).fingerprint
        for value in (0.0, 1.0)
    ]
    assert prints[0] != prints[1]


def test_a_folder_that_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine").write_text("x", encoding="utf-8")
    with pytest.raises(ValueError, match="`out` must be a folder that is not there yet"):
        pair_corpus(tmp_path / "c")
    assert [path.name for path in tmp_path.rglob("*")] == ["c", "mine"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_what_could_not_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(self: ArrayWriter, block: Any) -> None:
        raise error

    monkeypatch.setattr(ArrayWriter, "append", fail)
    told = "that can be written; it is not: No space left" if isinstance(error, OSError) else None
    with pytest.raises(ValueError if told else KeyboardInterrupt, match=told):
        pair_corpus(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import sys
from seqsmooth.data import write_pairs
def pairs():
    yield "a", "b"
    print("begun", flush=True)
    sys.stdin.read()
write_pairs(sys.argv[1], {"train": pairs()})
"""


def test_a_process_that_is_killed_leaves_no_corpus_and_the_next_one_clears_up(tmp_path: Path) -> None:
    out = tmp_path / "c"
    command = [sys.executable, "-c", KILLED, str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"begun\n"
        with pytest.raises(ValueError, match="written by one process at a time; it is being written by another"):
            pair_corpus(out)
        run.send_signal(signal.SIGKILL)
    assert not out.exists()
    assert (tmp_path / ".c.unfinished").is_dir()
    pair_corpus(out)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_memory_maps_are_not_read_to_make_a_batch_of_a_few_rows(tmp_path: Path) -> None:
    store = caption_corpus(tmp_path / "c").features
    assert store is not None
    assert not store.array.flags.writeable
    assert store.array.base is not None  # of a map, not a copy


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("corpus.json", b"{", "`corpus` must be a folder written by `seqsmooth prepare`"),
        ("corpus.json", b"[]", "is damaged or something else"),
        ("corpus.json", b'{"kind": "seqsmooth corpus 9"}', "is damaged or something else"),
        ("vocabulary.json", b"{}", "`path` must be a file written by `Vocabulary.save`"),
        ("features.json", b"{}", "`features` must be a file written by `FeatureStore.save`"),
        ("features.npy", b"", r"must be a whole \.npy file"),
        ("train.targets.ids.npy", b"", r"must be a whole \.npy file"),
    ],
)
def test_a_damaged_corpus_is_one_sentence(tmp_path: Path, file: str, content: bytes, told: str) -> None:
    caption_corpus(tmp_path / "c")
    (tmp_path / "c" / file).write_bytes(content)
    with pytest.raises(ValueError, match=told):
        open_corpus(tmp_path / "c").batches("train", 8)
    with pytest.raises(ValueError, match="`corpus` must be a folder written by `seqsmooth prepare`"):
        open_corpus(tmp_path)


def test_ids_that_do_not_fit_their_offsets_are_refused(tmp_path: Path) -> None:
    caption_corpus(tmp_path / "c")
    path = tmp_path / "c" / "train.targets.ids.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(ValueError, match="must be as long as its offsets say"):
        open_corpus(tmp_path / "c").split("train")


def test_images_without_features_are_refused_or_dropped(tmp_path: Path) -> None:
    images = {"train": captions(4)}
    store = FeatureStore(["i0", "i2", "i3"], np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match="`features` must be there for every image; it is missing for 'i1' of train"):
        write_captions(tmp_path / "c", images, store)
    assert list(tmp_path.iterdir()) == []
    corpus = write_captions(tmp_path / "c", images, store, missing="drop", side=Side(min_count=1))
    assert corpus.ids("train") == ["i0", "i2", "i3"]
    assert corpus.made_from["images_without_features"] == {"train": 1}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([("i", ["a", " "])], r"caption 2 of the image 'i' of train` must be a text with words; it is empty"),
        ([("i", [["a b"]])], r"must be words without white space; it is \['a b'\]"),
        ([], "`train` must be a split with images; it is empty"),
        ([("i", "dog")], "^`captions of the image 'i' of train` must be a list of texts; it is 'dog'"),
        ([("i", ["a", None])], "^`caption 2 of the image 'i' of train` must be a text with words; it is None"),
        ([("i", ["a"]), ("i", ["b"])], "^`train` must be a split with each image once; it is 'i' twice"),
    ],
)
def test_captions_that_cannot_be_are_one_sentence(tmp_path: Path, given: list[Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        write_captions(tmp_path / "c", {"train": given})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pair", ["ab", ("a",), None])
def test_pairs_that_cannot_be_are_one_sentence(tmp_path: Path, pair: Any) -> None:
    sentence = f"`pair 2 of train` must be a source and a target; it is {pair!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        write_pairs(tmp_path / "c", {"train": [("a", "b"), pair]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda out: write_captions(out, [(1, ["a"])]), "`splits` must be a mapping from names to items; it is a"),  # type: ignore[arg-type]
        (
            lambda out: write_captions(out, {"train": [(1, ["a"])]}, np.eye(1)),  # type: ignore[arg-type]
            "`features` must be a FeatureStore, or None; it is a ndarray",
        ),
        (lambda out: Side("ptb"), "`tokeniser` must be a tokeniser (`seqsmooth.text.tokeniser` makes one of a name)"),  # type: ignore[arg-type]
        (lambda out: FeatureStore([1], [[1.0]]), "`features` must be an array of numpy, a row an image; it is a list"),  # type: ignore[arg-type]
        (lambda out: FeatureStore([1], torch.ones(1, 2)), "`features` must be an array of numpy, a row an image; it"),  # type: ignore[arg-type]
        (lambda out: FeatureStore([1], np.array(1.0)), "`features` must be an array of numpy, a row an image; it"),
    ],
)
def test_things_of_another_kind_are_one_sentence(tmp_path: Path, call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_empty_captions_can_be_left_out(tmp_path: Path) -> None:
    images = {"train": [(1, ["a b", " "]), (2, [""]), (3, ["c"])]}
    corpus = write_captions(tmp_path / "c", images, empty="drop", side=Side(min_count=1))
    assert corpus.ids("train") == [1, 3]
    assert corpus.references("train") == [[["a", "b"]], [["c"]]]
    assert corpus.made_from["empty_captions"] == {"train": 2}


def test_splits_need_a_train(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`splits` must be some with a train among them; it is dev"):
        write_pairs(tmp_path / "c", {"dev": [("a", "b")]})


def test_features_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    store = FeatureStore([1], np.array([[1e6]], dtype=np.float32))
    with pytest.raises(ValueError, match="must be finite, but are too large for float16 for the image"):
        write_captions(tmp_path / "c", {"train": [(1, ["a"])]}, store, dtype="float16")
    store = FeatureStore([1], np.array([[np.nan]], dtype=np.float32))
    with pytest.raises(ValueError, match="must be finite, but are infinite or not a number"):
        write_captions(tmp_path / "c", {"train": [(1, ["a"])]}, store)


def test_texts_that_were_cut_are_refused(tmp_path: Path) -> None:
    corpus = write_captions(tmp_path / "c", {"train": [(1, ["a", "b"]), (2, ["c"])]}, side=Side(min_count=1))
    path = tmp_path / "c" / "train.targets.txt"
    path.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`corpus` must be as .* changed: .* has 2 lines for 3 texts"):
        corpus.references("train")


def test_a_vocabulary_can_be_given(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build({"a": 3, "b": 3}, 3, min_count=1, tokeniser="mine")
    corpus = write_captions(tmp_path / "c", {"train": [(1, ["c a"])]}, side=Side(vocabulary=vocabulary))
    assert corpus.vocabulary == vocabulary
    assert corpus.split("train").targets.ids.tolist() == [3, vocabulary.id("a"), 2]


def test_large_corpora_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing keeps the texts: an iterator is read once, and each pair is let go with its block."""
    for limit in ("LEAST_ITEMS", "MOST_ITEMS", "_PORTION"):
        monkeypatch.setattr(f"seqsmooth.text.blocks.{limit}", 2)
    alive = 0
    most = 0

    class Text(str):
        __slots__ = ()

        def __new__(cls, value: str) -> Text:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)
            return super().__new__(cls, value)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def pairs() -> Iterator[tuple[str, str]]:
        for number in range(3000):
            yield Text(f"a {number}"), Text("b c")

    corpus = write_pairs(tmp_path / "c", {"train": pairs()}, source=Side(min_count=1), target=Side(min_count=1))
    assert corpus.splits["train"] == 3000
    assert most < 10


def test_document_frequencies_can_be_left_out(tmp_path: Path) -> None:
    corpus = write_pairs(tmp_path / "c", {"train": [("a", "b")] * 3}, document_frequencies=False)
    with pytest.raises(ValueError, match="`corpus` must be one with document frequencies"):
        corpus.document_frequencies()


def test_a_token_store_without_a_sequence() -> None:
    store = TokenStore(np.zeros(0, np.int32), np.zeros(1, np.int64))
    assert len(store) == 0
    assert store.rows(np.array([0]), 2).tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="`offsets` must be where the sequences"):
        TokenStore(np.zeros(3, np.int32), np.zeros(1, np.int64))


def test_the_index_is_plain_json(tmp_path: Path) -> None:
    caption_corpus(tmp_path / "c")
    held = json.loads((tmp_path / "c" / "corpus.json").read_text(encoding="utf-8"))
    assert held["kind"] == "seqsmooth corpus 1"
    assert held["splits"] == {"train": 60, "val": 5}
    assert str(tmp_path) not in json.dumps(held)
