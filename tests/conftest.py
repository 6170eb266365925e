from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# The same examples in every run: a change is judged, not its luck.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def coco_data() -> Path:
    """The folder of real data: $SEQSMOOTH_DATA, or `data` beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "data"
    root = Path(os.environ.get("SEQSMOOTH_DATA", beside))
    if not (root / "coco" / "dataset.json").is_file():
        pytest.skip("no COCO captions: set SEQSMOOTH_DATA to the folder that holds coco/dataset.json")
    return root
