"""What stage two changes and what it leaves, on a small captioner; the page tells the committed numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import stage_two
from oracles.small_corpora import captions
from oracles.small_stages import CAPTIONER, DECODER, ENCODER, SIDE, drawn_encoder, run_of, seen_by
from seqsmooth.training.reader import parse_config
from seqsmooth.training.runs import Run
from seqsmooth.training.trainer import train

pytest.importorskip("pytorch_lightning")
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "training" / "stage_two.json"
PAGE = ROOT / "docs" / "results" / "stage_two.md"
BLOCKS, FREE = 16, 2
EXACT = {"sequence": {"kind": "hamming", "tau": 0.3, "pool": "refs", "alpha": 0.5}, "lazy": True}
"""Smoothed, and without samples, so that losses compare."""
SEEING = {**ENCODER, "normalised": True}
"""Features of length 1: those of a network that was only drawn are next to nothing."""


def assert_fell(one: dict[str, Any], tuned: dict[str, Any], frozen: dict[str, Any]) -> None:
    """Loss and NLL, below where stage one ended, and below the control, which began with the same and took as long."""
    assert tuned["steps"] == frozen["steps"]
    assert tuned["before"] == frozen["before"]
    for ended, after, control in zip(one["after"], tuned["after"], frozen["after"], strict=True):
        assert after < control
        assert after < ended


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Stage one, then stage two with the last blocks free and with none: what the script says of them."""
    pytest.importorskip("efficientnet_lite_pytorch")
    folder = tmp_path_factory.mktemp("stages")
    pictures = captions(folder / "pictures", side=SIDE, train=16)
    features = seen_by(drawn_encoder(0, normalised=True), pictures, folder)
    told = {"objective": EXACT, "name": "one"}
    train(parse_config(run_of(features, model=DECODER, trainer={"max_epochs": 8}) | told), folder / "one")
    begin, rates = {"max_epochs": 30, "start_from": str(folder / "one")}, {"lr": 1e-2, "encoder_lr": 3e-3}
    for name, tuned in (("tuned", FREE), ("frozen", 0)):
        given = run_of(pictures, model={**CAPTIONER, "encoder": SEEING, "tuned": tuned}, trainer=begin, optimizer=rates)
        train(parse_config(given | told | {"name": name}), folder / name)
    runs = [str(folder / name) for name in ("one", "tuned", "frozen")]
    stage_two.main([*runs, "--json", str(folder / "told.json")])
    held = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    return {"folder": folder} | {name.removesuffix("/0"): run for name, run in held["runs"].items()}


@pytest.mark.slow
def test_tuned_blocks_change_and_nothing_else_of_the_encoder(told: dict[str, Any]) -> None:
    parts = {row["part"]: row for row in told["tuned"]["moved"]}
    free = [f"convolutions, block {number}" for number in range(BLOCKS - FREE, BLOCKS)] + ["convolutions, conv_head"]
    held = [f"convolutions, block {number}" for number in range(BLOCKS - FREE)] + ["convolutions, conv_stem"]
    assert parts.keys() == {*free, *held, *stage_two.NORMALISING, "decoder"}
    assert all(parts[name]["changed"] == parts[name]["tensors"] > 0 for name in [*free, "decoder"])
    assert all(0 < parts[name]["relative"] < 1 for name in free)
    assert all(parts[name]["changed"] == parts[name]["relative"] == 0 < parts[name]["tensors"] for name in held)


@pytest.mark.parametrize("name", ["tuned", "frozen"])
def test_batch_norm_stays_bit_for_bit(told: dict[str, Any], name: str) -> None:
    parts = {row["part"]: row for row in told[name]["moved"]}
    statistics, scale = (parts[part] for part in stage_two.NORMALISING)
    # Lite0: a stem, a head, and two or three in each of 16 blocks, the first without an expansion.
    layers = 2 + 2 * 1 + 3 * 15
    assert (statistics["tensors"], scale["tensors"]) == (3 * layers, 2 * layers)
    assert statistics["changed"] == scale["changed"] == 0


