"""Where configs are looked for: beside what names them, then among those of the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oracles import resolved_configs
from seqsmooth.training.bases import explain_move, respell
from seqsmooth.training.config import plain
from seqsmooth.training.places import packaged_folders
from seqsmooth.training.reader import differences, read_config
from seqsmooth.training.sweep import plan_sweep

ROOT = Path(__file__).resolve().parents[2] / "configs"


def test_configs_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert packaged_folders()
    for path in ("demo", "configs/demo", "demo.yaml", "configs/demo.yaml"):
        assert read_config(path, loss="mle").name == "demo/mle"
    assert read_config("flickr8k/stage_one").row == "MLE, stage one"
    with pytest.raises(ValueError, match="`config` names configs/demmo, which is neither here nor"):
        read_config("configs/demmo")


@pytest.mark.parametrize(
    "spelled", ["coco/stage_one/tok.yaml", "configs/coco/stage_one/tok.yaml", "coco/stage_one/tok"]
)
def test_a_config_of_ones_own_extends_one_of_the_package(spelled: str, tmp_path: Path) -> None:
    path = tmp_path / "mine" / "short.yaml"
    path.parent.mkdir()
    path.write_text(f"extends: {spelled}\ntrainer: {{max_epochs: 2}}\n", encoding="utf-8")
    theirs, mine = read_config("coco/stage_one", loss="tok"), read_config(path)
    assert set(differences(plain(theirs), plain(mine))) == {"name", "trainer.max_epochs"}
    assert mine.name == "short"


def test_a_section_may_be_one_of_the_package(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: [demo/mle.yaml, {objective.token: coco/stage_one/tok}]\n", encoding="utf-8")
    chosen = read_config("coco/stage_one", loss="tok").objective.token
    assert read_config(path).objective.token == chosen
    path.write_text("extends: [demo/mle.yaml, {objective.token: coco/stage_one/mle}]\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`extends` must be a row that sets `objective\.token`"):
        read_config(path)


def test_what_lies_beside_a_file_comes_before_what_the_package_has(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mle.yaml").write_text("extends: demo/mle.yaml\nseed: 41\n", encoding="utf-8")  # the package's
    (tmp_path / "mine.yaml").write_text("extends: demo/mle.yaml\n", encoding="utf-8")
    assert read_config(tmp_path / "mine.yaml").seed == 41


@pytest.mark.parametrize(
    ("spelled", "hint"),
    [
        ("coco/stag_one/mle.yaml", r"; near it: coco/stage_one/mle, .*"),
        ("../../models/top_dwn.yaml", r"; near it: models/top_down.*"),  # as in a copy of the package's
        ("shart.yaml", r"; near it: short.*"),
        ("/elsewhere/demo/mle.yaml", r".*"),
        ("zzzzzzzz", ""),
        ("../LICENSE", ""),  # beside the folder of configs, in a checkout
    ],
)
def test_a_file_that_nobody_has_is_looked_for_in_two_places(spelled: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(f"extends: {spelled}\n", encoding="utf-8")
    places = f"in {re.escape(str(tmp_path))} nor among the package's in {re.escape(str(packaged_folders()[0]))}"
    sentence = f"`extends` names {re.escape(spelled)}, which is neither {places}{hint}"
    with pytest.raises(ValueError, match=rf"^{sentence}\.$"):
        read_config(tmp_path / "short.yaml")


def test_a_sweep_of_ones_own_takes_configs_of_the_package(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.sweep.yaml"
    sweep.write_text("configs: [demo/mle.yaml, configs/demo/tok]\n", encoding="utf-8")
    planned = [(each.file, each.loss) for each in plan_sweep(sweep, tmp_path)]
    assert planned == [(ROOT / "demo.yaml", row) for row in ("mle", "tok")]
    sweep.write_text("configs: [demo/mlle]\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`configs` names demo/mlle, which is .*; near it: demo/mle"):
        plan_sweep(sweep, tmp_path)


@pytest.mark.parametrize(
    ("former", "spelled"),
    [
        ("configs/coco/stage_one/tok.yaml", "coco/stage_one --loss tok"),
        ("coco/stage_one/fifteen/mle.yaml", "coco/stage_one/fifteen --loss mle"),
        ("demo/mle", "demo --loss mle"),
        ("configs/coco/stage_one/main.sweep.yaml", "coco/stage_one --sweep main"),
        ("configs/multi30k/grids/tok.sweep.yaml", "multi30k --sweep tok"),
        ("configs/demo/demo.sweep.yaml", "demo --sweep demo"),
    ],
)
def test_a_path_from_before_losses_were_lists_names_the_new_spelling(former: str, spelled: str) -> None:
    sentence = rf"^There is no file {re.escape(former)} any more: it is `seqsmooth train {spelled}` now\.$"
    with pytest.raises(ValueError, match=sentence):
        plan_sweep(former, Path("runs")) if "sweep" in former else read_config(former)


@pytest.mark.parametrize(
    ("former", "spelled"),
    [
        ("seqsmooth train configs/demo/tok.yaml --seed 0", "seqsmooth train demo --loss tok --seed 0"),
        ("seqsmooth train configs/flickr8k/stage_one.yaml", "seqsmooth train flickr8k/stage_one"),
        ("seqsmooth train coco/stage_one --loss tok --seed 0", "seqsmooth train coco/stage_one --loss tok --seed 0"),
        ("seqsmooth train configs/made/tok.yaml --seed 0", "seqsmooth train configs/made/tok.yaml --seed 0"),
        ("seqsmooth decode runs/coco/stage_one/tok/0", "seqsmooth decode runs/coco/stage_one/tok/0"),
    ],
)
def test_a_command_of_a_record_is_spelled_as_it_is_now(former: str, spelled: str) -> None:
    assert respell(former) == spelled


def test_every_former_path_has_a_new_spelling() -> None:
    hashes = json.loads(resolved_configs.LIST.read_text(encoding="utf-8"))
    for name in hashes["configs"]:
        if name not in ("flickr8k/stage_one", "flickr8k/stage_two"):  # files still
            base, loss = name.rsplit("/", 1)
            assert f"`seqsmooth train {base} --loss {loss}`" in str(explain_move(f"configs/{name}.yaml"))
    for name in hashes["sweeps"]:
        base, sweep = name.replace("/grids", "").rsplit("/", 1)
        assert f"`seqsmooth train {base} --sweep {sweep}`" in str(explain_move(f"configs/{name}.sweep.yaml"))
    assert "Extend a base" in str(explain_move("configs/base/stage_one.yaml"))
    assert "{objective.token: coco/stage_one/tok}" in str(explain_move("chosen/captions/tok.yaml"))
