"""The example of distillation runs, and its student comes nearer to the teacher."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "examples" / "distillation.py"


def test_the_student_comes_nearer_to_the_teacher(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("distillation_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    first, last = module.main(steps=40)
    assert 0 < last < 0.5 * first
    assert "KL to the teacher" in capsys.readouterr().out


def test_it_is_short() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) < 80
