"""Each check lets the right through and says its sentence about the rest."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from seqsmooth.ops import checks

IDS = torch.tensor([[1, 0], [2, 3]])

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "must": (lambda: checks.must(False, "x", "small", 9), "`x` must be small, but is 9 instead."),
    "positive: zero": (lambda: checks.positive("x", 0), "`x` must be greater than 0, but is 0 instead."),
    "positive: negative": (lambda: checks.positive("x", -1.5), "`x` must be greater than 0, but is -1.5 instead."),
    "positive: NaN": (lambda: checks.positive("x", math.nan), "`x` must be a number, but is nan instead."),
    "positive: bool": (lambda: checks.positive("x", True), "`x` must be a number, but is True instead."),
    "positive: word": (lambda: checks.positive("x", "1"), "`x` must be a number, but is '1' instead."),
    "positive: None": (lambda: checks.positive("x", None), "`x` must be a number, but is None instead."),
    "positive: complex": (lambda: checks.positive("x", 1j), "`x` must be a number, but is 1j instead."),
    "positive: tensor": (
        lambda: checks.positive("x", torch.tensor(1.0)),
        "`x` must be a number, but is tensor(1.) instead.",
    ),
    "non_negative: negative": (
        lambda: checks.non_negative("x", -1),
        "`x` must be a finite number, 0 or more, but is -1 instead.",
    ),
    "non_negative: infinite": (
        lambda: checks.non_negative("x", math.inf),
        "`x` must be a finite number, 0 or more, but is inf instead.",
    ),
    "non_negative: NaN": (lambda: checks.non_negative("x", math.nan), "`x` must be a number, but is nan instead."),
    "non_negative: bool": (lambda: checks.non_negative("x", False), "`x` must be a number, but is False instead."),
    "fraction: above": (lambda: checks.fraction("x", 1.5), "`x` must be between 0 and 1, but is 1.5 instead."),
    "fraction: below": (lambda: checks.fraction("x", -0.1), "`x` must be between 0 and 1, but is -0.1 instead."),
    "fraction: NaN": (lambda: checks.fraction("x", math.nan), "`x` must be a number, but is nan instead."),
    "fraction: bool": (lambda: checks.fraction("x", True), "`x` must be a number, but is True instead."),
    "at_least: fewer": (lambda: checks.at_least("x", 1, 2), "`x` must be 2 or more, but is 1 instead."),
    "at_least: float": (lambda: checks.at_least("x", 2.0, 2), "`x` must be a whole number, but is 2.0 instead."),
    "at_least: bool": (lambda: checks.at_least("x", True, 0), "`x` must be a whole number, but is True instead."),
    "at_least: None": (lambda: checks.at_least("x", None, 0), "`x` must be a whole number, but is None instead."),
    "whole: float": (lambda: checks.whole("x", 2.0), "`x` must be a whole number, but is 2.0 instead."),
    "whole: bool": (lambda: checks.whole("x", False), "`x` must be a whole number, but is False instead."),
    "flag: number": (lambda: checks.flag("x", 1), "`x` must be True or False, but is 1 instead."),
    "flag: word": (lambda: checks.flag("x", "no"), "`x` must be True or False, but is 'no' instead."),
    "flag: None": (lambda: checks.flag("x", None), "`x` must be True or False, but is None instead."),
    "device: another": (
        lambda: checks.device("x", IDS, torch.device("meta")),
        "`x` must be on meta, as the rest, but is on cpu instead.",
    ),
    "device: a way out": (
        lambda: checks.device("x", IDS, torch.device("meta"), " (move it)"),
        "`x` must be on meta, as the rest (move it), but is on cpu instead.",
    ),
    "one_of: another": (
        lambda: checks.one_of("x", "c", ("a", "b")),
        "`x` must be one of 'a', 'b', but is 'c' instead.",
    ),
    "one_of: no word": (lambda: checks.one_of("x", None, ("a",)), "`x` must be one of 'a', but is None instead."),
    "one_of: a list": (lambda: checks.one_of("x", ["a"], ("a",)), "`x` must be one of 'a', but is ['a'] instead."),
    "is_tensor: list": (lambda: checks.is_tensor("x", [1]), "`x` must be a torch.Tensor, but is a list instead."),
    "is_tensor: None": (lambda: checks.is_tensor("x", None), "`x` must be a torch.Tensor, but is None instead."),
    "shape: dimensions": (
        lambda: checks.shape("x", IDS, None, letters="(N,)"),
        "`x` must be of shape (N,), but is (2, 2) instead.",
    ),
    "shape: size": (
        lambda: checks.shape("x", IDS, None, 3, letters="(N, V)"),
        "`x` must be of shape (N, V) = (*, 3), but is (2, 2) instead.",
    ),
    "shape: scalar": (
        lambda: checks.shape("x", torch.tensor(1), None, None, letters="(N, V)"),
        "`x` must be of shape (N, V), but is () instead.",
    ),
    "shape: list": (
        lambda: checks.shape("x", [1], None, letters="(N,)"),
        "`x` must be a torch.Tensor, but is a list instead.",
    ),
    "integers: float": (
        lambda: checks.integers("x", torch.ones(1)),
        "`x` must be a tensor of whole numbers, but is torch.float32 instead.",
    ),
    "integers: bool": (
        lambda: checks.integers("x", torch.ones(1, dtype=torch.bool)),
        "`x` must be a tensor of whole numbers, but is torch.bool instead.",
    ),
    "integers: complex": (
        lambda: checks.integers("x", torch.ones(1, dtype=torch.complex64)),
        "`x` must be a tensor of whole numbers, but is torch.complex64 instead.",
    ),
    "integers: list": (lambda: checks.integers("x", [1]), "`x` must be a torch.Tensor, but is a list instead."),
    "floats: integers": (
        lambda: checks.floats("x", IDS),
        "`x` must be a floating-point tensor, but is torch.int64 instead.",
    ),
    "floats: complex": (
        lambda: checks.floats("x", torch.ones(1, dtype=torch.complex64)),
        "`x` must be a floating-point tensor, but is torch.complex64 instead.",
    ),
    "floats: number": (lambda: checks.floats("x", 1.0), "`x` must be a torch.Tensor, but is a float instead."),
    "ids_below: high": (
        lambda: checks.ids_below("x", IDS, 3),
        "`x` must be ids in [0, 3), but is 3 at its highest instead.",
    ),
    "ids_below: low": (
        lambda: checks.ids_below("x", IDS - 2, 3),
        "`x` must be ids in [0, 3), but is -2 at its lowest instead.",
    ),
    "ids_below: where": (
        lambda: checks.ids_below("x", IDS, 2, where=IDS != 3),
        "`x` must be ids in [0, 2), but is 2 at its highest instead.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_sentences(case: str) -> None:
    call, sentence = WRONG[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
        call()
    assert str(caught.value) == sentence


def test_numbers_come_back_as_floats() -> None:
    for check, value in [
        (checks.positive, 3),
        (checks.positive, math.inf),
        (checks.positive, 5e-324),
        (checks.non_negative, 0),
        (checks.non_negative, 1e308),
        (checks.fraction, 0),
        (checks.fraction, 1),
        (checks.fraction, 0.25),
    ]:
        got = check("x", value)
        assert type(got) is float
        assert got == value


def test_whole_numbers_come_back() -> None:
    assert checks.at_least("x", 2, 2) == 2
    assert checks.at_least("x", -3, -5) == -3


def test_what_is_right_passes() -> None:
    checks.must(True, "x", "anything", None)
    checks.one_of("x", "b", ("a", "b"))
    checks.flag("x", True)
    checks.flag("x", False)
    checks.whole("x", -100)
    checks.device("x", IDS, torch.device("cpu"))
    checks.is_tensor("x", IDS)
    checks.shape("x", IDS, 2, None, letters="(N, V)")
    checks.shape("x", torch.tensor(1), letters="()")
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        checks.integers("x", IDS.to(dtype))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        checks.floats("x", IDS.to(dtype))
    checks.ids_below("x", IDS, 4)
    checks.ids_below("x", IDS, 3, where=IDS != 3)
    checks.ids_below("x", torch.zeros(0, dtype=torch.long), 0)


def test_values_off_the_host_are_not_looked_at() -> None:
    away = torch.zeros(2, dtype=torch.long, device="meta")
    assert not checks.visible(away)
    assert checks.visible(IDS)
    checks.ids_below("x", away, 0)


def test_values_are_not_looked_at_while_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not checks.visible(IDS)
    checks.ids_below("x", IDS, 0)


def test_a_check_changes_nothing() -> None:
    ids = IDS.clone()
    checks.ids_below("x", ids, 9, where=ids != 3)
    assert torch.equal(ids, IDS)
