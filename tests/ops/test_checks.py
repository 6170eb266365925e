"""Each check lets the right through and says its sentence about the rest."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from seqsmooth.ops import checks

IDS = torch.tensor([[1, 0], [2, 3]])

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "must": (lambda: checks.must(False, "x", "small", 9), "`x` must be small; it is 9."),
    "positive: zero": (lambda: checks.positive("x", 0), "`x` must be greater than 0; it is 0."),
    "positive: negative": (lambda: checks.positive("x", -1.5), "`x` must be greater than 0; it is -1.5."),
    "positive: NaN": (lambda: checks.positive("x", math.nan), "`x` must be a number; it is nan."),
    "positive: bool": (lambda: checks.positive("x", True), "`x` must be a number; it is True."),
    "positive: word": (lambda: checks.positive("x", "1"), "`x` must be a number; it is '1'."),
    "positive: None": (lambda: checks.positive("x", None), "`x` must be a number; it is None."),
    "positive: complex": (lambda: checks.positive("x", 1j), "`x` must be a number; it is 1j."),
    "positive: tensor": (
        lambda: checks.positive("x", torch.tensor(1.0)),
        "`x` must be a number; it is tensor(1.).",
    ),
    "non_negative: negative": (
        lambda: checks.non_negative("x", -1),
        "`x` must be a finite number, 0 or more; it is -1.",
    ),
    "non_negative: infinite": (
        lambda: checks.non_negative("x", math.inf),
        "`x` must be a finite number, 0 or more; it is inf.",
    ),
    "non_negative: NaN": (lambda: checks.non_negative("x", math.nan), "`x` must be a number; it is nan."),
    "non_negative: bool": (lambda: checks.non_negative("x", False), "`x` must be a number; it is False."),
    "fraction: above": (lambda: checks.fraction("x", 1.5), "`x` must be between 0 and 1; it is 1.5."),
    "fraction: below": (lambda: checks.fraction("x", -0.1), "`x` must be between 0 and 1; it is -0.1."),
    "fraction: NaN": (lambda: checks.fraction("x", math.nan), "`x` must be a number; it is nan."),
    "fraction: bool": (lambda: checks.fraction("x", True), "`x` must be a number; it is True."),
    "at_least: fewer": (lambda: checks.at_least("x", 1, 2), "`x` must be 2 or more; it is 1."),
    "at_least: float": (lambda: checks.at_least("x", 2.0, 2), "`x` must be a whole number; it is 2.0."),
    "at_least: bool": (lambda: checks.at_least("x", True, 0), "`x` must be a whole number; it is True."),
    "at_least: None": (lambda: checks.at_least("x", None, 0), "`x` must be a whole number; it is None."),
    "whole: float": (lambda: checks.whole("x", 2.0), "`x` must be a whole number; it is 2.0."),
    "whole: bool": (lambda: checks.whole("x", False), "`x` must be a whole number; it is False."),
    "flag: number": (lambda: checks.flag("x", 1), "`x` must be True or False; it is 1."),
    "flag: word": (lambda: checks.flag("x", "no"), "`x` must be True or False; it is 'no'."),
    "flag: None": (lambda: checks.flag("x", None), "`x` must be True or False; it is None."),
    "device: another": (
        lambda: checks.device("x", IDS, torch.device("meta")),
        "`x` must be on meta, as the rest; it is on cpu.",
    ),
    "device: a way out": (
        lambda: checks.device("x", IDS, torch.device("meta"), " (move it)"),
        "`x` must be on meta, as the rest (move it); it is on cpu.",
    ),
    "one_of: another": (
        lambda: checks.one_of("x", "c", ("a", "b")),
        "`x` must be one of 'a', 'b'; it is 'c'.",
    ),
    "one_of: no word": (lambda: checks.one_of("x", None, ("a",)), "`x` must be one of 'a'; it is None."),
    "one_of: a list": (lambda: checks.one_of("x", ["a"], ("a",)), "`x` must be one of 'a'; it is ['a']."),
    "is_tensor: list": (lambda: checks.is_tensor("x", [1]), "`x` must be a torch.Tensor; it is a list."),
    "is_tensor: None": (lambda: checks.is_tensor("x", None), "`x` must be a torch.Tensor; it is None."),
    "shape: dimensions": (
        lambda: checks.shape("x", IDS, None, letters="(N,)"),
        "`x` must be of shape (N,); it is (2, 2).",
    ),
    "shape: size": (
        lambda: checks.shape("x", IDS, None, 3, letters="(N, V)"),
        "`x` must be of shape (N, V) = (*, 3); it is (2, 2).",
    ),
    "shape: scalar": (
        lambda: checks.shape("x", torch.tensor(1), None, None, letters="(N, V)"),
        "`x` must be of shape (N, V); it is ().",
    ),
    "shape: list": (
        lambda: checks.shape("x", [1], None, letters="(N,)"),
        "`x` must be a torch.Tensor; it is a list.",
    ),
    "integers: float": (
        lambda: checks.integers("x", torch.ones(1)),
        "`x` must be a tensor of whole numbers; it is torch.float32.",
    ),
    "integers: bool": (
        lambda: checks.integers("x", torch.ones(1, dtype=torch.bool)),
        "`x` must be a tensor of whole numbers; it is torch.bool.",
    ),
    "integers: complex": (
        lambda: checks.integers("x", torch.ones(1, dtype=torch.complex64)),
        "`x` must be a tensor of whole numbers; it is torch.complex64.",
    ),
    "integers: list": (lambda: checks.integers("x", [1]), "`x` must be a torch.Tensor; it is a list."),
    "floats: integers": (
        lambda: checks.floats("x", IDS),
        "`x` must be a floating-point tensor; it is torch.int64.",
    ),
    "floats: complex": (
        lambda: checks.floats("x", torch.ones(1, dtype=torch.complex64)),
        "`x` must be a floating-point tensor; it is torch.complex64.",
    ),
    "floats: number": (lambda: checks.floats("x", 1.0), "`x` must be a torch.Tensor; it is a float."),
    "ids_below: high": (
        lambda: checks.ids_below("x", IDS, 3),
        "`x` must be ids in [0, 3); it is 3 at its highest.",
    ),
    "ids_below: low": (
        lambda: checks.ids_below("x", IDS - 2, 3),
        "`x` must be ids in [0, 3); it is -2 at its lowest.",
    ),
    "ids_below: where": (
        lambda: checks.ids_below("x", IDS, 2, where=IDS != 3),
        "`x` must be ids in [0, 2); it is 2 at its highest.",
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
