from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqsmooth.decoding import Hypothesis, HypothesisFile, load_hypotheses

IDS: list[int | str] = [30, 10, "b/2", 20]
SETTINGS = {"width": 3, "length": "mean"}


def made(name: int | str) -> list[Hypothesis]:
    seed = len(str(name)) + IDS.index(name)
    return [Hypothesis(tuple(range(seed + n)), -0.1 * seed - n, (-0.1 * seed - n) / 3, n == 0) for n in range(2)]


def write(path: Path, *, count: int = 4, settings: dict[str, object] = SETTINGS) -> int:
    """Add up to `count` of the remaining items, the last first; how many there were."""
    with HypothesisFile(path, IDS, settings, text=lambda tokens: " ".join(f"é{t}" for t in tokens)) as file:
        left = file.remaining
        for name in left[::-1][:count]:
            file.add(name, made(name))
    return len(left)


def write_and_fail(file: HypothesisFile) -> None:
    file.add(30, made(30))
    raise ZeroDivisionError


def test_what_is_written_is_read_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    assert write(path) == 4
    assert load_hypotheses(path) == [(name, made(name)) for name in IDS]
    assert [entry.name for entry in tmp_path.iterdir()] == ["captions.jsonl"]
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[1]["hypotheses"][0]["text"] == "é0 é1 é2"
    assert set(lines[1]["hypotheses"][0]) == {"text", "tokens", "log_prob", "score", "finished"}


def test_a_file_that_is_there_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    path.write_text("mine")
    with pytest.raises(
        ValueError, match=r"`path` must be a file that is not there yet; it is .*captions.jsonl, which is"
    ):
        write(path)
    assert path.read_text() == "mine"
    path.unlink()
    file = HypothesisFile(path, [1])
    file.__enter__()
    file.add(1, [])
    path.write_text("faster")
    with pytest.raises(ValueError, match="`path` must be a file that is not there yet"):
        file.__exit__(None, None, None)
    assert path.read_text() == "faster"
    assert file.partial.is_file()  # nothing is lost


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    for left in (4, 3, 2, 1):
        assert not path.exists()
        assert write(path, count=1) == left
    assert load_hypotheses(path) == [(name, made(name)) for name in IDS]


def test_what_is_in_memory_is_what_is_in_the_file_also_after_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    write(path, count=2)
    with HypothesisFile(path, IDS, SETTINGS, text=lambda tokens: " ".join(f"é{t}" for t in tokens)) as file:
        for name in reversed(file.remaining):
            file.add(name, made(name))
    assert list(file.hypotheses.items()) == load_hypotheses(path)


def test_an_exception_keeps_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    with pytest.raises(ZeroDivisionError), HypothesisFile(path, IDS, SETTINGS) as file:
        write_and_fail(file)
    assert not path.exists()
    assert write(path) == 3


def test_cut_off_anywhere(tmp_path: Path) -> None:
    """Whatever part of the partial file a killed process left, the result is the same."""
    whole, path = tmp_path / "whole.jsonl", tmp_path / "captions.jsonl"
    write(whole)
    write(path, count=3)
    partial = path.with_name("captions.jsonl.partial")
    held = partial.read_bytes()
    ends = [place for place, byte in enumerate(held) if byte == ord("\n")]
    for size in range(len(held)):
        partial.write_bytes(held[:size])
        assert write(path) == 4 - max(sum(end < size for end in ends) - 1, 0)
        assert path.read_bytes() == whole.read_bytes()
        assert not partial.exists()
        path.unlink()


