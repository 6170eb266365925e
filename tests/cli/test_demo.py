from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from seqsmooth.cli import demo
from seqsmooth.cli.main import main
from seqsmooth.reports.losses import name_loss
from seqsmooth.training.bases import open_base
from seqsmooth.training.config import plain
from seqsmooth.training.reader import read_config

pytest.importorskip("pytorch_lightning")
ALL, TWO = demo.LOSSES, ("mle", "tok_seq")
SMALL = ["--scenes", "40", "--epochs", "1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a small demo has run once."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "LOSSES", TWO)
        patch.chdir(folder)
        assert main(["demo", *SMALL]) == 0
    return folder


@pytest.fixture(autouse=True)
def two_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LOSSES", TWO)


def test_five_losses_are_compared() -> None:
    assert list(ALL) == list(open_base("configs/demo").losses)
    names = [name_loss(plain(read_config("configs/demo", loss=loss).objective)) for loss in ALL]
    assert [name.loss for name in names] == ["MLE", "Label smoothing", "Tok", "Seq, lazy", "Tok-Seq, lazy"]


@pytest.mark.slow
def test_it_leaves_a_page(place: Path) -> None:
    html = (place / "demo" / "report" / "report.html").read_text(encoding="utf-8")
    held = json.loads((place / "demo" / "report" / "report.json").read_text(encoding="utf-8"))
    rows = held["tables"][0]["rows"]
    kinds = [row["loss"]["loss"] for row in rows.values()]
    assert kinds == ["MLE", "Tok-Seq, lazy"]
    assert all(label in html for label in rows)
    assert html.count("data:image/png;base64,") == 6
    assert (place / "data" / "demo" / "corpus.json").is_file(), "where the configs look for it"


@pytest.mark.slow
def test_a_second_time_nothing_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    kept = [path for path in place.rglob("*") if path.suffix in (".safetensors", ".npy", ".jsonl", ".png")]
    times = {path: path.stat().st_mtime_ns for path in kept}
    assert len(times) > 20
    assert main(["demo", *SMALL]) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    told = capsys.readouterr()
    assert re.search(r"^MLE +\d+\.\d", told.out, re.MULTILINE)
    assert "report.html" in told.out
    assert told.err.count("[") == 5, "a line for each stage"
    assert "\r" not in told.err


@pytest.mark.slow
def test_another_corpus_or_another_length_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert main(["demo", "--scenes", "41"]) == 2
    assert "which is another corpus" in capsys.readouterr().err
    assert main(["demo", "--scenes", "40", "--epochs", "2"]) == 2
    assert "was begun with another config" in capsys.readouterr().err


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "yaml" else object())
    assert main(["demo"]) == 2
    assert capsys.readouterr().err.endswith(
        "which needs what is not installed: yaml: pip install 'seqsmooth[toolkit]'.\n"
    )


def test_on_a_terminal_a_bar_moves(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    stage = demo.Stage(2)
    with stage("draw") as show:
        show(1, 4, "pictures")
    told = capsys.readouterr().err
    assert "\r\x1b[K[1/2] draw" in told
    assert " 25%  pictures" in told
    assert told.endswith("\n")
