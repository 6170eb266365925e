"""What a sweep file asks for."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from seqsmooth.training.reader import read_config
from seqsmooth.training.sweep import plan_sweep, short_keys

CONFIG: dict[str, Any] = {
    "row": "Seq",
    "data": {"folder": "data/x"},
    "model": {"kind": "show_tell"},
    "objective": {"sequence": {"kind": "hamming", "tau": 0.3}, "token": {"kind": "uniform"}},
}
TAU, ALPHA = "objective.sequence.tau", "objective.token.alpha"


def write(folder: Path, name: str, values: dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


def test_a_grid_is_every_combination_by_a_name_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "one.yaml", CONFIG)
    grid = {TAU: [0.2, 0.3], ALPHA: [0.1], "optimizer.kind": ["adam", "adamw"]}
    sweep = write(tmp_path, "a.sweep.yaml", {"configs": ["one.yaml"], "seeds": [0, 7], "grid": grid})
    planned = plan_sweep(sweep, Path("runs"), [("data.folder", "here")])
    told = [f"tau={tau},alpha=0.1,kind={kind}" for tau in (0.2, 0.3) for kind in ("adam", "adamw")]
    assert [each.folder for each in planned] == [Path("runs/one", name, seed) for seed in "07" for name in told]
    assert planned[1].point == {TAU: 0.2, ALPHA: 0.1, "optimizer.kind": "adamw"}
    config = read_config(planned[1].file, planned[1].overrides)
    assert (config.objective.sequence.tau, config.objective.token.alpha) == (0.2, 0.1)
    assert config.optimizer.kind == "adamw"
    assert config.data.folder == "here"
    assert config.name == "one/tau=0.2,alpha=0.1,kind=adamw"
    assert config.row == "Seq (tau 0.2, alpha 0.1, kind adamw)"  # else a table would take them for one row
    assert {each.seed for each in plan_sweep(sweep, Path("runs"), [("seed", "3")])} == {3}


def test_without_a_grid_there_is_one_run_a_config_and_seed(tmp_path: Path) -> None:
    write(tmp_path, "one.yaml", CONFIG)
    held = {"configs": ["one.yaml"], "overrides": {"row": "of more than eighty letters " * 4, "optimizer.lr": 1e-5}}
    (planned,) = plan_sweep(write(tmp_path, "a.sweep.yaml", held), Path("runs"))
    assert planned.folder == Path("runs/one/0")
    config = read_config(planned.file, planned.overrides)
    assert config.row == "of more than eighty letters " * 4
    assert config.optimizer.lr == 1e-5


def test_keys_are_as_short_as_tells_them_apart() -> None:
    several = [TAU, "objective.sequence.alpha", ALPHA, "data.fraction"]
    assert list(short_keys(several).values()) == ["tau", "sequence.alpha", "token.alpha", "fraction"]
    assert short_keys(["alpha", "token.alpha"]) == {"alpha": "alpha", "token.alpha": "token.alpha"}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([0.1], "`grid` must be a mapping from dotted keys"),
        ({TAU: 0.1}, f"`grid.{TAU}` must be a list of single values"),
        ({TAU: []}, f"`grid.{TAU}` must be a list of single values"),
        ({TAU: [[0.1]]}, f"`grid.{TAU}` must be a list of single values"),
        ({"objective.sequence.tua": [0.1]}, "There is no key `objective.sequence.tua`"),
    ],
    ids=["list", "number", "empty", "nested", "unknown"],
)
def test_a_grid_that_is_none_is_refused(tmp_path: Path, grid: Any, message: str) -> None:
    write(tmp_path, "one.yaml", CONFIG)
    with pytest.raises(ValueError, match=message):
        plan_sweep(write(tmp_path, "a.sweep.yaml", {"configs": ["one.yaml"], "grid": grid}), Path("runs"))


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"seeds": []}, "`seeds` must be a list of whole numbers, 0 or more"),
        ({"seeds": [True]}, "`seeds` must be a list of whole numbers, 0 or more"),
        ({"seeds": [-1]}, "`seeds` must be a list of whole numbers, 0 or more"),
        ({"overrides": {"row": date(2020, 1, 1)}}, "`overrides.row` must be text"),
        ({"overrides": {"seed": 3}}, "`overrides` must be without `seed`"),
        ({"grid": {"seed": [3]}}, "`grid` must be without `seed`"),
        ({"overrides": {"name": "../../elsewhere"}}, "`name` must be a relative path without"),
        ({"overrides": {"name": "/elsewhere"}}, "`name` must be a relative path without"),
    ],
    ids=["no seeds", "yes", "negative", "date", "seed", "seed in grid", "above", "absolute"],
)
def test_a_sweep_that_would_go_wrong_is_refused(tmp_path: Path, held: dict[str, Any], message: str) -> None:
    write(tmp_path, "one.yaml", CONFIG)
    with pytest.raises(ValueError, match=message):
        plan_sweep(write(tmp_path, "a.sweep.yaml", {"configs": ["one.yaml"]} | held), Path("runs"))


@pytest.mark.parametrize("seed", ["x", "1.5", "-1", ""])
def test_a_seed_that_is_none_is_refused(tmp_path: Path, seed: str) -> None:
    write(tmp_path, "one.yaml", CONFIG)
    sweep = write(tmp_path, "a.sweep.yaml", {"configs": ["one.yaml"]})
    with pytest.raises(ValueError, match=f"`seed` must be a whole number, 0 or more; it is '{seed}'"):
        plan_sweep(sweep, Path("runs"), [("seed", seed)])


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write(tmp_path, "one.yaml", CONFIG)
    write(tmp_path / "other", "one.yaml", CONFIG | {"optimizer": {"lr": 0.5}})
    sweep = write(tmp_path, "a.sweep.yaml", {"configs": ["one.yaml", "other/one.yaml"]})
    with pytest.raises(ValueError, match=r"both make runs/one/0, with other values of `optimizer\.lr`"):
        plan_sweep(sweep, Path("runs"))
    sweep = write(tmp_path, "a.sweep.yaml", {"configs": ["one.yaml"], "grid": {"data.folder": ["a/b", "a-b"]}})
    with pytest.raises(ValueError, match=r"both make runs/one/folder=a-b/0, with other values of `data\.folder`"):
        plan_sweep(sweep, Path("runs"))
    (tmp_path / "other" / "one.yaml").write_text((tmp_path / "one.yaml").read_text(encoding="utf-8"))
    sweep = write(tmp_path, "a.sweep.yaml", {"configs": ["one.yaml", "other/one.yaml", "one.yaml"], "seeds": [0, 0]})
    assert len(plan_sweep(sweep, Path("runs"))) == 1, "the same again is done once"


def test_a_folder_is_no_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"`sweep` names \., which is neither here nor"):
        plan_sweep(".", Path("runs"))
