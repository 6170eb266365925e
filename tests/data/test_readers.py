from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqsmooth.data import FeatureStore
from seqsmooth.data.feature_files import read_features, rename_features
from seqsmooth.data.features import write_features
from seqsmooth.data.parallel import ParallelText
from seqsmooth.data.preparation import prepare_captions
from seqsmooth.text import tokeniser
from seqsmooth.text.captions import read_captions

KARPATHY = {
    "images": [
        {
            "filename": f"COCO_val2014_{number:012}.jpg",
            "cocoid": number,
            "imgid": place,
            "split": split,
            "sentences": [{"raw": f"A dog {number}.", "tokens": ["a", "dog", str(number)]}],
        }
        for place, (number, split) in enumerate([(9, "train"), (7, "restval"), (1, "val"), (5, "test"), (8, "test")])
    ]
}
ANNOTATIONS = {
    "images": [{"id": 3, "file_name": "three.jpg"}, {"id": 4, "file_name": "four.jpg"}],
    "annotations": [{"image_id": 4, "caption": "A cat."}, {"image_id": 3, "caption": "Two cats!"}],
}


def written(path: Path, held: Any) -> Path:
    path.write_text(json.dumps(held), encoding="utf-8")
    return path


def test_splits_of_karpathy_make_up_ours(tmp_path: Path) -> None:
    path = written(tmp_path / "k.json", KARPATHY)
    splits = {"train": ["train", "restval"], "dev": ["val"], "test": ["test"]}
    corpus = prepare_captions(path, tmp_path / "c", splits=splits, min_count=1)
    assert {name: corpus.ids(name) for name in splits} == {"train": [9, 7], "dev": [1], "test": [5, 8]}
    assert corpus.references("train")[1] == [["a", "dog", "7"]]
    assert corpus.vocabulary.tokeniser == "karpathy"
    assert "1" not in corpus.vocabulary  # of another split
    with pytest.raises(ValueError, match="`splits` must be one of 'restval', 'test', 'train', 'val'; it is 'x'"):
        prepare_captions(path, tmp_path / "d", splits={"train": ["x"]})