def test_a_partial_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    write(path, count=2)
    partial = path.with_name("captions.jsonl.partial")
    held = partial.read_bytes()
    with pytest.raises(
        ValueError, match="`partial` must be one that goes with the same ids and settings, or is removed"
    ):
        write(path, settings={"width": 5})
    with (
        pytest.raises(ValueError, match=r"`partial` must be .*; it is .* of another run."),
        HypothesisFile(path, [1, 2, 3, 4], SETTINGS),
    ):
        pass
    assert partial.read_bytes() == held
    for damage in (held.replace(b"tokens", b"tokans"), b"hello\n" + held, held + held.split(b"\n", 1)[1], b"\xff\n"):
        partial.write_bytes(damage)
        with pytest.raises(ValueError, match="`partial` must be one that goes with the same ids and settings"):
            write(path)
        assert partial.read_bytes() == damage
    assert not path.exists()


def test_two_writers(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "captions.jsonl"
    with HypothesisFile(path, IDS, SETTINGS) as file:
        file.add(30, made(30))
        with pytest.raises(ValueError, match="`partial` must be written by one process"):
            write(path)
        for name in file.remaining:
            file.add(name, made(name))
    assert [name for name, _ in load_hypotheses(path)] == IDS


def test_nobody_comes_between_the_last_item_and_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else two processes would finish one file, and the slower one would say that it must not be there."""
    pytest.importorskip("fcntl")
    path = tmp_path / "captions.jsonl"
    link = os.link

    def meet(*names: Path) -> None:
        with pytest.raises(ValueError, match="`partial` must be written by one process"):
            write(path)
        link(*names)

    monkeypatch.setattr("os.link", meet)
    write(path)
    assert [name for name, _ in load_hypotheses(path)] == IDS
    assert [left.name for left in tmp_path.iterdir()] == [path.name]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: Path) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", refuse)
    write(tmp_path / "captions.jsonl")
    assert [entry.name for entry in tmp_path.iterdir()] == ["captions.jsonl"]
    assert len(load_hypotheses(tmp_path / "captions.jsonl")) == 4


@pytest.mark.parametrize("ids", [np.array([391895, 60623]), torch.tensor([391895, 60623])], ids=["numpy", "torch"])
def test_ids_may_be_of_an_array(tmp_path: Path, ids: Any) -> None:
    with HypothesisFile(tmp_path / "captions.jsonl", ids) as file:
        for name in ids:
            file.add(name, [])
    assert [name for name, _ in load_hypotheses(tmp_path / "captions.jsonl")] == [391895, 60623]


@pytest.mark.parametrize(("name", "told"), [(1.5, "a float"), (None, "None"), ([1], "a list")])
def test_other_ids_are_refused_at_once(tmp_path: Path, name: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"`ids` must be whole numbers or texts; it is {told}."):
        HypothesisFile(tmp_path / "captions.jsonl", [7, name])


def test_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    with pytest.raises(ValueError, match="`ids` must be different from each other; it is 1 times"):
        HypothesisFile(path, [1, 2, 1])
    with pytest.raises(ValueError, match="`path` must be in a folder that is there"):
        HypothesisFile(tmp_path / "no" / "captions.jsonl", [1])
    file = HypothesisFile(path, [1, 2])
    with pytest.raises(ValueError, match="`file` must be open"):
        file.add(1, [])
    with file:
        file.add(1, [])
        for name in (1, 3):
            with pytest.raises(ValueError, match=f"`name` must be one of `remaining`; it is {name}."):
                file.add(name, [])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        '{"id": 1}',
        '{"id": 1, "hypotheses": [{"tokens": [1]}]}',
        '{"id": [1], "hypotheses": []}',
        '{"id": 1, "hyp',
        '{"id": 1, "hypotheses": [{"tokens": [1], "log_prob": NaN, "score": NaN, "finished": true}]}',
    ],
)
def test_a_damaged_file(tmp_path: Path, line: str) -> None:
    path = tmp_path / "captions.jsonl"
    write(path)
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"; line 5 of .*captions.jsonl is damaged or something else\."):
        load_hypotheses(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`path` must be a file that can be read"):
        load_hypotheses(tmp_path / "no.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b"\xe9\n")
    with pytest.raises(ValueError, match="`path` must be a file of UTF-8"):
        load_hypotheses(tmp_path / "latin.jsonl")
