"""Many runs by one command: `seqsmooth train --sweep`, and what comes after a run."""

from __future__ import annotations

import fcntl
import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from oracles.small_corpora import captions
from seqsmooth.cli.main import main
from seqsmooth.cli.train import EvaluationOptions
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.training import Run
from seqsmooth.training.sweep import plan_sweep

SMALL: dict[str, Any] = {
    "row": "MLE",
    "data": {"folder": "corpus", "batch_size": 20, "captions_per_image": 5},
    "model": {"kind": "show_tell", "units": 16, "embedding_size": 16, "embedding_dropout": 0.0},
    "trainer": {"max_epochs": 1, "device": "cpu", "progress": False},
    "decoding": {"beam": 2, "max_length": 9},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, values: dict[str, Any], name: str = "small.yaml") -> None:
    (folder / name).write_text(yaml.safe_dump(values), encoding="utf-8")


@pytest.mark.slow
def test_a_sweep_runs_several_at_once_and_goes_on_after_a_failure(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captions(folder / "corpus")
    write(folder, SMALL | {"row": "other", "model": {"kind": "top_down"}}, "other.yaml")  # not for these features
    write(folder, SMALL)
    held = {"configs": ["small.yaml", "other.yaml"], "overrides": {"trainer.max_epochs": 1}}
    write(folder, held | {"grid": {"data.fraction": [0.5, 1.0]}}, "both.sweep.yaml")
    words = ["train", "--sweep", "both.sweep.yaml", "--jobs", "4", "--decode", "val", "--metrics", "cider", "--observe"]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "2 of 4 runs failed: runs/other/fraction=0.5/0, runs/other/fraction=1.0/0" in said
    assert "`model.kind` must be show_tell for pooled features" in said
    for fraction, steps in ((0.5, 8), (1.0, 15)):
        run = Run.open(f"runs/small/fraction={fraction}/0")
        assert run.manifest["steps"] == steps
        assert len(run.hypotheses("val")) == 10
        assert set(Scorecard.load(run.scores("val")).scores) == {"cider"}
        assert (run.folder / "behaviour" / "val.json").is_file()
        assert "CIDEr-D" in (run.folder / "console.log").read_text(encoding="utf-8")
    write(folder, held | {"configs": ["small.yaml"], "grid": {"data.fraction": [0.5, 1.0]}}, "both.sweep.yaml")
    assert main(words) == 0
    assert capsys.readouterr().err == "2 of 2 runs were done before\n"
    assert main(["report", "choose", "both.sweep.yaml"]) == 0
    best = max(Run.open(f"runs/small/fraction={value}/0").manifest["best"]["value"] for value in (0.5, 1.0))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.endswith("best"))
    assert f" {best:.2f} " in line


@pytest.mark.slow
def test_a_sweep_is_stopped_and_goes_on(folder: Path) -> None:
    captions(folder / "corpus")
    write(folder, SMALL | {"trainer": {"max_epochs": 2000, "device": "cpu", "bundle": 1, "checkpoint_every": 5}})
    write(folder, {"configs": ["small.yaml"]}, "one.sweep.yaml")
    command = [sys.executable, "-m", "seqsmooth", "train", "--sweep", "one.sweep.yaml"]
    begun = subprocess.Popen([*command, "--decode", "test"], stderr=subprocess.PIPE, text=True)
    saved, end = folder / "runs/small/0/checkpoints/last.ckpt", time.monotonic() + 60
    while not saved.exists() and time.monotonic() < end:
        time.sleep(0.05)
    begun.send_signal(signal.SIGTERM)
    assert "stopped; the same command goes on" in begun.communicate(timeout=60)[1]
    assert begun.returncode == 130
    run = Run.open("runs/small/0")
    assert not run.finished
    state = torch.load(run.last, weights_only=True)["seqsmooth"]["steps"]
    assert state >= 5
    with (run.folder / "console.log").open("rb") as log:  # nobody holds it any more
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert "stopping after the next steps" in (run.folder / "console.log").read_text(encoding="utf-8")
    assert not run.scores("test").exists()


