"""What is read from the source of a class is what Python says of the class."""

from __future__ import annotations

import sys
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from seqsmooth.models import Captioner
from seqsmooth.models.registry import ENCODERS, MODELS
from seqsmooth.rewards.registry import REWARDS
from seqsmooth.smoothing.registry import SEQUENCE_LAWS, TOKEN_LAWS
from seqsmooth.training.signatures import REQUIRED, Argument, SourceClass, arguments, has_method, registered

TABLES = {
    ("seqsmooth.models.registry", "MODELS"): MODELS,
    ("seqsmooth.models.registry", "ENCODERS"): ENCODERS,
    ("seqsmooth.smoothing.registry", "SEQUENCE_LAWS"): SEQUENCE_LAWS,
    ("seqsmooth.smoothing.registry", "TOKEN_LAWS"): TOKEN_LAWS,
    ("seqsmooth.rewards.registry", "REWARDS"): REWARDS,
}
CLASSES: list[Any] = [Captioner, *(built for table in TABLES.values() for built in table.values())]


@pytest.mark.parametrize(("module", "table"), TABLES)
def test_a_registry_is_read_from_its_source(module: str, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = registered(module, table)
    monkeypatch.delitem(sys.modules, module)
    read = registered(module, table)
    assert read == loaded
    assert {kind: built.load() for kind, built in read.items()} == TABLES[module, table]


@pytest.mark.parametrize("kind", [*MODELS, *ENCODERS])
def test_a_model_is_registered_by_its_kind(kind: str) -> None:
    assert {**MODELS, **ENCODERS}[kind].kind == kind


@pytest.mark.parametrize("built", CLASSES, ids=lambda built: built.__name__)
def test_arguments_are_those_of_the_constructor(built: Any) -> None:
    # A subclass of somebody else is asked by introspection, the other derivation.
    asked = arguments(type(built.__name__, (built,), {"__module__": "elsewhere"}))
    read = arguments(SourceClass(built.__module__, built.__qualname__))
    told = {one.name: one for one in asked}
    assert [one.name for one in read] == list(told)
    for one in read:
        plain = told[one.name].default is REQUIRED or isinstance(told[one.name].default, (bool, int, float, str, tuple))
        assert one.default == told[one.name].default or not plain, one.name
        if one.hint is not None:
            assert one.hint == told[one.name].hint or one.name in ("substitutes", "missing"), one.name
    expressible = {bool, int, float, str, None, type(None)}
    for name, other in told.items():  # nothing that a config could say is passed over
        if other.hint in expressible:
            assert next(one for one in read if one.name == name).hint == other.hint


@pytest.mark.parametrize("kind", SEQUENCE_LAWS)
def test_methods_are_found(kind: str) -> None:
    law = SEQUENCE_LAWS[kind]
    source = SourceClass(law.__module__, law.__qualname__)
    for name in ("draw", "measure", "signature", "nothing"):
        assert has_method(source, name) == hasattr(law, name)


def test_a_class_of_somebody_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs:
        def __init__(self, rate: float, near: Literal["a", "b"] | Tensor = "a", dtype: torch.dtype = torch.float32):
            pass

    # Annotations of a local class are found by `get_type_hints` only where they are no strings.
    Theirs.__init__.__annotations__ = {"rate": float, "near": Literal["a", "b"] | Tensor, "dtype": torch.dtype}
    monkeypatch.setitem(REWARDS, "theirs", Theirs)
    there = registered("seqsmooth.rewards.registry", "REWARDS")["theirs"]
    assert there is Theirs
    assert arguments(there) == [
        Argument("rate", float, REQUIRED),
        Argument("near", Literal["a", "b"], "a"),
        Argument("dtype", None, torch.float32),
    ]
