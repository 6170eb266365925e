"""Bases and their losses on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from seqsmooth.cli.main import main
from seqsmooth.training.bases import Base, packaged_bases
from seqsmooth.training.reader import parse_config, read_config


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    return lines


def test_the_bases_are_listed_with_their_summaries(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(["train", "--list"], capsys)
    names = [base.name for base in packaged_bases()]
    assert [line.split()[0] for line in lines[1 : len(names) + 1]] == names, "each on a line of its own"
    assert all(base.summary for base in packaged_bases())


@pytest.mark.parametrize("base", packaged_bases(), ids=lambda base: base.name)
def test_a_base_lists_its_losses_and_sweeps(base: Base, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(["train", base.name, "--list"], capsys)
    first = {line.split("  ")[0] for line in lines}
    assert {*base.losses, *base.sweeps} <= first
    assert lines[-1].startswith(f"  seqsmooth train {base.name}")


def test_a_base_of_ones_own_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("extends: demo\nsweeps: {few: {losses: ['*seq'], seeds: [0, 1, 2]}}\n")
    lines = printed(["train", str(tmp_path / "mine.yaml"), "--list"], capsys)
    assert "few 6 = 2 losses x 3 seeds" in [" ".join(line.split()) for line in lines]


def test_a_base_of_ones_own_is_trained_by_its_losses_and_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("extends: demo\nsweeps: {few: {losses: ['*seq'], seeds: [0, 1]}}\n")
    assert main(["train", "mine.yaml", "--loss", "tok_seq", "--trainer.max_epochs", "3", "--print_config"]) == 0
    config = parse_config(yaml.safe_load(capsys.readouterr().out))
    assert (config.name, config.trainer.max_epochs) == ("mine/tok_seq", 3)
    assert config.objective == read_config("demo", loss="tok_seq").objective
    for words in (["mine.yaml", "--sweep", "few"], ["--sweep", "mine/few"]):
        assert main(["train", *words, "--print_config"]) == 0
        commands = capsys.readouterr().out.splitlines()
        assert len(commands) == 4
        assert commands[-1].endswith("--loss tok_seq --run runs/mine/tok_seq/1 --seed 1")
    for words, message in (
        (["mine.yaml"], "A run of mine needs one of its 5 losses, as in `--loss mle`"),
        (["mine.yaml", "--loss", "sqe"], "There is no loss `sqe` in mine; the nearest is `seq`."),
        (["mine.yaml", "--sweep", "fw"], "There is no sweep `fw` in mine; the nearest is `few`."),
        (["mine.yaml", "--sweep", "few", "--loss", "tok"], "`loss` must be left out with --sweep"),
        (["configs/demo/tok.yaml"], "it is `seqsmooth train demo --loss tok` now."),
        (["--sweep", "configs/demo/demo.sweep.yaml"], "it is `seqsmooth train demo --sweep demo` now."),
    ):
        assert main(["train", *words]) == 2
        assert message in capsys.readouterr().err
