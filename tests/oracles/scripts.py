"""Scripts outside of the package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def script(path: str) -> Any:
    """A script of the repository, by its path there, loaded anew."""
    found = importlib.util.spec_from_file_location(f"script_{Path(path).stem}", ROOT / path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # where dataclasses look for their types
    found.loader.exec_module(module)
    return module
