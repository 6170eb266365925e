"""Loggers beside log.csv. Those whose package is not installed are tested for saying so."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oracles.small_corpora import captions
from oracles.small_runs import values
from seqsmooth.training import Run, fitting
from seqsmooth.training.loggers import PACKAGES, close_loggers, open_loggers
from seqsmooth.training.reader import parse_config
from seqsmooth.training.trainer import train


def logged(folder: Path, *loggers: str) -> dict[str, Any]:
    return values(folder, trainer={"max_epochs": 2, "loggers": list(loggers)})


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_loggers_that_are_not_installed_are_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions(tmp_path / "corpus")
    monkeypatch.setattr("seqsmooth.training.loggers.find_spec", lambda package: None)
    listed = " or ".join(PACKAGES[name])
    with pytest.raises(ValueError, match=rf"`trainer\.loggers` must be of packages that are installed \({listed}\)"):
        train(parse_config(logged(tmp_path / "corpus", name)), tmp_path / name)
    assert not (tmp_path / name).exists()


def test_rows_go_to_loggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytorch_lightning.loggers import CSVLogger

    captions(tmp_path / "corpus")
    monkeypatch.setattr(
        fitting, "open_loggers", lambda names, run, steps: [CSVLogger(run.folder, name="copy", version="")]
    )
    monkeypatch.setattr(fitting, "close_loggers", lambda loggers: [logger.save() for logger in loggers])
    run = train(parse_config(values(tmp_path / "corpus", trainer={"max_epochs": 1})), tmp_path / "run")
    text = (tmp_path / "run" / "copy" / "metrics.csv").read_text(encoding="utf-8")
    assert "train/nll" in text
    assert "val/cider" in text
    assert len(run.log) == 5


def scalars(run: Run) -> dict[str, dict[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    held = EventAccumulator(str(run.folder / "tensorboard"))
    held.Reload()
    return {tag: {event.step: event.value for event in held.Scalars(tag)} for tag in held.Tags()["scalars"]}


def rows_of(run: Run, split: str, name: str) -> dict[int, float]:
    return {row["step"]: row[name] for row in run.log if row["split"] == split}


def test_tensorboard_shows_what_the_log_says(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    captions(tmp_path / "corpus")
    run = train(parse_config(logged(tmp_path / "corpus", "tensorboard")), tmp_path / "run")
    found = scalars(run)
    for split, names in (("train", ("loss", "nll", "lr", "ess")), ("val", ("nll", "cider"))):
        for name in names:
            assert found[f"{split}/{name}"] == pytest.approx(rows_of(run, split, name), rel=1e-4)


def test_a_run_that_died_goes_on_in_tensorboard_without_rows_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    captions(tmp_path / "corpus")
    config = parse_config(logged(tmp_path / "corpus", "tensorboard"))
    real = fitting._note

    def dying(row: Any, *rest: Any) -> None:
        real(row, *rest)
        rest[2].loggers[0].experiment.flush()
        if row["step"] >= 15:
            raise SystemError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "_note", dying)
        with pytest.raises(SystemError):
            train(config, tmp_path / "run")
    run = train(config, tmp_path / "run")
    assert run.finished
    assert scalars(run)["train/nll"] == pytest.approx(rows_of(run, "train", "nll"), rel=1e-4)
    assert scalars(run)["val/cider"] == pytest.approx(rows_of(run, "val", "cider"), rel=1e-4)


def test_wandb_without_an_account_keeps_the_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    captions(tmp_path / "corpus")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("one", "two"):
        assert train(parse_config(logged(tmp_path / "corpus", "wandb")), tmp_path / name).finished
        kept = list((tmp_path / name / "wandb").glob("offline-run-*/*.wandb"))
        assert len(kept) == 1, "each run its own"
        assert b"cider" in kept[0].read_bytes()


def test_wandb_that_asks_for_an_account_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(Exception):
        """As `wandb.Error`."""

    class Asking:
        def __init__(self, **options: Any) -> None:
            assert options["name"] == "mle 3"

        @property
        def experiment(self) -> Any:
            raise Refused("No API key configured.")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Error=Refused))
    monkeypatch.setattr("pytorch_lightning.loggers.WandbLogger", Asking)
    run = Run(tmp_path, {"name": "mle", "seed": 3, "started": "now", "data": {"fingerprint": "x"}, "config": {}})
    with pytest.raises(ValueError, match=r"^`trainer\.loggers` must be .* No API key configured \(or set WANDB_MODE="):
        open_loggers(["wandb"], run, 0)


def test_wandb_is_finished_and_tensorboard_flushed() -> None:
    calls: list[str] = []
    board = SimpleNamespace(flush=lambda: calls.append("flush"))
    bias = SimpleNamespace(finish=lambda: calls.append("finish"), flush=None)
    close_loggers([SimpleNamespace(experiment=board), SimpleNamespace(experiment=bias)])
    assert calls == ["flush", "finish"]
