"""Nearest tokens on disk: found again, never wrong, and nothing depends on them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.ops.similarity import SimilarityTable
from seqsmooth.smoothing.token_matrix import find_nearest
from seqsmooth.training import neighbours
from seqsmooth.training.neighbours import cache_folder, cached_nearest

V = 40
UNITS = F.normalize(torch.randn(V, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
COUNTS = torch.arange(1.0, V + 1)


def law(**changes: object) -> SimilarityTable:
    return SimilarityTable(**{"units": UNITS, "known": torch.arange(V) > 1, "tau": 0.3} | changes)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEQSMOOTH_CACHE", str(tmp_path / "new" / "cache"))
    monkeypatch.setattr(neighbours, "LEAST_VOCABULARY", V)
    return tmp_path / "new" / "cache"


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each time that the nearest were computed."""
    times: list[int] = []

    def counted(given: SimilarityTable, k: int) -> tuple[Tensor, Tensor]:
        times.append(k)
        return find_nearest(given, k)

    monkeypatch.setattr(neighbours, "find_nearest", counted)
    return times


def assert_right(found: tuple[Tensor, Tensor], given: SimilarityTable, k: int) -> None:
    for one, other in zip(found, find_nearest(given, k), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_found_again(folder: Path, computed: list[int]) -> None:
    for _ in range(3):
        assert_right(cached_nearest(law(), 4), law(), 4)
    assert computed == [4]
    assert len(list(folder.iterdir())) == 1


OTHERS: dict[str, tuple[SimilarityTable, int]] = {
    "k": (law(), 5),
    "tau": (law(tau=0.30000001), 4),
    "vectors": (law(units=UNITS.flip(0)), 4),
    "one bit": (law(units=torch.nextafter(UNITS, torch.tensor(2.0))), 4),
    "type": (law(units=UNITS.double()), 4),
    "known": (law(known=torch.arange(V) > 2), 4),
    "beta": (law(beta=0.1, counts=COUNTS), 4),
    "counts": (law(beta=0.1, counts=COUNTS.flip(0)), 4),
}


def test_another_law_is_another_file(folder: Path, computed: list[int]) -> None:
    cached_nearest(law(), 4)
    for given, k in OTHERS.values():
        assert_right(cached_nearest(given, k), given, k)
    assert len(computed) == 1 + len(OTHERS) == len(list(folder.iterdir()))
    for given, k in OTHERS.values():
        assert_right(cached_nearest(given, k), given, k)
    assert len(computed) == 1 + len(OTHERS)


def test_counts_that_do_nothing_are_no_other_law(folder: Path, computed: list[int]) -> None:
    cached_nearest(law(), 4)
    cached_nearest(law(counts=COUNTS), 4)
    assert computed == [4]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def rewrite(path: Path, **tensors: Tensor) -> None:
    """With its own checksum in the metadata, and other numbers."""
    header = json.loads(path.read_bytes()[8:].split(b"}}", 1)[0].decode() + "}}")["__metadata__"]
    save_file(load_file(path) | tensors, path, header)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": cut,
    "empty": lambda path: path.write_bytes(b""),
    "a bit": flip_a_bit,
    "text": lambda path: path.write_text("nothing of the kind"),
    "other ids": lambda path: rewrite(path, ids=torch.full((V, 4), V, dtype=torch.int32)),
    "other shape": lambda path: rewrite(path, weights=torch.ones(V, 3)),
    "no metadata": lambda path: save_file(load_file(path), path),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_made_anew(
    damage: str, folder: Path, computed: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    cached_nearest(law(), 4)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    DAMAGE[damage](path)
    assert_right(cached_nearest(law(), 4), law(), 4)
    assert capsys.readouterr().err == f"{path} is damaged: the nearest tokens are computed again.\n"
    assert computed == [4, 4]
    assert path.read_bytes() == whole
    cached_nearest(law(), 4)
    assert computed == [4, 4]


def test_a_file_of_another_law_under_this_name_is_no_good(folder: Path) -> None:
    other = law(tau=0.9)
    cached_nearest(law(), 4)
    (path,) = folder.iterdir()
    cached_nearest(other, 4)
    next(file for file in folder.iterdir() if file != path).replace(path)
    assert_right(cached_nearest(law(), 4), law(), 4)


def test_none_where_it_cannot_be_written(tmp_path: Path, folder: Path, computed: list[int]) -> None:
    folder.parent.mkdir()
    folder.write_text("a file where the folder should be")
    for _ in range(2):
        assert_right(cached_nearest(law(), 4), law(), 4)
    assert computed == [4, 4]


def test_none_for_a_small_vocabulary_or_if_switched_off(
    folder: Path, computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LEAST_VOCABULARY", V + 1)
    cached_nearest(law(), 4)
    monkeypatch.setattr(neighbours, "LEAST_VOCABULARY", V)
    monkeypatch.setenv("SEQSMOOTH_CACHE", "")
    cached_nearest(law(), 4)
    assert computed == [4, 4]
    assert not folder.exists()


def test_the_file_not_read_for_longest_makes_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taus = [0.1, 0.2, 0.3, 0.4]
    for place, tau in enumerate(taus[:3]):
        before = set(folder.iterdir()) if folder.exists() else set()
        cached_nearest(law(tau=tau), 4)
        (new,) = set(folder.iterdir()) - before
        os.utime(new, (1000 + place, 1000 + place))
        if place == 0:
            first = new
        if place == 1:
            second = new
    cached_nearest(law(tau=0.1), 4)  # read again
    assert first.stat().st_mtime > 2000
    stranger = folder / "mine.txt"
    stranger.write_text("not ours")
    monkeypatch.setattr(neighbours, "MOST_BYTES", 3 * first.stat().st_size)
    cached_nearest(law(tau=0.4), 4)
    assert stranger.exists()
    assert first.exists()
    assert not second.exists()
    assert len(list(folder.glob("neighbours-*"))) == 3
    monkeypatch.setattr(neighbours, "MOST_BYTES", 0)
    cached_nearest(law(tau=0.5), 4)
    assert len(list(folder.glob("neighbours-*"))) == 1


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SEQSMOOTH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "seqsmooth"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "seqsmooth"
    monkeypatch.setenv("SEQSMOOTH_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


def test_the_targets_are_the_same(folder: Path, computed: list[int]) -> None:
    def target(nearest: Callable[[SimilarityTable, int], tuple[Tensor, Tensor]]) -> Tensor:
        token = ss.Similarity(UNITS, 0.3, mode="top-k", k=4, alpha=0.6)
        token.nearest = nearest
        objective = ss.Objective(token=token, specials=ss.Specials(pad=0))
        return objective.propose(torch.arange(V).view(4, 10)).target.dense(V)

    expected = target(find_nearest)
    for _ in range(2):
        assert torch.equal(target(cached_nearest), expected)
    assert computed == [4]
