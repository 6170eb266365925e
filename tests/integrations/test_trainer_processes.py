"""Two processes train as one does."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'seqsmooth[hf]'")
pytest.importorskip("accelerate", reason="needs accelerate: pip install 'seqsmooth[hf]'")


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(__file__).with_name("ddp_worker.py")
    tests = str(script.parents[1])
    path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    written = tmp_path / "result.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([*launcher, str(script), str(written)], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    monkeypatch.syspath_prepend(str(script.parent))
    worker = importlib.import_module("ddp_worker")
    for kind, (losses, weights) in json.loads(written.read_text(encoding="utf-8")).items():
        alone = worker.result(kind)
        assert losses == pytest.approx(alone[0], abs=1e-5), kind
        assert weights == pytest.approx(alone[1], abs=1e-3), kind
