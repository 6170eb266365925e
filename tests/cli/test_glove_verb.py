from __future__ import annotations

import functools
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from seqsmooth.cli.main import main
from seqsmooth.text import Vocabulary, WordVectors

LINES = ["a cat sleeps", "a dog sleeps", "the dog eats a bone", "The cat 's bone"] * 4


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(LINES) + "\n\n", encoding="utf-8")
    return path


def karpathy(path: Path) -> Path:
    def image(split: str, raw: str) -> dict[str, object]:
        return {"split": split, "sentences": [{"raw": raw, "tokens": raw.lower().strip(".").split()}] * 5}

    images = [image("train", "A dog's bone."), image("val", "A zebra.")]
    path.write_text(json.dumps({"images": images}), encoding="utf-8")
    return path


def glove(corpus: Path, *more: str) -> int:
    return main(["glove", str(corpus), "--dim", "4", "--iterations", "3", *more])


def test_vectors_and_vocabulary_are_written(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, vocabulary = tmp_path / "v.txt", tmp_path / "v.json"
    threads = torch.get_num_threads()
    assert glove(corpus, "--out", str(out), "--vocabulary", str(vocabulary), "--threads", str(threads + 1)) == 0
    assert torch.get_num_threads() == threads
    kept, made = Vocabulary.load(vocabulary), WordVectors.load(out)
    assert kept.words[4:] == ("a", "bone", "cat", "dog", "sleeps")
    assert kept.tokeniser == "whitespace"
    assert kept.counts[2] == 16
    assert made.values.shape == (6, 4)
    assert made.align(kept)[1].tolist() == [False, False, True, False, True, True, True, True, True]
    told = capsys.readouterr()
    assert told.out == ""
    assert re.search(r"iteration 2 of 3, loss \d\.\d{5}, \d+ s left", told.err)


def test_the_same_seed_writes_the_same_file(corpus: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    for file, seed in zip(files, ("1", "1", "2"), strict=True):
        assert glove(corpus, "--out", str(file), "--seed", seed, "--no-eos") == 0
    first, again, other = (file.read_bytes() for file in files)
    assert first == again != other
    assert b"<eos>" not in first


def test_what_is_there_is_replaced_only_if_asked(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = corpus.read_bytes()
    assert glove(corpus, "--out", str(corpus)) == 2
    assert "`out` must be a file that is not there yet (--overwrite replaces it)" in capsys.readouterr().err
    assert corpus.read_bytes() == before
    same = str(tmp_path / "v.txt")
    (tmp_path / "below").mkdir()
    for again in (same, str(tmp_path / "below" / ".." / "v.txt")):
        assert glove(corpus, "--out", same, "--vocabulary", again) == 2
        assert "`vocabulary` must be another file than the vectors'" in capsys.readouterr().err


def test_a_json_is_read_by_split_and_tokeniser(tmp_path: Path) -> None:
    path, out = karpathy(tmp_path / "dataset.json"), tmp_path / "v.txt"
    assert glove(path, "--out", str(out), "--no-eos") == 0
    assert set(WordVectors.load(out).words) == {"a", "dog's", "bone", "zebra"}
    assert glove(path, "--out", str(out), "--no-eos", "--splits", "train", "--tokeniser", "ptb", "--overwrite") == 0
    assert set(WordVectors.load(out).words) == {"a", "dog", "'s", "bone"}


def test_compressed_text_is_read(corpus: Path, tmp_path: Path) -> None:
    packed = tmp_path / "corpus.txt.gz"
    packed.write_bytes(gzip.compress(corpus.read_bytes()))
    assert glove(packed, "--out", str(tmp_path / "a")) == 0
    assert glove(corpus, "--out", str(tmp_path / "b")) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "more", "told"),
    [
        ("c.txt", b"", [], "`corpus` must be a file with words in it"),
        ("c.txt", b"\xff\xfe\x00", [], "`corpus` must be text in UTF-8"),
        ("c.txt.gz", b"no gzip", [], "`corpus` must be a whole gzip file"),
        ("c.json", b'{"images": [', [], "`corpus` must be whole JSON"),
        ("c.json", b"[1]", [], "`corpus` must be Karpathy's json"),
        ("c.json", b'{"images": [{"split": "a"}]}', [], "Image 1 of"),
        ("c.json", b'{"images": [{"split": "a", "sentences": []}]}', ["--splits", "b"], "`splits` must be one of 'a'"),
        ("c.txt", b"a b", ["--splits", "b"], "`splits` must be left out where the corpus is no json"),
        ("c.txt", b"a b", [], "`sentences` must be at least two words of the vocabulary near each other"),
        ("c.txt", b"a b", ["--min-count", "0"], "`min_count` must be 1 or more; it is 0."),
        ("c.txt", b"a b", ["--threads", "0"], "`threads` must be 1 or more; it is 0."),
        ("c.txt", b"a b", ["--dim", "-3"], "`dim` must be 1 or more; it is -3."),
        ("c.txt", b"a b", ["--tokeniser", "bpe"], "`tokeniser` must be whitespace, ptb, moses:LANGUAGE"),
        ("c.txt", b"a b", ["--device", "tpu"], "`device` must be one of 'cuda', 'cpu'; it is 'tpu'."),
        ("c.txt", b"a b", ["--vocabulary", "no/such/folder/v.json"], "`vocabulary` must be in a folder that is there"),
    ],
)
def test_bad_input_is_one_sentence(
    name: str, content: bytes, more: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    out = tmp_path / "v.txt"
    out.write_text("old", encoding="utf-8")
    assert glove(tmp_path / name, "--out", str(out), "--overwrite", *more) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"seqsmooth: error: {told}")
    assert last.endswith(".")
    assert out.read_text(encoding="utf-8") == "old"


def test_a_corpus_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert glove(tmp_path / "none", "--out", str(tmp_path / "v")) == 2
    assert "`corpus` must be a file that is there; it is" in capsys.readouterr().err
    assert glove(tmp_path / "none", "--out", str(tmp_path)) == 2
    assert "`out` must be a file; it is the folder" in capsys.readouterr().err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["glove", "--help"])
    assert stopped.value.code == 0
    assert "  seqsmooth glove dataset.json --splits train,restval --out vectors.txt" in capsys.readouterr().out


def test_a_stop_in_the_middle_touches_nothing(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    out = folder / "v.txt"
    out.write_text("old", encoding="utf-8")
    command = [sys.executable, "-m", "seqsmooth", "glove", str(corpus), "--out", str(out), "--iterations", "100000"]
    command.append("--overwrite")
    # Where the tests run in the background of a shell, SIGINT is ignored, and children inherit that.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=heard) as run:
        assert run.stderr is not None
        while "iteration 1 of" not in run.stderr.readline():
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        told = run.stderr.read()
    assert run.returncode == 130
    assert "Traceback" not in told
    assert f"stopped; {out} was not touched" in told
    assert out.read_text(encoding="utf-8") == "old"
    assert [path.name for path in folder.iterdir()] == ["v.txt"]
