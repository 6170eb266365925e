from __future__ import annotations

import pytest

from benchmarks import run


@pytest.fixture(autouse=True)
def memory_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests in this process ask what memory is given back."""
    monkeypatch.setattr(run, "keep_memory", lambda: True)
