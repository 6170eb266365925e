"""`seqsmooth train --list`: what there is to train."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqsmooth.cli.main import main
from seqsmooth.training.bases import Base, packaged_bases


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
