"""Corpora, runs, checkpoints and packaged models that commit a3199dc wrote are opened, resumed and scored as then.

The archive holds what that commit made of `oracles.small_corpora` and `oracles.small_runs`: `whole`, trained and
decoded; `stopped`, the same run, whose process died in step 20, after the checkpoint of step 16; `translation`, an
RNNsearch of one epoch; and `model`, that of `whole` as `seqsmooth.models.save` packs it.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import torch

from oracles.small_runs import weights
from seqsmooth import models
from seqsmooth.data import open_corpus
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.ops import dispatch
from seqsmooth.training.runs import Run, load_model
from seqsmooth.training.trainer import train
from seqsmooth.training.writing import DecodingOptions, check_own, write_split

ARCHIVE = Path(__file__).parents[1] / "oracles" / "runs_of_a3199dc.tar.xz"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)  # where the manifests say the corpora are
    return tmp_path


def test_a_run_that_stopped_goes_on_to_where_it_would_have_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dispatch.VARIABLE, "torch")  # with the choices of dropout that there were then
    run = Run.open(place / "stopped")
    assert not run.finished
    assert run.differing_keys(run.config) == []
    finished = train(run.config, run.folder)
    whole = Run.open(place / "whole")
    for key in ("best", "steps", "epochs", "objective"):
        assert finished.manifest[key] == whole.manifest[key]
    ours, theirs = weights(place / "stopped"), weights(place / "whole")
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name])
    assert [row["step"] for row in finished.log] == [row["step"] for row in whole.log]


def test_it_goes_on_with_other_choices_of_dropout_too(place: Path) -> None:
    finished, whole = train(Run.open(place / "stopped").config, place / "stopped"), Run.open(place / "whole")
    for key in ("steps", "epochs", "objective"):
        assert finished.manifest[key] == whole.manifest[key]
    assert [row["step"] for row in finished.log] == [row["step"] for row in whole.log]
    ours, theirs = ([row["nll"] for row in run.log if "nll" in row] for run in (finished, whole))
    assert ours == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize(("name", "metrics"), [("whole", ("bleu-4", "cider")), ("translation", ("bleu-4",))])
def test_what_was_decoded_is_known_scored_and_decoded_again(place: Path, name: str, metrics: tuple[str, ...]) -> None:
    run = Run.open(place / name)
    before, scores = run.hypotheses_file("test").read_bytes(), Scorecard.load(run.scores("test")).scores
    assert train(run.config, run.folder).manifest == run.manifest, "what is finished is left as it is"
    assert check_own(run, "test") == {}
    for overwrite in (False, True):
        report = write_split(DecodingOptions((run.folder,), device="cpu", metrics=metrics, overwrite=overwrite))
        assert report is not None
        assert {key: dict(score) for key, score in report.scores.items()} == {
            key: pytest.approx(dict(score)) for key, score in scores.items()
        }
        assert [score.signature for score in report.scores.values()] == [score.signature for score in scores.values()]
        lines = (run.hypotheses_file("test").read_bytes().count(b"\n"), before.count(b"\n"))
        assert lines[0] == lines[1]
    texts = [[best.tokens for best in several[:1]] for _, several in run.hypotheses("test")]
    run.hypotheses_file("test").write_bytes(before)
    assert texts == [[best.tokens for best in several[:1]] for _, several in run.hypotheses("test")]


def test_models_of_a_run_and_of_a_package_are_the_same(place: Path) -> None:
    packed, (trained, corpus) = models.load(place / "model"), load_model(place / "whole")
    theirs = trained.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in packed.state_dict().items())
    assert corpus.fingerprint == open_corpus(place / "captions").fingerprint
