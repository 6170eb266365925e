"""Pictures instead of features: bytes on disk, in batches once for all captions of an image."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from oracles.small_corpora import captions
from seqsmooth.cli.main import main
from seqsmooth.data import FeatureStore, open_corpus
from seqsmooth.data.pictures import Pictures
from seqsmooth.models.vision import read_image

SIDE = 6


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Karpathy's json of four images, and a folder with a picture of each."""
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "images" / "more").mkdir(parents=True)
    source = np.random.default_rng(0)
    held = []
    for number, split in enumerate(("train", "train", "val", "test")):
        name = f"{'more/' if number == 1 else ''}p{number}.png"
        image.fromarray(source.integers(0, 256, (9, 7, 3), dtype=np.uint8)).save(tmp_path / "images" / name)
        sentences = [{"tokens": ["a", word], "raw": f"a {word}"} for word in ("dog", "cat")]
        held.append({"filename": f"p{number}.png", "imgid": number, "split": split, "sentences": sentences})
    (tmp_path / "k.json").write_text(json.dumps({"images": held}), encoding="utf-8")
    return tmp_path


def prepare(files: Path, *options: object) -> int:
    words = ["prepare", "captions", files / "k.json", files / "out", "--images", files / "images", "--min-count", 1]
    return main([str(word) for word in (*words, *options)])


def test_a_corpus_of_pictures(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(files, "--side", SIDE, "--resize", SIDE + 2) == 0
    assert "train 2, val 1, test 1; 7 words; pictures 3 x 6 x 6" in capsys.readouterr().out
    corpus = open_corpus(files / "out")
    assert corpus.feature_shape == (3, SIDE, SIDE)
    (seen,) = corpus.inputs("train", [1, 0])
    assert seen.dtype == torch.uint8
    assert torch.equal(seen[0], read_image(files / "images" / "more" / "p1.png", SIDE, resize=SIDE + 2))
    assert torch.equal(seen[1], read_image(files / "images" / "p0.png", SIDE, resize=SIDE + 2))
    assert np.load(files / "out" / "features.npy", mmap_mode="r").shape == (4, 3, SIDE, SIDE)
    assert prepare(files, "--side", SIDE) == 2
    assert "`out` must be a folder that is not there yet" in capsys.readouterr().err


def test_a_picture_that_is_missing_or_broken_is_named(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = files / "images" / "p3.png"
    whole = picture.read_bytes()
    picture.write_bytes(whole[: len(whole) // 2])
    assert prepare(files, "--side", SIDE) == 2
    assert f"The image {picture} cannot be read as a picture" in capsys.readouterr().err
    assert sorted(path.name for path in files.iterdir()) == ["images", "k.json"]  # nothing is left
    picture.unlink()
    (files / "images" / "p1.jpg").write_bytes(b"")
    assert prepare(files, "--side", SIDE) == 2
    assert "`images` must be pictures of different names" in capsys.readouterr().err
    (files / "images" / "p1.jpg").unlink()
    assert prepare(files, "--side", SIDE) == 2
    assert "`pictures` must be there for every image; it is missing for 3 of test" in capsys.readouterr().err
    picture.write_bytes(whole)
    (files / "images" / "p0.png").unlink()
    assert prepare(files, "--side", SIDE, "--missing", "drop") == 0
    assert "left out: 1 images without pictures (train 1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--features", "x.npy"), "`features` must be left out with --images"),
        (("--side", 0), "`side` must be 1 or more"),
        (("--side", 6, "--resize", 4), "`resize` must be 6 or more"),
        (("--dtype", "float16"), "`dtype` must be left out for pictures, which are bytes"),
    ],
)
def test_options_that_do_not_go_together(
    files: Path, capsys: pytest.CaptureFixture[str], options: tuple[object, ...], message: str
) -> None:
    assert prepare(files, *options) == 2
    assert message in capsys.readouterr().err
    assert not (files / "out").exists()


