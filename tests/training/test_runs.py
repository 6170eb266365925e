"""What a run does beside learning: it begins, stops, keeps the best, and says what is wrong."""

from __future__ import annotations

import fcntl
from pathlib import Path

import numpy as np
import pytest
import torch

from oracles.small_corpora import captions
from oracles.small_runs import values, weights
from seqsmooth.data import FeatureStore, Side, write_captions
from seqsmooth.training.build import Builder
from seqsmooth.training.config import Optimizer
from seqsmooth.training.evaluation import Validator
from seqsmooth.training.reader import parse_config
from seqsmooth.training.runs import write_manifest
from seqsmooth.training.trainer import train


def test_a_run_begins_with_the_weights_of_another(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    train(parse_config(values(tmp_path / "corpus", trainer={"max_epochs": 1})), tmp_path / "first")
    still = {"trainer": {"max_epochs": 1, "start_from": str(tmp_path / "first")}, "optimizer": {"lr": 0.0}, "seed": 5}
    train(parse_config(values(tmp_path / "corpus", **still)), tmp_path / "second")
    ours, theirs = weights(tmp_path / "second"), weights(tmp_path / "first", "best")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_that_died_before_its_first_checkpoint_still_begins_with_the_weights_of_another(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    train(parse_config(values(tmp_path / "corpus", trainer={"max_epochs": 1})), tmp_path / "first")
    still = {"trainer": {"max_epochs": 1, "start_from": str(tmp_path / "first")}, "optimizer": {"lr": 0.0}, "seed": 5}
    config = parse_config(values(tmp_path / "corpus", **still))
    run = train(config, tmp_path / "second")
    write_manifest(run.folder, {**run.manifest, "finished": False})
    for file in (run.folder / "checkpoints").iterdir():
        file.unlink()
    train(config, run.folder)
    ours, theirs = weights(tmp_path / "second"), weights(tmp_path / "first", "best")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_builds_its_objective_once_and_one_that_is_refused_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions(tmp_path / "corpus")
    asked = []
    build = Builder.objective
    monkeypatch.setattr(Builder, "objective", lambda self, config: asked.append(config) or build(self, config))
    config = parse_config(values(tmp_path / "corpus", trainer={"max_epochs": 1}))
    train(config, tmp_path / "run")
    train(config, tmp_path / "run")  # finished: nothing is built any more
    assert len(asked) == 1
    refused = parse_config(values(tmp_path / "corpus", trainer={"start_from": str(tmp_path / "nowhere")}))
    with pytest.raises(ValueError, match="must be the folder of a run"):
        train(refused, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_a_run_from_before_an_option_came_goes_on(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    config = parse_config(values(tmp_path / "corpus", trainer={"max_epochs": 1}))
    run = train(config, tmp_path / "run")
    assert run.manifest["config"]["data"].pop("fraction") == config.data.fraction == 1.0  # the default
    assert run.differing_keys(config) == []
    assert run.manifest["config"]["optimizer"].pop("lr") == config.optimizer.lr != Optimizer.lr
    assert run.differing_keys(config) == ["optimizer.lr"]


def test_early_stopping_and_what_is_best(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    still = {"optimizer": {"lr": 0.0}, "trainer": {"max_epochs": 9}, "validation": {"patience": 2}}
    run = train(parse_config(values(tmp_path / "corpus", **still)), tmp_path / "run")
    assert (run.manifest["epochs"], run.manifest["best"]["epoch"]) == (3, 1)  # nothing is learned, so the first is best
    ours, theirs = weights(tmp_path / "run"), weights(tmp_path / "run", "best")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_best_weights_stay_where_later_ones_are_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions(tmp_path / "corpus")
    steady = {"schedule": {"kind": "constant", "warmup": 0}, "objective": {"lazy": True}}
    for name, told in (("long", [1.0, 3.0, 2.0, 3.0]), ("short", [1.0, 3.0])):
        scores = iter(told)
        monkeypatch.setattr(
            Validator, "__call__", lambda self, model, scores=scores: {"nll": 1.0, "cider": next(scores)}
        )
        made = values(tmp_path / "corpus", **steady, trainer={"max_epochs": len(told)})
        run = train(parse_config(made), tmp_path / name)
        assert run.manifest["best"] == {"epoch": 2, "metric": "cider", "value": 3.0}
    best, second, last = (
        weights(tmp_path / name, which) for name, which in (("long", "best"), ("short", "last"), ("long", "last"))
    )
    assert all(torch.equal(best[name], second[name]) for name in best)
    assert not all(torch.equal(best[name], last[name]) for name in best)


def test_plateaus_are_counted(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    given = values(tmp_path / "corpus", optimizer={"lr": 1e-9}, trainer={"max_epochs": 4, "log_every": 15})
    given["schedule"] = {"kind": "plateau", "factor": 0.5, "patience": 1}
    run = train(parse_config(given), tmp_path / "run")
    rates = [row["lr"] for row in run.log if row["split"] == "train"]
    assert rates == pytest.approx([1e-9, 1e-9, 5e-10, 2.5e-10])


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    wild = {"optimizer": {"lr": 3e38, "clip": None}, "schedule": {"kind": "constant", "warmup": 0}}
    with pytest.raises(ValueError, match=r"`loss` must be finite \(is `optimizer\.lr` too high"):
        train(parse_config(values(tmp_path / "corpus", **wild)), tmp_path / "run")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    made = parse_config(values(tmp_path / "corpus", trainer={"max_epochs": 1}))
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / ".lock").open("ab") as held:  # as another process would
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="run` must be trained by one process at a time"):
            train(made, tmp_path / "run")
    assert not (tmp_path / "run" / "manifest.json").exists()
    run = train(made, tmp_path / "run")
    with (tmp_path / "run" / ".lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert train(made, tmp_path / "run").manifest == run.manifest, "what is finished is nobody's to write"


@pytest.mark.parametrize(("start", "end", "told"), [(0.0, 7.0, 7.0), (-1.0, 0.5, -1.0)])
def test_a_number_that_is_annealed_too_far_is_refused_before_anything_is_learned(
    tmp_path: Path, start: float, end: float, told: float
) -> None:
    captions(tmp_path / "corpus")
    anneal = {"key": "token.alpha", "start": start, "end": end, "epochs": 2}
    made = values(tmp_path / "corpus", objective={"anneal": [anneal]}, trainer={"max_epochs": 3})
    with pytest.raises(ValueError, match=f"`alpha` must be between 0 and 1; it is {told}"):
        train(parse_config(made), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_greatest_seed_is_one(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    made = values(tmp_path / "corpus", seed=2**63 - 1, trainer={"max_epochs": 1, "max_steps": 1})
    assert train(parse_config(made), tmp_path / "run").finished


def test_items_without_references_are_found_before_anything_is_learned(tmp_path: Path) -> None:
    images: list[tuple[int | str, list[str]]] = [(1, ["a dog", "the dog"]), (2, [])]
    features = FeatureStore([1, 2], np.eye(2, 4, dtype=np.float32))
    write_captions(tmp_path / "corpus", {"train": images[:1], "val": images}, features, side=Side(min_count=1))
    made = values(tmp_path / "corpus", trainer={"max_epochs": 1}, data={"captions_per_image": None})
    made["objective"] = {}
    rule = "a split whose items all have references; it is val, where 1 have none"
    with pytest.raises(ValueError, match=rf"^`data.validation` must be {rule}\.$"):
        train(parse_config(made), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(parse_config({**made, "validation": {"limit": 1}}), tmp_path / "limited")
    train(parse_config({**made, "validation": {"every": 0}}), tmp_path / "none")


def test_validation_by_nothing_is_refused(tmp_path: Path) -> None:
    captions(tmp_path / "corpus")
    made = parse_config(values(tmp_path / "corpus", validation={"metrics": []}))
    with pytest.raises(ValueError, match=r"^`validation.metrics` must be a metric or more; it is none\.$"):
        train(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_generator_takes(tmp_path: Path, seed: int) -> None:
    captions(tmp_path / "corpus")
    made = parse_config(values(tmp_path / "corpus", seed=seed))
    with pytest.raises(ValueError, match="`seed` must be "):
        train(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()