def test_annotations_are_split_by_file_and_tokenised(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", ANNOTATIONS)
    corpus = prepare_captions({"train": path}, tmp_path / "c", tokeniser=tokeniser("ptb"), min_count=1)
    assert corpus.ids("train") == [3, 4]
    assert corpus.references("train") == [[["two", "cats"]], [["a", "cat"]]]
    with pytest.raises(ValueError, match="`tokeniser` must be given where the captions are not tokenised"):
        prepare_captions({"train": path}, tmp_path / "d")
    with pytest.raises(ValueError, match="COCO's annotations by split"):
        prepare_captions(path, tmp_path / "d")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"images": [{"spl', "`captions` must be whole JSON; .* is damaged at line 1, column"),
        (b"\xff\xfe", "`captions` must be text in UTF-8, but .* is not in line 1"),
        (b"3", "`captions` must be Karpathy's json"),
        (b'{"images": []}', "`captions` must be a file with images"),
        (b'{"images": [{"split": "train"}]}', 'Image 1 of .* must be an image with "split" and "sentences"'),
        (b'{"images": [{"split": "a", "sentences": [{"tokens": [3]}]}]}', "Image 1 of"),
        (b'{"images": [{"split": "a", "sentences": [{"raw": 3}]}]}', "Image 1 of"),
        (b'{"annotations": [{"image_id": 3}]}', "Annotation 1 of"),
        (b'{"annotations": [{"image_id": [3], "caption": "a"}]}', "Annotation 1 of"),
        (
            b'{"images": [{"imgid": 1, "split": "a", "sentences": []}, {"imgid": 1, "split": "a", "sentences": []}]}',
            "`captions` must be a file with each image once; it is .* with 1 twice",
        ),
    ],
)
def test_damaged_captions_are_one_sentence(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        read_captions(tmp_path / "c.json")


def features(tmp_path: Path, form: str) -> tuple[Any, dict[int | str, Any]]:
    """Features of four images in a form that others use, and what they are."""
    numbers = np.random.default_rng(0)
    ids = [9, 7, 1, 5]
    varying = form in ("npz", "h5 each")
    values = {
        name: numbers.normal(size=(place + 1 if varying else 2, 3)).astype("f4") for place, name in enumerate(ids)
    }
    path = tmp_path / "f"
    if form == "npy":
        np.save(tmp_path / "f.npy", np.stack(list(values.values())))
        (tmp_path / "f.ids.txt").write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
        path = tmp_path / "f.npy"
    elif form == "grid":
        path.mkdir()
        for name, value in values.items():
            np.save(path / f"{name}.npy", value.reshape(2, 1, 3))
    elif form == "npz":
        path.mkdir()
        for name, value in values.items():
            np.savez_compressed(path / f"{name}.npz", feat=value, boxes=np.zeros(4))
    elif form == "store":
        FeatureStore(ids, np.stack(list(values.values()))).save(path)
        path = tmp_path / "f.json"
    else:
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "f.h5"
        with h5py.File(path, "w") as file:
            if form == "h5":
                file["features"] = np.stack(list(values.values()))
                file["ids"] = ids
            else:
                for name, value in values.items():
                    file[str(name)] = value
    return read_features(path), dict(values)


@pytest.mark.parametrize("form", ["npy", "grid", "npz", "store", "h5", "h5 each"])
def test_features_of_every_form_become_the_same_store(tmp_path: Path, form: str) -> None:
    source, values = features(tmp_path, form)
    wanted = [5, 9, 7]  # others than all, in another order
    write_features(tmp_path / "out", source, np.array([source.places[name] for name in wanted]))
    store = FeatureStore.open(tmp_path / "out")
    assert list(store.ids) == wanted
    most = max(len(values[name]) for name in wanted)
    assert store.shape == (most, 3)
    found, *mask = store.read(np.arange(3))
    for row, name in enumerate(wanted):
        size = len(values[name])
        assert np.array_equal(found[row, :size], values[name])
        assert not found[row, size:].any()
        if mask:
            assert mask[0][row].tolist() == [True] * size + [False] * (most - size)
    assert bool(mask) == (form in ("npz", "h5 each"))


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("cocoid", [9, 7, 1, 5]),
        ("imgid", [0, 1, 2, 3]),
        ("filename", [f"COCO_val2014_{number:012}.jpg" for number in (9, 7, 1, 5)]),
        ("stem", [f"COCO_val2014_{number:012}" for number in (9, 7, 1, 5)]),
    ],
)
def test_features_are_found_by_any_name_of_the_image(tmp_path: Path, name: str, ids: list[int | str]) -> None:
    images = [image for image in read_captions(written(tmp_path / "k.json", KARPATHY)) if image.id != 8]
    source = rename_features(FeatureStore(ids, np.arange(4.0)[:, None]), images)
    assert {image.id: source.places[image.id] for image in images} == {9: 0, 7: 1, 1: 2, 5: 3}


def test_features_that_cannot_be_are_one_sentence(tmp_path: Path) -> None:
    def refused(told: str, path: Path, **more: Any) -> None:
        with pytest.raises(ValueError, match=told):
            read_features(path, **more)

    refused("`features` must be a store's .json, .*; it is .*, which is not there", tmp_path / "no.npy")
    np.save(tmp_path / "f.npy", np.zeros((3, 2)))
    refused("`feature ids` must be given, or in f.ids.txt beside the features", tmp_path / "f.npy")
    (tmp_path / "f.ids.txt").write_text("1\n2\n", encoding="utf-8")
    refused("`ids` must be one for each of the 3 rows of features; it is 2 of them", tmp_path / "f.npy")
    folder = tmp_path / "folder"
    folder.mkdir()
    refused("`features` must be of one image or more", folder)
    np.savez(folder / "1.npz", a=np.zeros((2, 2)), b=np.zeros(3))
    refused("`key` must be one of a, b, which .* holds; it is None", folder)
    (folder / "1.npz").write_bytes((folder / "1.npz").read_bytes()[:50])
    refused(r"must be a whole \.npz file; it is damaged", folder)
    (folder / "1.npz").unlink()
    np.save(folder / "1.npy", np.zeros((2, 2)))
    np.save(folder / "2.npy", np.zeros((2, 3)))
    refused("`features` must be of one size for all images, but for the number of regions", folder)
    (tmp_path / "f.h5").write_bytes(b"no")
    pytest.importorskip("h5py")
    refused("`features` must be a whole HDF5 file", tmp_path / "f.h5")
    (tmp_path / "f.txt").write_bytes(b"no")
    refused("`features` must be a store's .json", tmp_path / "f.txt")
    with pytest.raises(ValueError, match="must be all different; it is 1 in rows 1 and 2"):
        FeatureStore([1, 1], np.zeros((2, 2))).rows([1])
    with pytest.raises(ValueError, match="`features` must be there for the image 2; it is missing"):
        FeatureStore([1], np.zeros((1, 2))).rows([2])


