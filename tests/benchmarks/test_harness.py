from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from torch import Tensor

from benchmarks import harness
from benchmarks.clock import Clock, Lap, Step
from benchmarks.harness import Call, Contest, Contestant, again, describe_failure, relative_error

CPU = torch.device("cpu")


class Counting(Clock):
    """A clock that knows graphs: a replay is the call itself, and every time is the number of the call."""

    captures = True

    def __init__(self) -> None:
        super().__init__(CPU)
        self.calls = itertools.count(1)
        self.modes: list[str] = []

    def lap(self, step: Step) -> Lap:
        self.modes.append("eager")
        step()
        return Lap({"eager": float(next(self.calls))})

    def capture(self, step: Step) -> Step:
        step()
        return step

    def replay(self, replay: Step) -> float:
        self.modes.append("graph")
        replay()
        return float(next(self.calls))

    def extra_bytes(self, step: Step) -> int:
        step()
        return 77


def recorder(name: str, log: list[tuple[str, int]], value: float = 1.0) -> Contestant[int]:
    def bind(given: int) -> Call:
        def step() -> tuple[Tensor, ...]:
            log.append((name, given))
            return (torch.tensor(value),)

        return Call(step, lambda: (torch.tensor(1.0, dtype=torch.float64),))

    return Contestant(name, True, bind)


def test_every_round_calls_everyone_once_in_each_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_ROUNDS", 8)
    log: list[tuple[str, int]] = []
    clock = Counting()
    names = ["one", "two", "three"]
    rows = Contest(clock, 60.0).rows([recorder(name, log) for name in names], [0, 1])
    timed = log[-9 * 2 * 3 :]  # the warm-up round and eight others
    orders = set()
    for start in range(0, len(timed), 3):
        group = [name for name, _ in timed[start : start + 3]]
        assert sorted(group) == sorted(names)
        orders.add(tuple(group))
    assert len(orders) > 2, "the order never changes"
    assert all(row.eager and row.eager.repeats == 8 and row.graph and row.graph.repeats == 8 for row in rows)
    assert all(row.extra_bytes == 77 for row in rows)
    assert clock.modes[-6:] == ["eager"] * 3 + ["graph"] * 3


def test_neighbours_never_have_the_same_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_ROUNDS", 30)
    log: list[tuple[str, int]] = []
    Contest(Counting(), 60.0).rows([recorder(name, log) for name in "abcd"], [0, 1, 2])
    timed = log[-31 * 2 * 4 :]
    assert all(one[1] != other[1] for one, other in itertools.pairwise(timed))
    used = Counter(timed)
    assert len(used) == 4 * 3, "somebody never saw some of the inputs"


def test_the_first_round_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_ROUNDS", 1)
    clock = Counting()
    (row,) = Contest(clock, 60.0).rows([recorder("one", [])], [0])
    # Three warm-up replays, then eager and graph of the round that is not counted, then the one that is.
    assert row.eager is not None
    assert row.graph is not None
    assert (row.eager.median, row.graph.median) == (6.0, 7.0)


def test_time_is_kept_but_five_rounds_are_always_timed() -> None:
    (row,) = Contest(Clock(CPU), 1e-9).rows([recorder("one", [])], [0])
    assert row.cpu is not None
    assert row.wall is not None
    assert row.cpu.repeats == row.wall.repeats == harness.LEAST_ROUNDS
    assert row.eager is row.graph is None


def test_the_error_is_measured() -> None:
    rows = Contest(Clock(CPU), 1e-9).rows([recorder("good", []), recorder("bad", [], 1.25)], [0], 0, ("loss",))
    assert [row.errors["loss"] for row in rows] == [0.0, 0.25]


def in_two(measured: list[str]) -> list[Contestant[int]]:
    """One of ours and a peer; each says when it is compared with float64."""

    def bind(name: str) -> Contestant[int]:
        def exact() -> tuple[Tensor, ...]:
            measured.append(name)
            return (torch.tensor(1.0, dtype=torch.float64),)

        return Contestant(name, name == "ours", lambda given: Call(lambda: (torch.tensor(1.0),), exact))

    return [bind("ours"), bind("theirs")]


@pytest.mark.parametrize(
    ("contest", "expected"),
    [
        (Contest(Counting(), 60.0), ["ours", "theirs"]),
        (Contest(Counting(), 60.0, quick=True), ["ours"]),
        (Contest(Counting(), 1e-9), ["ours"]),  # the time is over
    ],
)
def test_peers_go_without_memory_and_errors_where_time_is_short(
    contest: Contest, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "MOST_ROUNDS", 1)
    measured: list[str] = []
    rows = contest.rows(in_two(measured), [0], 0, ("loss",))
    assert measured == expected
    assert [row.name for row in rows if row.extra_bytes == 77] == expected
    assert all(row.eager and row.graph for row in rows)


