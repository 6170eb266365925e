"""The measurement of `seqsmooth train` runs where there is no GPU; the docs tell its committed numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import training_speed

pytest.importorskip("pytorch_lightning")
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "training"


def test_it_measures_a_bare_loop_and_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training_speed.main(
        ["--epochs", "2", "--rounds", "1", "--only", "seq, cider, lazy", "--json", str(tmp_path / "s.json")]
    )
    held = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    committed = json.loads((RESULTS / "speed.json").read_text(encoding="utf-8"))
    assert held["kind"] == committed["kind"] == training_speed.KIND
    assert held["machine"].keys() == committed["machine"].keys()
    (row,) = held["rows"].values()
    assert min(row["bare_ms"], row["train_ms"]) > 0
    assert row["share"] == pytest.approx(row["bare_ms"] / row["train_ms"], abs=2e-3)
    assert capsys.readouterr().out.startswith("seq, cider, lazy: bare ")


def test_the_docs_tell_the_committed_numbers() -> None:
    text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    speed = json.loads((RESULTS / "speed.json").read_text(encoding="utf-8"))["rows"]
    assert set(speed) == set(training_speed.ROWS)
    for name, row in speed.items():
        assert f"| {name} | {row['bare_ms']:.4f} | {row['train_ms']:.4f} | {100 * row['share']:.1f} % |" in text
        assert row["share"] == pytest.approx(row["bare_ms"] / row["train_ms"], abs=1e-3)
    for run in json.loads((RESULTS / "runs.json").read_text(encoding="utf-8"))["runs"]:
        base, loss = run["config"].removeprefix("configs/").removesuffix(".yaml").rsplit("/", 1)
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{base} --loss {loss}`")]
        assert f"| {run['steps']:,} in {run['seconds']:.0f} s |" in line
        for held in run["test"].values():
            assert f"{held['value']:.2f} ({held['low']:.2f} to {held['high']:.2f})" in line
