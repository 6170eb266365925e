"""Paths of ours on the CPU: each contestant runs under its own, and ratios are of the same round."""

from __future__ import annotations

import itertools
import os
import time

import pytest
import torch

from benchmarks import harness, loss, paths
from benchmarks.clock import Clock, Lap, Step
from benchmarks.harness import Call, Contest, Contestant
from benchmarks.records import Spread
from benchmarks.shapes import SHAPES
from seqsmooth.ops import dispatch

CPU = torch.device("cpu")


def test_a_call_runs_on_its_path_and_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)
    seen: list[str | None] = []

    def bind(given: int) -> Call:
        seen.append(os.environ.get(dispatch.VARIABLE))

        def step() -> tuple[torch.Tensor, ...]:
            seen.append(os.environ.get(dispatch.VARIABLE))
            return ()

        return Call(step)

    both = paths.along([Contestant("Tok", True, bind, against="MLE")], ("torch", "native"))
    assert [(one.name, one.against, one.alias) for one in both] == [
        ("Tok (torch)", "MLE (torch)", "Tok"),
        ("Tok (native)", "MLE (native)", "Tok"),
    ]
    for one in both:
        one.bind(0).step()
        assert os.environ.get(dispatch.VARIABLE) is None
    assert seen == ["torch", "torch", "native", "native"]
    monkeypatch.setenv(dispatch.VARIABLE, "auto")
    with paths.taken("torch"):
        assert os.environ[dispatch.VARIABLE] == "torch"
    assert os.environ[dispatch.VARIABLE] == "auto"


def test_plain_torch_is_always_a_path() -> None:
    assert paths.available()[0] == "torch"
    assert paths.check(["torch", "torch"]) == ("torch",)


def test_a_path_that_cannot_be_taken_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "why_not", lambda path: "no compiler was there" if path == "native" else None)
    assert paths.available() == ("torch",)
    with pytest.raises(ValueError, match=r"one that this installation can take \(no compiler was there\)"):
        paths.check(["native"])


class Scripted(Clock):
    """A clock of the host that every call takes longer on: what is alike in a round shows in ratios only."""

    def __init__(self) -> None:
        super().__init__(CPU)
        self.count = itertools.count()

    def lap(self, step: Step) -> Lap:
        step()
        slower = 2.0 ** (next(self.count) // 2)  # two contestants a round: each round takes twice as long
        took = slower * float(step.__defaults__[0])  # type: ignore[attr-defined]
        return Lap({"cpu": took, "wall": 2 * took}, took / 4)

    def extra_bytes(self, step: Step) -> None:
        return None


def test_ratios_are_of_the_same_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_ROUNDS", 6)

    def contestant(name: str, cost: float) -> Contestant[int]:
        def step(cost: float = cost) -> tuple[torch.Tensor, ...]:
            return ()

        return Contestant(name, True, lambda given: Call(step), against="base")

    rows = Contest(Scripted(), 60.0).rows([contestant("base", 1.0), contestant("one", 3.0)], [0], peer="base")
    exactly_three = Spread(3.0, 3.0, 3.0, 6)
    assert rows[1].over_ours == rows[1].over_peer == {"cpu": exactly_three, "wall": exactly_three}
    assert rows[1].system_share == pytest.approx(0.25)
    assert rows[0].cpu is not None
    assert rows[0].cpu.width > 1
    assert rows[0].over_peer["cpu"].median == 1.0


def test_cpu_time_is_that_of_work_and_not_of_sleep() -> None:
    lap = Clock(CPU).lap(lambda: time.sleep(0.05))
    assert lap.times["wall"] >= 50
    assert lap.times["cpu"] < 25

    def work() -> None:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass

    assert Clock(CPU).lap(work).times["cpu"] >= 50


def test_on_the_cpu_ours_take_part_on_each_path_beside_the_unit() -> None:
    contest = Contest(Clock(CPU), 1e-9, only="^Tok top-64$", quick=True, paths=("torch",), threads=1)
    made = loss.table(SHAPES["tiny"], torch.float32, contest)
    assert [row.name for row in made.rows] == ["MLE (torch)", "Tok top-64 (torch)", loss.PEER]
    assert made.shape["threads"] == 1
    assert ", 1 thread:" in made.title
    assert all(row.over_peer["cpu"].median > 0 for row in made.rows)
    assert made.rows[1].over_ours["wall"].repeats == harness.LEAST_ROUNDS