def test_relative_error_is_the_largest_difference_over_the_largest_value() -> None:
    expected = torch.tensor([4.0, -8.0], dtype=torch.float64)
    assert relative_error(torch.tensor([4.0, -6.0]), expected) == 0.25
    assert relative_error(torch.tensor([0.5]), torch.zeros(1, dtype=torch.float64)) == 0.5
    with pytest.raises(ValueError, match="finite"):
        relative_error(torch.tensor([float("nan"), 0.0]), expected)
    with pytest.raises(ValueError, match="of shape"):
        relative_error(torch.zeros(3), expected)


def test_a_contestant_that_fails_does_not_stop_the_others() -> None:
    def broken(given: int) -> Call:
        raise ImportError("no such package in /opt/somewhere/lib")

    rows = Contest(Clock(CPU), 1e-9).rows([Contestant("broken", False, broken), recorder("fine", [])], [0])
    assert rows[0].failures == {"call": "ImportError: no such package in lib"}
    assert rows[0].best() is None
    assert rows[1].best() is not None


def test_a_call_that_cannot_be_captured_is_still_timed_eagerly() -> None:
    class Stubborn(Counting):
        def capture(self, step: Step) -> Step:
            raise RuntimeError("called a synchronizing CUDA operation")

    (row,) = Contest(Stubborn(), 1e-9).rows([recorder("one", [])], [0])
    assert row.failures == {"graph": "it waits for the GPU"}
    assert row.eager is not None
    assert row.graph is None


def test_what_a_call_destroys_is_restored_before_the_next() -> None:
    held = torch.ones(3)
    seen: list[float] = []

    def bind(given: int) -> Call:
        def step() -> tuple[Tensor, ...]:
            seen.append(float(held.sum()))
            held.zero_()
            return (held,)

        return Call(step, restore=lambda: held.fill_(1.0) and None)

    Contest(Counting(), 1e-9).rows([Contestant("destroyer", False, bind)], [0])
    # Capturing calls twice without a pause: once for the graph here, restored after.
    assert set(seen) == {3.0}
    assert float(held.sum()) == 3.0


def test_a_contestant_may_capture_in_its_own_way() -> None:
    replayed: list[int] = []
    call = Call(lambda: (), capture=lambda: lambda: replayed.append(1))
    (row,) = Contest(Counting(), 1e-9).rows([Contestant("one", True, lambda given: call)], [0])
    assert row.graph is not None
    assert len(replayed) == harness.WARM_UPS + 1 + row.graph.repeats


def test_one_on_the_host_is_not_captured() -> None:
    contestant = Contestant("one", False, lambda given: Call(lambda: ()), on_host=True, items=3)
    (row,) = Contest(Counting(), 1e-9).rows([contestant], [0])
    assert (row.graph, row.extra_bytes, row.items, row.failures) == (None, None, 3, {})
    assert row.eager is not None


def test_only_chooses_by_name_and_keeps_what_is_compared_with() -> None:
    listed = [Contestant(name, True, lambda given: Call(lambda: ()), against="MLE") for name in ("MLE", "Tok", "Seq")]
    chosen = Contest(Clock(CPU), 1.0, only="tok").choose(listed)
    assert [contestant.name for contestant in chosen] == ["MLE", "Tok"]
    with pytest.raises(ValueError, match="`only` must be found in one of 'MLE', 'Tok', 'Seq'"):
        Contest(Clock(CPU), 1.0, only="liger").choose(listed)
    with pytest.raises(ValueError, match="regular expression"):
        Contest(Clock(CPU), 1.0, only="(").choose(listed)


def test_one_takes_part_twice() -> None:
    listed = [recorder("MLE", []), recorder("Tok", [])]
    twice = again(listed, "MLE")
    assert [contestant.name for contestant in twice] == ["MLE", "Tok", "MLE, timed again"]
    assert twice[-1].bind is listed[0].bind


def test_ours_are_prepared_first() -> None:
    peer = Contestant("peer", False, lambda given: Call(lambda: ()))
    names = [contestant.name for contestant in again([peer, recorder("MLE", [])], "MLE")]
    assert names == ["MLE", "MLE, timed again", "peer"]


def test_the_reason_of_a_failed_capture_is_what_went_wrong_inside() -> None:
    def fail() -> None:
        try:
            raise RuntimeError("an operation that is not allowed")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(RuntimeError) as raised:
        fail()
    assert describe_failure(raised.value) == "RuntimeError: an operation that is not allowed"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError(""), "RuntimeError"),
        (ValueError("one\ntwo"), "ValueError: one"),
        (RuntimeError("x" * 500), "RuntimeError: " + "x" * 146),
    ],
)
def test_errors_are_told_in_one_short_line(error: Exception, text: str) -> None:
    assert describe_failure(error) == text


def test_the_clock_of_the_host_takes_what_the_call_takes() -> None:
    import time

    took = Clock(CPU).eager(lambda: time.sleep(0.02))
    assert 20 <= took < 500
