"""A corpus is the same, byte for byte, whatever the number of processes and of blocks that it was made by."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqsmooth.cli.main import main
from seqsmooth.data import FeatureStore, Side, open_corpus, write_captions, write_pairs
from seqsmooth.data.parallel import ParallelText
from seqsmooth.files.reading import read_lines
from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.text import tokeniser

WORDS = ["Hund", "dog,", "(a)", "isn't", "l'eau", "z.B.", "5,300", "...", "snow@@", "board", "été", "雪", "end."]


def files_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def texts(lines: int, seed: int, prefix: str = "") -> list[str]:
    source = random.Random(seed)
    return [
        " ".join([prefix + source.choice([*WORDS, f"w{source.randrange(500)}"]) for _ in range(source.randint(1, 9))])
        for _ in range(lines)
    ]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in (("LEAST_ITEMS", 16), ("MOST_ITEMS", 64), ("_PORTION", 8)):
        monkeypatch.setattr(f"seqsmooth.text.blocks.{limit}", value)


@pytest.mark.parametrize("name", ["whitespace", "ptb", "moses:de:lower", "subword-nmt"])
def test_pairs_do_not_depend_on_workers(tmp_path: Path, small_blocks: None, name: str) -> None:
    if name.startswith("moses"):
        pytest.importorskip("sacremoses")
    pairs = {
        "train": list(zip(texts(700, 1), texts(700, 2), strict=True)),
        "val": [(source, (source, "x y")) for source in texts(90, 3, "so ")],
    }
    made = []
    for workers in (1, 2, 3):
        side = Side(tokeniser(name), min_count=2)
        how: dict[str, Any] = {"max_words": 7, "longer": "drop", "empty": "drop", "workers": workers}
        corpus = write_pairs(tmp_path / str(workers), pairs, source=side, target=side, **how)
        made.append(files_of(corpus.folder))
    assert made[0] == made[1] == made[2]
    assert len(made[0]) == 18


def test_captions_do_not_depend_on_workers(tmp_path: Path, small_blocks: None) -> None:
    images = [(number, texts(number % 6, number)) for number in range(200)]
    images = [(number, captions) for number, captions in images if captions]
    store = FeatureStore([number for number, _ in images], np.ones((len(images), 2), np.float32))
    made = []
    for workers in (1, 3):
        side = Side(tokeniser("ptb"), min_count=2)
        corpus = write_captions(
            tmp_path / str(workers), {"train": iter(images)}, store, side=side, empty="drop", workers=workers
        )
        made.append(files_of(corpus.folder))
    assert made[0] == made[1]


pair = st.tuples(*[st.lists(st.sampled_from(["a", "b", "ä", "cc"]), min_size=1, max_size=6)] * 2)


@settings(max_examples=40, deadline=None)
@given(st.lists(pair, min_size=1, max_size=40), st.integers(1, 9), st.integers(1, 3), st.none() | st.integers(1, 5))
def test_pairs_are_those_of_a_loop(
    pairs: list[tuple[list[str], list[str]]], block: int, min_count: int, max_words: int | None
) -> None:
    """Ids, counts and n-grams against a dictionary and a loop, whatever the blocks."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        for limit in ("LEAST_ITEMS", "MOST_ITEMS", "_PORTION"):
            patch.setattr(f"seqsmooth.text.blocks.{limit}", block)
        side = Side(min_count=min_count)
        lines = [(" ".join(one), " ".join(other)) for one, other in pairs]
        folder = Path(name) / "c"
        corpus = write_pairs(folder, {"train": lines}, source=side, target=side, max_words=max_words)
        split = corpus.split("train")
        assert split.sources is not None
        assert corpus.source_vocabulary is not None
        for which, vocabulary, store in (
            (0, corpus.source_vocabulary, split.sources),
            (1, corpus.vocabulary, split.targets),
        ):
            counts = Counter(word for both in pairs for word in both[which])
            frequent = sorted((-times, word) for word, times in counts.items() if times >= min_count)
            assert vocabulary.words[4:] == tuple(word for _, word in frequent)
            rare = sum(counts.values()) + sum(times for times, _ in frequent)
            assert vocabulary.counts == (0, len(pairs), len(pairs), rare, *(-times for times, _ in frequent))
            for row, both in enumerate(pairs):
                expected = vocabulary.encode(both[which], eos=True, max_words=max_words)
                assert store.ids[store.offsets[row] : store.offsets[row + 1]].tolist() == expected
        expected_documents = DocumentFrequencies.build([[corpus.vocabulary.encode(target)] for _, target in pairs])
        found = corpus.document_frequencies()
        for ours, theirs in zip(
            found.keys + found.counts, expected_documents.keys + expected_documents.counts, strict=True
        ):
            assert ours.tolist() == theirs.tolist()
        assert sorted(path.name for path in Path(name).iterdir()) == ["c"]


class Shouting:
    """A tokeniser of a user's own, which no other process can make by its name."""

    signature = "shouting"
    processes: set[int]

    def __init__(self) -> None:
        self.processes = set()

    def __call__(self, text: str) -> list[str]:
        self.processes.add(os.getpid())
        return text.upper().split()


