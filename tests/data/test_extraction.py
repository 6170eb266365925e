from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from seqsmooth.data.extraction import extract, picture_files

FILES: dict[int | str, Path] = {f"p{number}": Path(f"{number}.png") for number in range(23)}


def read(files: Sequence[Path]) -> Tensor:
    return torch.tensor([[float(file.stem)] for file in files])


class Encoder:
    """Breaks down after some batches, as machines do."""

    def __init__(self, batches: int | None = None) -> None:
        self.batches = batches
        self.seen: list[float] = []

    def __call__(self, pictures: Tensor) -> Tensor:
        if self.batches == 0:
            raise RuntimeError("the lights went out")
        self.batches = None if self.batches is None else self.batches - 1
        self.seen += pictures[:, 0].tolist()
        return torch.cat([pictures, 2 * pictures], 1)


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the lights went out"):
        extract(FILES, Encoder(3), tmp_path / "f", read=read, name="e", batch_size=4)
    with (tmp_path / "f.npy.part").open("ab") as file:
        file.write(b"\0\0\0")  # half a row more
    assert not (tmp_path / "f.npy").exists()
    again = Encoder()
    seen: list[tuple[int, int]] = []
    store = extract(
        FILES, again, tmp_path / "f", read=read, name="e", batch_size=4, progress=lambda *now: seen.append(now)
    )
    assert again.seen == [float(number) for number in range(12, 23)]
    assert seen[-1] == (23, 23)
    assert list(store.ids) == list(FILES)
    assert store.array.dtype == np.float16
    assert store.array.tolist() == [[number, 2 * number] for number in range(23)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.json", "f.npy"]
    with pytest.raises(ValueError, match="`features` must be files that are not there yet"):
        extract(FILES, again, tmp_path / "f", read=read, name="e")


def test_killed_between_the_two_files(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        extract(FILES, Encoder(3), tmp_path / "f", read=read, name="e", batch_size=4)
    (tmp_path / "f.npy.part").replace(tmp_path / "f.npy")
    assert len(extract(FILES, Encoder(), tmp_path / "f", read=read, name="e")) == 23


def test_features_are_on_the_disk_before_the_index_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[int, bool]] = []
    keep = os.fsync

    def noted(descriptor: int) -> None:
        kept.append((os.fstat(descriptor).st_size, (tmp_path / "f.json").exists()))
        keep(descriptor)

    monkeypatch.setattr("os.fsync", noted)
    extract(FILES, Encoder(), tmp_path / "f", read=read, name="e")
    assert ((tmp_path / "f.npy").stat().st_size, False) in kept


def test_what_another_encoder_left_is_not_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        extract(FILES, Encoder(1), tmp_path / "f", read=read, name="e", batch_size=4)
    with pytest.raises(ValueError, match=r"of the same encoder as now, 'other' \(or deleted\); it is of 'e'"):
        extract(FILES, Encoder(), tmp_path / "f", read=read, name="other")
    with pytest.raises(ValueError, match="of the same ids as now"):
        extract({"x": Path("1.png")}, Encoder(), tmp_path / "f", read=read, name="e")


def test_an_encoder_that_gives_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`encoder` must be features of shape \(4, F\) or \(4, R, D\)"):
        extract(FILES, lambda pictures: pictures[0], tmp_path / "f", read=read, name="e", batch_size=4)


def test_pictures_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/1.JPG", "2.png", "notes.txt"):
        (tmp_path / name).touch()
    assert set(picture_files(tmp_path)) == {"1", "2"}
    (tmp_path / "2.jpg").touch()
    with pytest.raises(ValueError, match="`images` must be pictures of different names"):
        picture_files(tmp_path)
    (tmp_path / "b").mkdir()
    with pytest.raises(ValueError, match="`images` must be a folder with pictures"):
        picture_files(tmp_path / "b")