def test_a_side_without_pictures_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "captions", str(files / "k.json"), str(files / "out"), "--side", "6"]) == 2
    assert "`side` must be left out without --images" in capsys.readouterr().err


@given(order=st.permutations(range(130)), count=st.integers(0, 130))
def test_blocks_are_the_rows_in_their_order(order: list[int], count: int) -> None:
    def read(files: list[Path]) -> Tensor:
        return torch.stack([torch.full((3, 2, 2), int(file.stem), dtype=torch.uint8) for file in files])

    source = Pictures({number: Path(f"{number}.png") for number in range(130)}, 2, read)
    blocks = list(source.blocks(np.array(order[:count], dtype=np.int64)))
    assert [int(picture[0, 0, 0]) for block in blocks for picture in block] == order[:count]


def test_only_bytes_of_three_colours_are_pictures() -> None:
    assert FeatureStore([1, 2], np.zeros((2, 3, 4, 4), dtype=np.uint8)).pictures
    assert not FeatureStore([1, 2], np.zeros((2, 3, 4), dtype=np.uint8)).pictures
    for shape, dtype in (((2, 3, 4, 4), np.float32), ((2, 4, 4, 3), np.uint8), ((2, 3, 4, 5), np.uint8)):
        with pytest.raises(ValueError, match=r"`features` must be of shape .* or pictures \(N, 3, S, S\) of bytes"):
            FeatureStore([1, 2], np.zeros(shape, dtype=dtype))


@pytest.mark.parametrize("resident", [False, True])
def test_a_batch_has_a_picture_once_for_all_its_captions(tmp_path: Path, resident: bool) -> None:
    corpus = captions(tmp_path / "c", side=4, train=7, vectors=None)
    batches = corpus.batches("train", 12, captions_per_image=3, resident=resident)
    seen = set()
    for batch in batches:
        (pictures,) = batch.inputs
        assert (pictures.shape, pictures.dtype) == ((4, 3, 4, 4), torch.uint8)
        assert batch.items is not None
        items = batch.items.view(4, 3)
        assert (items == items[:, :1]).all()
        real = items[:, 0] >= 0
        assert torch.equal(pictures[real], corpus.inputs("train", items[real, 0])[0])
        seen |= set(items[real, 0].tolist())
        assert ((pictures.shape,), batch.targets.shape[1]) in [
            (tuple(map(torch.Size, inputs)), width) for inputs, width in batches.shapes()
        ]
    assert seen == set(range(7))
    (alone,) = next(iter(corpus.batches("train", 5, resident=resident))).inputs
    assert alone.shape == (5, 3, 4, 4)
    parts = [next(iter(corpus.batches("train", 12, captions_per_image=3, rank=rank, world=2))) for rank in (0, 1)]
    assert all(part.inputs[0].shape[0] * 3 == part.targets.shape[0] == 6 for part in parts)


def test_the_pictures_of_flickr8k(tmp_path: Path) -> None:
    beside = Path(__file__).resolve().parents[3] / "data"
    folder = Path(os.environ.get("SEQSMOOTH_DATA", beside)) / "flickr8k"
    if not (folder / "images").is_dir():
        pytest.skip("no pictures: set SEQSMOOTH_DATA to the folder that holds flickr8k/images")
    words = ["prepare", "captions", folder / "dataset.json", tmp_path / "out", "--images", folder / "images"]
    assert main([*map(str, words), "--side", "32", "--missing", "drop"]) == 0
    corpus = open_corpus(tmp_path / "out")
    assert corpus.splits == {"train": 480, "val": 60, "test": 60}
    held = {image["imgid"]: image["filename"] for image in json.loads((folder / "dataset.json").read_text())["images"]}
    (seen,) = corpus.inputs("test", [0, 59])
    for row, picture in zip((0, 59), seen, strict=True):
        assert torch.equal(picture, read_image(folder / "images" / held[corpus.ids("test")[row]], 32))