def test_a_tokeniser_of_ones_own_stays_in_this_process(tmp_path: Path, small_blocks: None) -> None:
    own = Shouting()
    side = Side(own, min_count=1)
    corpus = write_pairs(tmp_path / "c", {"train": [("a b", "c")] * 100}, source=side, target=side, workers=3)
    assert corpus.references("train")[99] == [["C"]]
    assert own.processes == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("place", "text", "told"),
    [
        (150, "", r"^`target 151 of train` must be a text with words; it is empty\.$"),
        (150, ["a b"], r"^`target 151 of train` must be words without white space; it is \['a b'\]\.$"),
        (150, ["a", ""], r"^`target 151 of train` must be words without white space; it is \['a', ''\]\.$"),
        (0, ["a\nb"], r"^`target 1 of train` must be words without white space"),
        (199, None, r"^`target 200 of train` must be a text with words; it is None\.$"),
        (150, (), r"^`pair 151 of train` must be one with a target; it is one without\.$"),
        (150, "\ud800", "surrogates not allowed"),
    ],
)
def test_errors_are_the_same_in_a_worker(
    tmp_path: Path, small_blocks: None, workers: int, place: int, text: Any, told: str
) -> None:
    pairs: list[tuple[str, Any]] = [("a", "b")] * 200
    pairs[place] = ("a", text)
    with pytest.raises(ValueError, match=told):
        write_pairs(tmp_path / "c", {"train": pairs}, workers=workers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_error_is_told_and_not_that_of_the_reader_ahead(
    tmp_path: Path, small_blocks: None, workers: int
) -> None:
    lines = [b"a b\n"] * 300
    (tmp_path / "good").write_bytes(b"".join(lines))
    lines[20] = b"\n"
    (tmp_path / "early").write_bytes(b"".join([*lines[:299], b"\xff\n"]))
    (tmp_path / "late").write_bytes(b"".join([b"a\n"] * 250 + [b"\xff\n"] * 50))
    with pytest.raises(ValueError, match="`target 21 of train` must be a text with words; it is empty"):
        write_pairs(tmp_path / "c", {"train": ParallelText([tmp_path / "good", tmp_path / "early"])}, workers=workers)
    text = ParallelText([tmp_path / "good", tmp_path / "late"], name="val")
    with pytest.raises(ValueError, match=r"^`val` must be text in UTF-8, but .*late is not in line 251\.$"):
        write_pairs(tmp_path / "c", {"train": [("a", "b")], "val": text}, workers=workers)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["early", "good", "late"]


def test_workers_are_a_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`workers` must be 1 or more; it is 0"):
        write_pairs(tmp_path / "c", {"train": [("a", "b")]}, workers=0)


@pytest.mark.parametrize("how", ["interrupt", "kill a worker"])
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_what_is_stopped_leaves_no_file_and_no_process(tmp_path: Path, how: str) -> None:
    line = "Ein kleiner Hund rennt durch den hohen Schnee, und bellt.\n"
    for language in ("de", "en"):
        (tmp_path / f"train.{language}").write_text(line * 400_000, encoding="utf-8")
    words = [sys.executable, "-m", "seqsmooth", "prepare", "pairs", "c", "--train", "train.de", "train.en"]
    words += ["--source-tokeniser", "ptb", "--workers", "2", "--target-tokeniser", "ptb"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        pids: list[int] = []
        deadline = time.monotonic() + 60
        while len(pids) < 2 and time.monotonic() < deadline:
            found = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True, check=False
            )
            pids = list(map(int, found.stdout.split()))
        assert len(pids) == 2
        if how == "interrupt":
            os.killpg(run.pid, signal.SIGINT)  # as Ctrl-C: the whole group of the terminal
        else:
            os.kill(pids[0], signal.SIGKILL)
        assert run.stderr is not None
        told = run.stderr.read()
    if how == "interrupt":
        assert run.returncode == 130
        assert told.endswith("seqsmooth: stopped; c was not made\n")
    else:
        assert run.returncode == 2
        assert "`workers` must be processes that can end their work; one was ended with signal 9" in told
    assert "Traceback" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.de", "train.en"]
    assert not any(Path(f"/proc/{pid}").is_dir() for pid in pids)


def test_the_verb_takes_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.de").write_text("".join(f"{line}\n" for line in texts(5000, 4)), encoding="utf-8")
    Path("a.en.gz").write_bytes(gzip.compress("".join(f"{line}\r\n" for line in texts(5000, 5)).encode("utf-8-sig")))
    made = []
    for workers in ("1", "2"):
        words = ["prepare", "pairs", f"c{workers}", "--train", "a.de", "a.en.gz", "--workers", workers]
        assert main(words) == 0
        made.append(files_of(Path(f"c{workers}")))
    assert made[0] == made[1]
    assert main(["prepare", "pairs", "n", "--train", "a.de", "a.en.gz", "--no-document-frequencies"]) == 0
    left = files_of(Path("n"))
    assert left == {name: value for name, value in made[0].items() if name != "document_frequencies.npz"}
    assert list(open_corpus("n").texts("train")) == texts(5000, 5)


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("ab\n\r\u2028\x85\x0c\ufeffé"), max_size=60), st.integers(1, 20), st.booleans())
def test_lines_are_those_of_a_split(text: str, block: int, zipped: bool) -> None:
    """Only line feeds end lines, with a carriage return before them or not, wherever the blocks of a file end."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqsmooth.files.reading._BLOCK", block)
        path = Path(name) / ("a.txt.gz" if zipped else "a.txt")
        path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
        expected = text.removeprefix("\ufeff").split("\n") if text else [""]
        if text.endswith("\n") or not text:
            expected.pop()
        assert list(read_lines(path)) == [line.removesuffix("\r") for line in expected]


@pytest.mark.parametrize("block", [1, 50, 1 << 16])
def test_the_lines_before_one_that_is_not_utf8_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("seqsmooth.files.reading._BLOCK", block)
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n" * 41 + b"b\xe9d\n" + b"good\n" * 9)
    lines: list[str] = []
    with pytest.raises(ValueError, match=r"must be text in UTF-8, but .*a\.txt is not in line 42\.$"):
        lines.extend(read_lines(path))
    assert lines == ["good"] * 41
