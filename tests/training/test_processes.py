"""Two processes that learn together do what one does with the whole batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

import seqsmooth as ss
from oracles.small_corpora import captions
from seqsmooth.models import ShowTell
from seqsmooth.training.reader import parse_config
from seqsmooth.training.runs import Run
from seqsmooth.training.step import TrainingStep, adam
from seqsmooth.training.trainer import train


def values(folder: Path) -> dict[str, Any]:
    return {
        "name": "small",
        "data": {"folder": str(folder), "batch_size": 20, "captions_per_image": 5},
        "model": {"kind": "show_tell", "units": 12, "embedding_size": 12, "embedding_dropout": 0.0},
        "objective": {"sequence": {"kind": "hamming", "tau": 0.4, "pool": "refs", "alpha": 0.5}},
        "optimizer": {"lr": 0.01, "clip": 0.5},
        "trainer": {
            "max_epochs": 2,
            "bundle": 3,
            "log_every": 3,
            "checkpoint_every": 6,
            "device": "cpu",
            "progress": False,
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("start", [False, True], ids=["new weights", "weights of another run"])
def test_the_loss_curve_is_that_of_one_process(tmp_path: Path, start: bool) -> None:
    """Must-show 6, with two processes of gloo that Lightning starts from the command line."""
    captions(tmp_path / "corpus")
    given = values(tmp_path / "corpus")
    if start:
        train(parse_config(given | {"seed": 5}), tmp_path / "first")
        given["trainer"]["start_from"] = str(tmp_path / "first")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(given), encoding="utf-8")
    root = Path(__file__).resolve().parents[2] / "src"
    words = ["train", "config.yaml", "--run", "two", "--trainer.processes", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "seqsmooth", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    train(parse_config(given), tmp_path / "one")
    one, two = (Run.open(tmp_path / name) for name in ("one", "two"))
    assert two.finished
    assert len(one.log) == len(two.log) == 12
    for ours, theirs in zip(one.log, two.log, strict=True):
        for name in ("epoch", "step", "split", "lr", "cider", "bleu-4"):
            assert ours[name] == theirs[name]
        for name in ("loss", "nll", "rate"):
            assert (ours[name] is None) == (theirs[name] is None)
            assert ours[name] is None or ours[name] == pytest.approx(theirs[name], rel=1e-4)
    ours, theirs = (load_file(run.weights("last")) for run in (one, two))
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-4)
    held = torch.load(two.last, weights_only=True)["seqsmooth"]
    assert len(held["generators"]) == 2
    for source in ("samples", "host"):  # the latter of dropout
        assert not torch.equal(held["generators"][0][source], held["generators"][1][source])


def test_accumulated_batches_are_one_batch(tmp_path: Path) -> None:
    corpus = captions(tmp_path / "corpus", vectors=None)
    found = []
    for size in (20, 40):
        torch.manual_seed(0)
        model = ShowTell(len(corpus.vocabulary), 6, 8, 8, embedding_dropout=0.0)
        objective = ss.mle(specials=corpus.vocabulary.specials(), vocab_size=len(corpus.vocabulary))
        step = TrainingStep(model, objective, adam(model.parameters(), 0.01), clip=0.5)
        batches = list(corpus.batches("train", size, captions_per_image=5, shuffle=False, buckets=1))
        report = step(*batches[: 40 // size])
        found.append((report, model))
    (parts, ours), (whole, theirs) = found
    torch.testing.assert_close(parts.loss.total, whole.loss.total)
    torch.testing.assert_close(parts.loss.nll, whole.loss.nll)
    torch.testing.assert_close(parts.norm, whole.norm)
    assert int(parts.loss.tokens) == int(whole.loss.tokens)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