def test_of_the_control_only_the_decoder_changes(told: dict[str, Any]) -> None:
    changed = {row["part"]: row["changed"] for row in told["frozen"]["moved"] if row["changed"]}
    assert changed == {"decoder": next(row["tensors"] for row in told["frozen"]["moved"] if row["part"] == "decoder")}


def test_the_loss_falls_from_where_stage_one_left_it(told: dict[str, Any]) -> None:
    assert_fell(told["one"], told["tuned"], told["frozen"])


def test_the_control_sees_the_same_batches_and_dropout(told: dict[str, Any], tmp_path: Path) -> None:
    """So the loss of the first step is the same; that of an epoch is not."""
    losses = []
    for name in ("tuned", "frozen"):
        config = Run.open(told["folder"] / name).config
        run = train(replace(config, trainer=replace(config.trainer, max_steps=1)), tmp_path / name)
        losses += [row["loss"] for row in run.log if row["split"] == "train"]
    assert losses[0] == losses[1]
    assert told["tuned"]["after"] != told["frozen"]["after"]


def test_losses_are_those_of_validation_where_both_look_at_the_same(told: dict[str, Any]) -> None:
    """The NLL of the training split by the script, of the validation split by `train`: here both of one."""
    run = Run.open(told["folder"] / "frozen")
    last = [row["nll"] for row in run.log if row["split"] == "val"][-1]
    held = dict(run.manifest["config"]) | {"data": {**run.manifest["config"]["data"], "train": "val"}}
    (run.folder / "config.yaml").write_text(json.dumps(held), encoding="utf-8")
    assert stage_two.training_loss(Run.open(run.folder), "last")[1] == pytest.approx(last, abs=1e-4)


def test_stage_two_without_its_stage_one_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"`runs` must be given with .*one, from which .*tuned begins; it is without"):
        stage_two.main([str(told["folder"] / "tuned")])


def test_one_bit_is_seen() -> None:
    ones = {"encoder.bn.weight": torch.ones(3), "head.weight": torch.ones(1)}
    before = ones | {"encoder.bn.running_mean": torch.tensor([1.0, 0.0])}
    made = stage_two
    assert [row["changed"] for row in made.compare_weights(before, before)] == [0, 0, 0]
    after = before | {"encoder.bn.running_mean": torch.tensor([1.0, -0.0])}  # which compares equal as a number
    rows = {row["part"]: row["changed"] for row in made.compare_weights(before, after)}
    assert rows == {"BatchNorm, statistics": 1, "BatchNorm, scale and shift": 0, "decoder": 0}
    with pytest.raises(ValueError, match="must have the same tensors, but differ in"):
        made.compare_weights(before, {})


def test_the_page_tells_the_committed_numbers() -> None:
    held, text = json.loads(RESULTS.read_text(encoding="utf-8")), PAGE.read_text(encoding="utf-8")
    made = stage_two
    assert held["kind"] == made.KIND
    assert made.table_of_losses(held["runs"]) in text
    assert made.table_of_weights(held["runs"]) in text


@pytest.mark.parametrize("row", ["mle/0", "mle/1", "seq_lazy_hamming_refs/0"])
def test_committed_runs_fared_as_the_page_says(row: str) -> None:
    """Below where stage one ended, and below as many more steps with the CNN frozen; all from the same weights."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"]
    name, seed = f"flickr8k/few/{row}".rsplit("/", 1)
    one, tuned, frozen = (runs[f"{name}{how}/{seed}"] for how in ("", "_tuned", "_frozen"))
    assert_fell(one, tuned, frozen)
    moved = {part["part"]: part["changed"] > 0 for part in tuned["moved"]}
    assert not any(moved[part] for part in stage_two.NORMALISING)
    assert [moved[f"convolutions, block {number}"] for number in range(BLOCKS)] == [False] * 5 + [True] * 11
