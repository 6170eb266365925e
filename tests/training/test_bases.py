"""A base says what runs share, and lists the losses in which they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from seqsmooth.training.bases import open_base
from seqsmooth.training.reader import read_config
from seqsmooth.training.sweep import plan_sweep

BASE: dict[str, Any] = {
    "data": {"folder": "data/x"},
    "model": {"kind": "show_tell"},
    "table": "mine",
    "trainer": {"start_from": "runs/other/{loss}/{seed}"},
    "losses": {
        "mle": {"row": "MLE"},
        "seq": {"row": "Seq", "objective": {"sequence": {"kind": "hamming", "tau": 0.3}}},
        "tok_seq": {"extends": "seq", "row": "Tok-Seq", "objective": {"token": {"kind": "uniform"}}},
        "wide": {"extends": "mle", "model": {"units": 9}, "trainer": {"max_epochs": 3}},
    },
}


def write(folder: Path, values: dict[str, Any], name: str = "base.yaml") -> Path:
    (folder / name).write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return folder / name


def test_a_loss_makes_a_base_a_run(tmp_path: Path) -> None:
    path = write(tmp_path, BASE)
    seq, tok_seq, wide = (read_config(path, loss=loss) for loss in ("seq", "tok_seq", "wide"))
    assert (seq.name, seq.row, seq.table) == ("base/seq", "Seq", "mine")
    assert tok_seq.objective.sequence == seq.objective.sequence, "a loss extends another one"
    assert tok_seq.objective.token.kind == "uniform"
    assert (wide.row, wide.model.units, wide.trainer.max_epochs) == ("MLE", 9, 3), "any key may change"
    assert tok_seq.trainer.start_from == "runs/other/tok_seq/{seed}", "the loss that was asked for"
    assert wide.trainer.start_from == "runs/other/wide/{seed}"
    assert read_config(path, [("objective.sequence.tau", "0.5")], loss="seq").objective.sequence.tau == 0.5
    assert read_config(write(tmp_path, BASE | {"name": "a/b"}), loss="seq").name == "a/b/seq"


def test_losses_are_inherited_changed_and_removed(tmp_path: Path) -> None:
    write(tmp_path, BASE)
    changed = {
        "mle": None,
        "seq": {"objective": {"sequence": {"tau": 0.4}}},
        "new": {"extends": "tok_seq", "row": "New"},
    }
    path = write(tmp_path, {"extends": "base.yaml", "table": "theirs", "losses": changed}, "more.yaml")
    assert list(open_base(path).losses) == ["seq", "tok_seq", "wide", "new"]
    new = read_config(path, loss="new")
    assert (new.name, new.table, new.objective.sequence.tau) == ("more/new", "theirs", 0.4)
    with pytest.raises(ValueError, match=r"^There is no loss `mle` in more; the nearest is `seq`\.$"):
        read_config(path, loss="mle")
    with pytest.raises(ValueError, match="`extends` names mle, which is neither"):
        read_config(path, loss="wide")
    one = read_config(write(tmp_path, {"extends": "base/seq"}, "one.yaml"))
    assert (one.name, one.row, one.objective.sequence.tau) == ("one", "Seq", 0.3)


def test_a_loss_may_extend_what_the_package_has(tmp_path: Path) -> None:
    losses = {"theirs": {"extends": ["models/top_down", "coco/stage_one/tok"], "row": "Theirs"}}
    path = write(tmp_path, {"data": {"folder": "data/x"}, "model": {"kind": "show_tell"}, "losses": losses})
    config, known = read_config(path, loss="theirs"), read_config("coco/stage_one", loss="tok")
    assert config.objective == known.objective
    assert (config.model, config.row, config.name) == (known.model, "Theirs", "base/theirs")


def test_parts_for_anchors_are_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "base.yaml"
    path.write_text(
        "x-laws: [&refs {kind: hamming, tau: 0.3, pool: refs}]\ndata: {folder: x}\nmodel: {kind: show_tell}\n"
        "losses: {seq: {objective: {sequence: {<<: *refs, alpha: 0.5}}}}\n",
        encoding="utf-8",
    )
    law = read_config(path, loss="seq").objective.sequence
    assert (law.tau, law.pool, law.alpha) == (0.3, "refs", 0.5)


@pytest.mark.parametrize(
    ("changes", "loss", "message"),
    [
        ({}, None, r"A run of base needs one of its 4 losses, as in `--loss mle`; `seqsmooth train base --list` lists"),
        ({}, "sqe", r"There is no loss `sqe` in base; the nearest is `seq`\."),
        ({"losses": {"a_1": {}, "a_2": {}, "b": {}}}, "a", "no loss `a` in base; the nearest are `a_1`, `a_2`"),
        ({"losses": None}, "seq", r"There is no loss `seq` in base, which has none\."),
        ({"losses": ["seq"]}, "seq", r"`losses` must be a mapping from names"),
        ({"losses": {"seq": 3}}, "seq", r"`losses\.seq` must be a section of keys and values"),
        ({"losses": {"a": {"extends": "b"}, "b": {"extends": "a"}}}, "a", "a loss that does not extend this one again"),
        ({"losses": {"a": {"extends": "nothing"}}}, "a", "`extends` names nothing, which is neither in"),
        ({"losses": {"a": {"objectve": {}}}}, "a", "no key `objectve` in a config; the nearest is `objective`"),
        ({"extends": "base/mle"}, "mle", "a file that does not extend this one again"),
    ],
)
def test_mistakes(tmp_path: Path, changes: dict[str, Any], loss: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_config(write(tmp_path, BASE | changes), loss=loss)


def test_a_sweep_of_a_base_names_losses_by_patterns(tmp_path: Path) -> None:
    sweeps = {
        "all": {"seeds": [0, 1]},
        "some": {"losses": ["*seq", "mle", "seq"]},
        "grid": {"losses": ["seq"], "grid": {"objective.sequence.tau": [0.1, 0.2]}},
        "wrong": {"losses": ["sqe*"]},
        "odd": {"loses": ["seq"]},
    }
    path = write(tmp_path, BASE | {"sweeps": sweeps})
    planned = plan_sweep(path / "all", Path("runs"))
    assert [(run.loss, run.seed) for run in planned] == [(loss, seed) for seed in (0, 1) for loss in BASE["losses"]]
    assert [run.loss for run in plan_sweep(path / "some", Path("runs"))] == ["seq", "tok_seq", "mle"]
    folders = [run.folder for run in plan_sweep(path / "grid", Path("runs"))]
    assert folders == [Path(f"runs/base/seq/tau={tau}/0") for tau in (0.1, 0.2)]
    assert planned[1].words()[:6] == ["train", str(path), "--loss", "seq", "--run", "runs/base/seq/0"]
    for name, message in (
        ("wrong", r"There is no loss `sqe\*` in base; the nearest is `seq`"),
        ("odd", "`key` must be one of 'losses', 'seeds', 'overrides', 'grid'; it is 'loses'"),
        ("al", "There is no sweep `al` in base; the nearest is `all`"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_sweep(path / name, Path("runs"))
    with pytest.raises(ValueError, match=r"is a base; name one of its sweeps, as in .*base\.yaml/all"):
        plan_sweep(path, Path("runs"))