SGM = '<refset><doc><p>\n<seg id="1">A  dog &amp; cat</seg>\n<seg id="2">Two\ndogs</seg></p></doc></refset>'


def test_parallel_text_in_its_forms(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("\ufeffein Hund\r\nzwei\x85 Hunde\n", encoding="utf-8")
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(b"a dog\ntwo dogs"))
    (tmp_path / "a.sgm").write_text(SGM, encoding="utf-8")
    (tmp_path / "a.tsv").write_text("1\ta dog\tein Hund\n2\ttwo\tzwei\tx\n", encoding="utf-8")
    text = ParallelText([tmp_path / "a.de", tmp_path / "a.en.gz"])
    assert list(text) == [("ein Hund", "a dog"), ("zwei\x85 Hunde", "two dogs")]
    assert list(text) == list(text)  # again
    several = ParallelText([tmp_path / "a.de", tmp_path / "a.en.gz", tmp_path / "a.sgm"])
    assert [targets for _, targets in several] == [("a dog", "A dog & cat"), ("two dogs", "Two dogs")]
    assert list(ParallelText([tmp_path / "a.tsv"], (3, 2))) == [("ein Hund", "a dog"), ("zwei", "two")]
    with pytest.raises(ValueError, match=r"Line 1 of .* must have 4 columns with tabs between them, but has 3"):
        list(ParallelText([tmp_path / "a.tsv"], (4, 2)))


def test_files_that_do_not_fit_name_both_counts_and_the_line(tmp_path: Path) -> None:
    lines = [f"the number {number} stays {number * 7}" for number in range(200)]
    (tmp_path / "a").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "b").write_text("\n".join(line for line in lines if " 120 " not in line) + "\n", encoding="utf-8")
    told = r"must have as many lines, but .*a has 200 and .*b has 199: the first suspicious line is 121\."
    with pytest.raises(ValueError, match=told):
        ParallelText([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("x", "Grüße\n".encode("latin-1"), "`pairs` must be text in UTF-8, but .* is not in line 1"),
        ("x", b"a\nb\n\xff\n", "`pairs` must be text in UTF-8, but .* is not in line 3"),
        ("x.gz", gzip.compress(b"a\n" * 9999, mtime=0)[:-9], "`pairs` must be a whole gzip file; .* is damaged"),
        ("x.gz", b"plain", "`pairs` must be a whole gzip file; .* is damaged"),
        ("x.sgm", b"<doc></doc>", "`pairs` must be a file with <seg> elements; it is .*, which has none"),
    ],
)
def test_damaged_text_is_one_sentence(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=told):
        list(ParallelText([tmp_path / name, tmp_path / name]))


def test_real_coco_captions_and_features(coco_data: Path, tmp_path: Path) -> None:
    if not (coco_data / "flickr8k" / "dataset.json").is_file():
        pytest.skip("no Flickr8k captions in the folder of real data")
    corpus = prepare_captions(coco_data / "flickr8k" / "dataset.json", tmp_path / "c", min_count=5, max_words=16)
    assert dict(corpus.splits) == {"train": 6000, "val": 1000, "test": 1000}
    assert len(corpus.split("train").targets) == 30_000
