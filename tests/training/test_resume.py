"""A run that dies and is started again ends where it would have ended, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from oracles.small_corpora import captions, pairs
from oracles.small_runs import values, weights
from seqsmooth.training import fitting
from seqsmooth.training.checkpoints import Checkpoints
from seqsmooth.training.learner import Learner
from seqsmooth.training.reader import parse_config, read_config
from seqsmooth.training.runs import Run, load_model
from seqsmooth.training.trainer import train


def same(one: Path, other: Path) -> None:
    for which in ("last", "best"):
        ours, theirs = weights(one, which), weights(other, which)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        files = [folder / "checkpoints" / f"{which}.safetensors" for folder in (one, other)]
        assert files[0].read_bytes() == files[1].read_bytes()
    logs = [[{**row, "tokens_per_second": None} for row in Run.open(folder).log] for folder in (one, other)]
    assert logs[0] == logs[1]
    for key in ("best", "steps", "epochs", "finished"):
        assert Run.open(one).manifest[key] == Run.open(other).manifest[key]


class Died(Exception):
    """What stands for the death of a process."""


def dying(monkeypatch: pytest.MonkeyPatch, method: str, count: int) -> None:
    """Let the `count`-th call of a method be the last thing that happens."""
    calls, whole = [0], getattr(Learner, method)

    def call(self: Learner, *given: Any) -> Any:
        calls[0] += 1
        if calls[0] == count:
            raise Died
        return whole(self, *given)

    monkeypatch.setattr(Learner, method, call)


# 15 steps an epoch: before any checkpoint, in the middle of epochs, at the first step of one, and at ends of epochs.
@pytest.mark.parametrize(
    ("method", "count"),
    [("_learn", 2), ("_learn", 11), ("_learn", 16), ("_learn", 40), ("on_train_epoch_end", 2), ("_validate", 3)],
)
def test_resume_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, count: int) -> None:
    captions(tmp_path / "corpus")
    config = parse_config(values(tmp_path / "corpus"))
    train(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        dying(patch, method, count)
        with pytest.raises(Died):
            train(config, tmp_path / "died")
    assert not Run.open(tmp_path / "died").finished
    train(config, tmp_path / "died")
    same(tmp_path / "died", tmp_path / "whole")


@pytest.mark.parametrize(
    "changes",
    [
        {"trainer": {"accumulate": 2}, "objective": {"lazy": False}},
        {"schedule": {"kind": "plateau", "patience": 1, "factor": 0.5}, "validation": {"patience": 2}},
        {"objective": {"anneal": [{"key": "sequence.alpha", "start": 0.0, "end": 0.8, "epochs": 2}]}},
        {"trainer": {"max_steps": 33, "precision": "bf16"}, "validation": {"every": 2, "beam": 2}},
        {"trainer": {"checkpoint_every": 10}, "data": {"batch_size": 30}},  # exactly where an epoch ends
    ],
    ids=["accumulated", "plateau", "annealed", "steps", "epoch"],
)
def test_resume_is_exact_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    captions(tmp_path / "corpus")
    config = parse_config(values(tmp_path / "corpus", **changes))
    train(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        dying(patch, "_learn", 13)
        with pytest.raises(Died):
            train(config, tmp_path / "died")
    train(config, tmp_path / "died")
    same(tmp_path / "died", tmp_path / "whole")


def test_the_size_of_bundles_changes_nothing(tmp_path: Path) -> None:
    pairs(tmp_path / "corpus")
    found = []
    for size in (1, 7):
        model = {"kind": "rnnsearch", "units": 8, "encoder_units": 8, "embedding_size": 8}
        given = values(tmp_path / "corpus", model={}, trainer={"bundle": size, "max_epochs": 2})
        given |= {"model": model, "objective": {}, "data": {"folder": str(tmp_path / "corpus"), "batch_size": 16}}
        given["validation"] = {"metrics": ["sacrebleu"], "monitor": "sacrebleu"}
        train(parse_config(given), tmp_path / str(size))
        found.append(weights(tmp_path / str(size)))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.parametrize("bundle", [2, 5])  # in the middle of an epoch of 15 steps, and at its end
def test_a_stop_saves_first(bundle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions(tmp_path / "corpus")
    still = {"bundle": bundle, "checkpoint_every": None, "checkpoint_seconds": 1e6, "max_epochs": 2}
    config = parse_config(values(tmp_path / "corpus", trainer=still))
    train(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        whole = Checkpoints.on_train_batch_end

        def stopping(self: Checkpoints, owner: Any, learner: Any, *rest: Any) -> None:
            self.stop = self.stop or learner.steps_done == 3 * bundle
            whole(self, owner, learner, *rest)

        patch.setattr(Checkpoints, "on_train_batch_end", stopping)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "stopped")
    held = torch.load(Run.open(tmp_path / "stopped").last, weights_only=True)["seqsmooth"]
    assert held["steps"] == 3 * bundle
    train(config, tmp_path / "stopped")
    same(tmp_path / "stopped", tmp_path / "whole")


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread")
def test_signals_ask_for_a_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Checkpoints(tmp_path, None, 1e6)
    before = signal.getsignal(signal.SIGINT)
    with files.handle_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert files.stop
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopping after the next steps" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_in_the_middle(tmp_path: Path) -> None:
    """Must-show 1: kill -9, the same command again, and the weights are those of a run that was let be."""
    import yaml

    captions(tmp_path / "corpus", train=200)
    given = values(tmp_path / "corpus", trainer={"max_epochs": 4, "bundle": 5, "checkpoint_every": 10})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(given), encoding="utf-8")

    words = ["train", "config.yaml", "--run", "killed", "--trainer.max_epochs", "3"]
    root = Path(__file__).resolve().parents[2] / "src"
    alone = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "seqsmooth", *words]
    process = subprocess.Popen(command, cwd=tmp_path, env=alone, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (tmp_path / "killed" / "checkpoints" / "last.ckpt").is_file() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = Run.open(tmp_path / "killed")
    assert not before.finished
    held = torch.load(before.last, weights_only=True)["seqsmooth"]
    assert 0 < held["steps"] < 150
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    train(read_config(tmp_path / "config.yaml", [("trainer.max_epochs", "3")]), tmp_path / "whole")
    same(tmp_path / "killed", tmp_path / "whole")
    assert Run.open(tmp_path / "killed").manifest["steps"] == 150


def test_word_vectors_that_changed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = captions(tmp_path / "corpus")
    given = parse_config(values(corpus.folder))
    with monkeypatch.context() as broken:
        broken.setattr(fitting, "fit", lambda run, *rest: run)  # a run that stopped before its first step
        train(given, tmp_path / "run")
    path = corpus.folder / "glove.txt"
    path.write_text(path.read_text(encoding="utf-8").replace("0.", "0.1"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"`objective` must be that of the run in .* \(did its word vectors change"):
        train(given, tmp_path / "run")


def test_a_run_that_learned_nothing_gives_way_to_another_config(tmp_path: Path) -> None:
    corpus = captions(tmp_path / "corpus")
    folder, wrong = tmp_path / "run", {"data": {"folder": str(corpus.folder), "batch_size": 0}}
    given = values(corpus.folder, trainer={"max_epochs": 1})
    with pytest.raises(ValueError, match=r"`batch_size` must be 1 or more; it is 0\."):
        train(parse_config(given | wrong), folder)
    assert not Run.open(folder).finished
    run = train(parse_config(given), folder)
    assert run.finished
    assert run.config == parse_config(given)
    train(parse_config(given), tmp_path / "whole")
    same(folder, tmp_path / "whole")


def test_what_a_run_refuses(tmp_path: Path) -> None:
    corpus = captions(tmp_path / "corpus")
    given = values(corpus.folder, trainer={"max_epochs": 1})
    run = train(parse_config(given), tmp_path / "run")
    assert run.finished
    before = (tmp_path / "run" / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    assert train(parse_config(given), tmp_path / "run").manifest == run.manifest
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"begun with another config \(other: `seed`, `optimizer.lr`\)"):
        train(parse_config(given | {"seed": 3, "optimizer": {"lr": 0.1, "clip": 1.0}}), tmp_path / "run")
    (tmp_path / "link").symlink_to(corpus.folder)  # the same corpus by another name
    assert train(parse_config(values(tmp_path / "link", trainer={"max_epochs": 1})), tmp_path / "run").finished
    (run.folder / "checkpoints" / "best.safetensors").unlink()  # the last weights must not pass for them
    with pytest.raises(ValueError, match=r"`weights` must be a file that is there; it is .*best\.safetensors"):
        load_model(run.folder, device="cpu")
    other = captions(tmp_path / "other", seed=1)
    corpus.folder.rename(tmp_path / "kept")
    other.folder.rename(corpus.folder)
    with pytest.raises(ValueError, match=r"`data\.folder` must be the corpus that the run began with"):
        train(parse_config(given), tmp_path / "run")
    with pytest.raises(ValueError, match=r"`data\.folder` must be the corpus"):
        load_model(tmp_path / "run")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("dear all", encoding="utf-8")
    with pytest.raises(ValueError, match="`run` must be a new folder, or that of a run"):
        train(parse_config(given), tmp_path / "letters")


def test_a_damaged_checkpoint_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions(tmp_path / "corpus")
    config = parse_config(values(tmp_path / "corpus"))
    with monkeypatch.context() as patch:
        dying(patch, "_learn", 20)
        with pytest.raises(Died):
            train(config, tmp_path / "run")
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"last.ckpt` must be a checkpoint of this run; it is damaged"):
        train(config, tmp_path / "run")


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pytorch_lightning as pl

    captions(tmp_path / "corpus")
    config = parse_config(values(tmp_path / "corpus"))
    train(config, tmp_path / "whole")
    saved, save = [0], pl.Trainer.save_checkpoint

    def full(self: pl.Trainer, path: Path, *rest: Any, **more: Any) -> None:
        saved[0] += 1
        if saved[0] == 3:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save(self, path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(pl.Trainer, "save_checkpoint", full)
        with pytest.raises(ValueError, match=r"last\.ckpt` must be a file that can be written.*No space left"):
            train(config, tmp_path / "full")
    assert sorted(path.name for path in (tmp_path / "full" / "checkpoints").iterdir()) == ["last.ckpt"]
    train(config, tmp_path / "full")
    same(tmp_path / "full", tmp_path / "whole")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_steps_are_graphs_and_resume_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions(tmp_path / "corpus")
    config = parse_config(values(tmp_path / "corpus", trainer={"device": "cuda", "max_epochs": 4}))
    made = []
    whole = Learner._report

    def seen(self: Learner, *given: Any) -> Any:
        report = whole(self, *given)
        made.append(len(self._graphs))
        return report

    monkeypatch.setattr(Learner, "_report", seen)
    train(config, tmp_path / "whole")
    assert made[-1] >= 1
    with monkeypatch.context() as patch:
        dying(patch, "_learn", 22)
        with pytest.raises(Died):
            train(config, tmp_path / "died")
    train(config, tmp_path / "died")
    ours, theirs = (Run.open(tmp_path / name).log for name in ("died", "whole"))
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one["nll"] == pytest.approx(other["nll"], rel=2e-2)
    assert ours[-1]["nll"] < ours[0]["nll"]