def test_a_run_is_decoded_and_observed_in_one_go(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions(folder / "corpus")
    write(folder, SMALL)
    for words, message in (
        (["--decode", "testing"], "`decode` must be one of 'train', 'val', 'test'"),
        (["--decode", ","], "`decode` must be at least one name"),
        (["--decode", "test", "--metrics", "cidre"], "`metrics` must be one of"),
        (["--metrics", "cider"], "`metrics` must be given with --decode"),
        (["--observe"], "`observe` must be given with --decode"),
        (["--jobs", "2"], "`jobs` must be left out without --sweep"),
    ):
        assert main(["train", "small.yaml", *words]) == 2
        assert message in capsys.readouterr().err
    assert not (folder / "runs").exists()
    assert main(["train", "small.yaml", "--decode", "val,test", "--metrics", "cider,bleu-4", "--observe"]) == 0
    assert capsys.readouterr().out.count("CIDEr-D") == 2
    run = Run.open("runs/small/0")
    for split in ("val", "test"):
        held = json.loads((run.folder / "behaviour" / f"{split}.json").read_text(encoding="utf-8"))
        assert sum(held["behaviour"]["lengths"]) == len(run.hypotheses(split)) == 10


def test_sweeps_that_are_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, SMALL)
    for held, message in (
        ({"configs": []}, "`configs` must be a list of files"),
        ({"config": ["small.yaml"]}, "`key` must be one of"),
        ({"configs": ["small.yaml"], "seeds": 1}, "`seeds` must be a list of whole numbers"),
    ):
        write(folder, held, "wrong.sweep.yaml")
        assert main(["train", "--sweep", "wrong.sweep.yaml"]) == 2
        assert message in capsys.readouterr().err
    write(folder, {"configs": ["small.yaml"], "overrides": {"trainer.max_epochs": 2}}, "right.sweep.yaml")
    assert main(["train", "--sweep", "right.sweep.yaml", "--jobs", "0"]) == 2
    assert main(["train", "--sweep", "right.sweep.yaml", "--run", "here"]) == 2
    capsys.readouterr()
    assert main(["train", "--sweep", "right.sweep.yaml", "--data.folder", "here", "--print_config"]) == 0
    small = str((folder / "small.yaml").resolve())
    common = "--trainer.max_epochs 2 --data.folder here"
    assert capsys.readouterr().out == f"seqsmooth train {small} --run runs/small/0 {common} --seed 0\n"
    more = {"configs": ["small.yaml"], "seeds": [1, 0], "overrides": {"trainer.max_epochs": 2}}
    write(folder, more, "more.sweep.yaml")
    for both in (["right.sweep.yaml", "more.sweep.yaml"], ["right.sweep.yaml", "--sweep", "more.sweep.yaml"]):
        assert main(["train", "--sweep", *both, "--print_config"]) == 0
        told = [line.split("--run ")[1].split(" ")[0] for line in capsys.readouterr().out.splitlines()]
        assert told == ["runs/small/0", "runs/small/1"]


def test_what_a_run_lacks_is_told_before_the_first_one_starts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, SMALL)
    token = {"kind": "similarity", "vectors": "words.txt", "tau": 0.3, "alpha": 0.5}
    write(folder, SMALL | {"row": "Tok", "objective": {"token": token}}, "tok.yaml")
    begun = SMALL["model"] | {"vectors": "first.txt"}
    write(folder, SMALL | {"row": "begun", "model": begun}, "begun.yaml")
    write(folder, {"configs": ["small.yaml", "tok.yaml", "begun.yaml"]}, "all.sweep.yaml")
    assert main(["train", "--sweep", "all.sweep.yaml"]) == 2
    assert "`data.folder` must be what `seqsmooth prepare` wrote" in capsys.readouterr().err
    captions(folder / "corpus")
    for name, key in (("words.txt", "objective.token.vectors"), ("first.txt", "model.vectors")):
        assert main(["train", "--sweep", "all.sweep.yaml"]) == 2
        assert f"`{key}` must be a file that is there" in capsys.readouterr().err
        assert not (folder / "runs").exists()
        (folder / "corpus" / name).write_text("a 1 2\n", encoding="utf-8")
    assert main(["train", "small.yaml"]) == 0
    (folder / "corpus" / "words.txt").unlink()
    write(folder, {"configs": ["small.yaml"]}, "all.sweep.yaml")
    assert main(["train", "--sweep", "all.sweep.yaml"]) == 0, "what is done needs nothing"


