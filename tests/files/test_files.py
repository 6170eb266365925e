"""Files that are there whole or not at all, and how they are found."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.files.locks import try_lock
from seqsmooth.files.paths import check_destination, files_below, inner_path


def test_where_nothing_can_be_written_the_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file, not a folder")  # where nothing can be removed either
    rule = "must be a file that can be written; it is not: Not a directory"
    with pytest.raises(ValueError, match=rule), atomic_write_text(tmp_path / "file" / "x.json") as file:
        file.write("x")


def test_folders_behind_links_are_searched_once(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    for name in ("b.json", "a.json", "a.txt", "deep/c.json"):
        (tmp_path / "elsewhere" / name).touch()
    (tmp_path / "here").mkdir()
    for name, to in (("link", "elsewhere"), ("again", "elsewhere"), ("loop", "here")):
        (tmp_path / "here" / name).symlink_to(tmp_path / to)
    found = files_below(tmp_path / "here", "*.json")
    assert [path.relative_to(tmp_path / "here") for path in found] == [
        Path("again", name) for name in ("a.json", "b.json", "deep/c.json")
    ]
    assert files_below(tmp_path / "nowhere", "*.json") == []


@pytest.mark.parametrize("value", ["..", "a/../../b", "/a", "", " ", "."])
def test_a_path_that_leads_elsewhere_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"`name` must be a relative path without \.\."):
        inner_path("name", value)


@pytest.mark.parametrize("value", ["a", "a/b=0.1,c..d/e f", "größe", "..a/b.."])
def test_a_path_that_stays_is_kept(value: str) -> None:
    assert str(inner_path("name", value)) == value


def test_where_there_are_no_locks_nobody_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "x").open("wb") as one, (tmp_path / "x").open("wb") as other:
        assert try_lock(one)
        assert not try_lock(other)

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)
        assert try_lock(other)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "real.md").write_text("before")
    (tmp_path / "page.md").symlink_to(tmp_path / "disk" / "real.md")
    with atomic_write_text(tmp_path / "page.md") as file:
        file.write("after")
    assert (tmp_path / "page.md").is_symlink()
    assert (tmp_path / "disk" / "real.md").read_text() == "after"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["disk", "page.md", "real.md"]


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="`out` must be a file on a disk"):
        check_destination("out", tmp_path / "pipe")
    assert check_destination("out", tmp_path / "new") == tmp_path / "new"
