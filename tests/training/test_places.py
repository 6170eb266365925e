"""Where configs are looked for: beside what names them, then among those of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seqsmooth.training.config import plain
from seqsmooth.training.places import shipped_configs
from seqsmooth.training.reader import differences, load_yaml, read_config
from seqsmooth.training.sweep import plan_sweep

ROOT = Path(__file__).resolve().parents[2] / "configs"


def test_configs_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped_configs()
    assert read_config("configs/demo/mle.yaml").name == "demo/mle"
    assert read_config("configs/demo/mle").row == "MLE"
    with pytest.raises(ValueError, match="`config` must be a file that is there"):
        read_config("configs/demo/nothing.yaml")


@pytest.mark.parametrize(
    "spelled", ["coco/stage_one/tok.yaml", "configs/coco/stage_one/tok.yaml", "coco/stage_one/tok"]
)
def test_a_config_of_ones_own_extends_one_of_the_package(spelled: str, tmp_path: Path) -> None:
    path = tmp_path / "mine" / "short.yaml"
    path.parent.mkdir()
    path.write_text(f"extends: {spelled}\ntrainer: {{max_epochs: 2}}\n", encoding="utf-8")
    theirs, mine = read_config(ROOT / "coco" / "stage_one" / "tok.yaml"), read_config(path)
    assert set(differences(plain(theirs), plain(mine))) == {"name", "trainer.max_epochs"}
    assert mine.name == "short"


def test_a_section_may_be_one_of_the_package(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: [demo/mle.yaml, {objective.token: chosen/captions/tok.yaml}]\n", encoding="utf-8")
    chosen = load_yaml(ROOT / "chosen" / "captions" / "tok.yaml")
    assert chosen.items() <= plain(read_config(path).objective)["token"].items()


def test_what_lies_beside_a_file_comes_before_what_the_package_has(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mle.yaml").write_text("extends: demo/mle.yaml\nseed: 41\n", encoding="utf-8")  # the package's
    (tmp_path / "mine.yaml").write_text("extends: demo/mle.yaml\n", encoding="utf-8")
    assert read_config(tmp_path / "mine.yaml").seed == 41


@pytest.mark.parametrize(
    ("spelled", "hint"),
    [
        ("coco/stag_one/mle.yaml", r" \(near it: coco/stage_one/mle\.yaml.*\)"),
        ("../../base/top_down.yaml", r" \(near it: base/top_down\.yaml.*\)"),  # as in a copy of the package's
        ("shart.yaml", r" \(near it: short\.yaml.*\)"),
        ("/configs/demo/mle.yaml", r" \(near it: demo/mle\.yaml.*\)"),
        ("zzzzzzzz", ""),
        ("../LICENSE", ""),  # beside the folder of configs, in a checkout
    ],
)
def test_a_file_that_nobody_has_is_looked_for_in_two_places(spelled: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(f"extends: {spelled}\n", encoding="utf-8")
    places = f"in {re.escape(str(tmp_path))} or among the package's in {re.escape(str(shipped_configs()[0]))}"
    sentence = f"`extends` must be a file that is there, {places}{hint}, but is {re.escape(spelled)} instead"
    with pytest.raises(ValueError, match=rf"^{sentence}\.$"):
        read_config(tmp_path / "short.yaml")


def test_a_sweep_of_ones_own_takes_configs_of_the_package(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.sweep.yaml"
    sweep.write_text("configs: [demo/mle.yaml, configs/demo/tok.yaml]\n", encoding="utf-8")
    assert [each.config for each in plan_sweep(sweep, tmp_path)] == [
        ROOT / "demo" / f"{row}.yaml" for row in ("mle", "tok")
    ]
    sweep.write_text("configs: [demo/mlle.yaml]\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`configs` must be a file .* \(near it: demo/mle\.yaml, .* demo/mlle\.yaml"):
        plan_sweep(sweep, tmp_path)