@pytest.mark.slow
def test_a_sweep_that_was_edited_is_not_done(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions(folder / "corpus")
    write(folder, SMALL)
    write(folder, {"configs": ["small.yaml"]}, "one.sweep.yaml")
    assert main(["train", "small.yaml"]) == 0
    capsys.readouterr()
    assert main(["train", "--sweep", "one.sweep.yaml"]) == 0
    assert capsys.readouterr().err == "1 of 1 runs were done before\n"
    write(folder, {"configs": ["small.yaml"], "overrides": {"trainer.max_epochs": 7}}, "one.sweep.yaml")
    assert main(["train", "--sweep", "one.sweep.yaml"]) == 1
    assert "was begun with another config (other: `trainer.max_epochs`)" in capsys.readouterr().err
    assert main(["report", "choose", "one.sweep.yaml"]) == 2
    assert "was made with other values of `trainer.max_epochs`" in capsys.readouterr().err
    assert Run.open("runs/small/0").manifest["epochs"] == 1, "it is left as it was"


def test_what_is_done_is_what_was_asked_for(folder: Path) -> None:
    captions(folder / "corpus")
    write(folder, SMALL)
    (planned,) = plan_sweep(write_sweep(folder), Path("runs"))

    def done(splits: str, metrics: tuple[str, ...] = ("cider",), *, observe: bool = False) -> bool:
        return EvaluationOptions((splits,), metrics, observe).is_done(planned)

    assert not done("val")
    assert main(["train", "small.yaml", "--decode", "val", "--metrics", "cider"]) == 0
    assert done("val")
    assert not done("test")
    assert not done("val", ("cider", "rouge-l"))
    assert not done("val", ()), "all metrics of the task"
    assert not done("val", observe=True)
    assert main(["decode", "runs/small/0", "--split", "val", "--metrics", "cider", "--observe"]) == 0
    assert done("val", observe=True)
    run = Run.open("runs/small/0")
    weights = run.weights().read_bytes()
    run.weights().write_bytes(b"others")
    assert not done("val"), "what was written is of other weights"
    run.weights().write_bytes(weights)
    (run.folder / "manifest.json").write_text("{", encoding="utf-8")
    assert not done("val"), "a damaged one says so itself, and takes no other with it"


def write_sweep(folder: Path) -> Path:
    write(folder, {"configs": ["small.yaml"]}, "one.sweep.yaml")
    return folder / "one.sweep.yaml"


def test_commands_of_a_sweep_can_be_pasted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "größe & co's $HOME.yaml"
    write(folder, SMALL, name)
    write(folder, {"configs": [name], "overrides": {"row": "it's 5 $"}, "grid": {"optimizer.lr": [0.1]}}, "a b.yaml")
    words = ["train", "--sweep", "a b.yaml", "--runs", "my runs", "--decode", "val,test", "--observe", "--print_config"]
    assert main(words) == 0
    verb, *pasted = shlex.split(capsys.readouterr().out)
    assert verb == "seqsmooth"
    assert pasted[-3:] == ["--decode", "val,test", "--observe"]
    assert main([*pasted, "--print_config"]) == 0
    config = yaml.safe_load(capsys.readouterr().out)
    assert (config["row"], config["optimizer"]["lr"]) == ("it's 5 $ (lr 0.1)", 0.1)
    assert config["name"] == "größe & co's $HOME/lr=0.1"


def test_a_run_whose_corpus_moved_is_decoded_and_observed_where_it_is_now(folder: Path) -> None:
    captions(folder / "corpus")
    write(folder, SMALL)
    assert main(["train", "small.yaml"]) == 0
    (folder / "corpus").rename(folder / "moved")
    words = ["train", "small.yaml", "--data.folder", "moved", "--decode", "test", "--metrics", "cider", "--observe"]
    assert main(words) == 0
    assert (folder / "runs/small/0/behaviour/test.json").is_file()
