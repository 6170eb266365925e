"""The steps of Hugging Face's Trainer are measured where there is no GPU, too, on a model of nearly nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
trainer_steps = pytest.importorskip("benchmarks.trainer_steps")


@pytest.mark.slow
def test_every_contestant_runs_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer_steps.main(["--steps", "4", "--json", str(tmp_path / "told.json")]) == 0
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in told["rows"]}
    assert list(rows) == [who.name for who in trainer_steps.contestants()]
    assert all(len(row["loss"]) == 4 and row["ms"] > 0 for row in rows.values())
    said = capsys.readouterr().out
    assert all(name in said for name in rows)
    # The plain loss is the same whoever calculates it; label smoothing at the same strength, too.
    assert rows["ours, MLE"]["loss"] == pytest.approx(rows["stock"]["loss"], abs=2e-4)
    assert rows["stock, again"]["loss"] == rows["stock"]["loss"]
    smooth = rows["stock, label_smoothing_factor"]["loss"]
    assert rows["ours, label smoothing"]["loss"] == pytest.approx(smooth, abs=2e-4)
    assert rows["ours from logits, label smoothing"]["loss"] == pytest.approx(smooth, abs=2e-4)


def test_one_that_fails_is_told_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trainer_steps.contestants()[0]

    def broken(model: object) -> object:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(
        trainer_steps, "contestants", lambda: [first, trainer_steps.TrainerContestant("broken", broken)]
    )
    assert trainer_steps.main(["--steps", "4", "--json", str(tmp_path / "told.json")]) == 1
    good, bad = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))["rows"]
    assert good["name"] == "stock"
    assert bad == {"name": "broken", "failed": "RuntimeError: out of memory"}


def test_the_docs_tell_the_committed_numbers() -> None:
    told = json.loads((ROOT / "benchmarks/results/training/trainer_steps.json").read_text(encoding="utf-8"))
    assert told["kind"] == trainer_steps.KIND
    page = (ROOT / "docs/huggingface.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| .+ \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert table == [(f"{row['ms']:.1f}", f"{row['gib']:.1f}") for row in told["rows"]]
