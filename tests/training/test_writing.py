"""What is written for a split: whole, by the models that were asked for, and never at the cost of what was there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from oracles.small_corpora import captions
from oracles.small_runs import values
from seqsmooth.data import FeatureStore, Side, open_corpus, write_captions
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.training.reader import parse_config
from seqsmooth.training.runs import Run
from seqsmooth.training.trainer import train
from seqsmooth.training.writing import DecodingOptions, check_own, write_split


def trained(folder: Path, corpus: Path, seed: int = 0) -> Path:
    run = folder / "runs" / str(seed)
    given = values(corpus, seed=seed, trainer={"max_epochs": 2}, optimizer={"lr": 0.02})
    train(parse_config(given | {"objective": {}}), run)
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    captions(tmp_path / "corpus")
    made = trained(tmp_path, tmp_path / "corpus")
    write_split(DecodingOptions((made,), device="cpu", metrics=("cider",)))
    return made


def test_hypotheses_of_some_items_are_not_scored_as_if_of_all(run: Path) -> None:
    decoded = Run.open(run).hypotheses_file("test")
    decoded.write_text("".join(decoded.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(ValueError, match="has not all items of the split"):
        write_split(DecodingOptions((run,), device="cpu", metrics=("cider",)))
    report = write_split(DecodingOptions((run,), device="cpu", metrics=("cider",), overwrite=True))
    assert report is not None
    assert len(report.scores["cider"]) == 10


def test_what_is_to_be_replaced_stays_until_there_is_something_else(run: Path) -> None:
    opened = Run.open(run)
    before = opened.hypotheses_file("test").read_bytes(), opened.scores("test").read_bytes()
    opened.weights().write_bytes(b"no weights")
    for how, told in (
        ({}, "must be a safetensors file"),
        ({"metrics": ("cidre",)}, "`metrics` must be one of"),
        ({"which": "last", "batch_size": 0}, "`batch` must be 1 or more"),
        ({"which": "last", "beam": 2, "best": 5}, "`best` must be"),
    ):
        with pytest.raises(ValueError, match=told):
            write_split(DecodingOptions((run,), device="cpu", overwrite=True, **how))  # type: ignore[arg-type]
        assert (opened.hypotheses_file("test").read_bytes(), opened.scores("test").read_bytes()) == before


def test_models_that_read_other_features_do_not_write_together(run: Path, tmp_path: Path) -> None:
    corpus = open_corpus(tmp_path / "corpus")
    names = [name for split in corpus.splits for name in corpus.ids(split)]
    shuffled = np.random.default_rng(0).normal(size=(len(names), 6)).astype(np.float32)
    splits = {
        split: [
            (name, [" ".join(words) for words in each]) for name, each in zip(corpus.ids(split), texts, strict=True)
        ]
        for split, texts in ((split, corpus.references(split)) for split in corpus.splits)
    }
    other = write_captions(tmp_path / "other", splits, FeatureStore(names, shuffled), side=Side(min_count=1))
    assert other.vocabulary.checksum == corpus.vocabulary.checksum, "by their words they could"
    second = trained(tmp_path, other.folder, seed=1)
    with pytest.raises(ValueError, match=r"`runs` must be of the corpus of .*, whose corpus is another"):
        write_split(DecodingOptions((run, second), device="cpu", out=tmp_path / "both.jsonl"))


def test_an_ensemble_is_of_different_models(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(ValueError, match=r"`runs` must be different from each other; it is .*link twice"):
        write_split(DecodingOptions((run, tmp_path / "link"), device="cpu", out=tmp_path / "both.jsonl"))


def test_hypotheses_of_other_weights_are_known_for_it(run: Path) -> None:
    opened = Run.open(run)
    assert check_own(opened, "test") == {}
    write_split(DecodingOptions((run,), device="cpu", beam=1, which="last", overwrite=True, metrics=("cider",)))
    assert check_own(opened, "test") == {"beam": 1, "which": "last"}
    settings = json.loads(opened.hypotheses_file("test").with_suffix(".settings.json").read_text())
    for change in ({"weights": ["0" * 16]}, {"weights": settings["weights"] * 2}, {"corpus": "another"}):
        opened.hypotheses_file("test").with_suffix(".settings.json").write_text(json.dumps(settings | change))
        with pytest.raises(ValueError, match="must be written with the weights of"):
            check_own(opened, "test")
    opened.hypotheses_file("test").with_suffix(".settings.json").write_text("{}")
    with pytest.raises(ValueError, match="must be with its settings beside it"):
        check_own(opened, "test")
    assert set(Scorecard.load(opened.scores("test")).scores) == {"cider"}


def test_what_was_written_can_be_scored_when_the_weights_are_gone(run: Path, tmp_path: Path) -> None:
    opened = Run.open(run)
    before = Scorecard.load(opened.scores("test")).scores["cider"].value
    for path in {opened.weights("best"), opened.weights("last")}:
        path.unlink()
    report = write_split(DecodingOptions((run,), device="cpu", metrics=("bleu-4", "cider")))
    assert report is not None
    assert report.scores["cider"].value == before
    assert check_own(opened, "test") == {}
    with pytest.raises(ValueError, match="made in the same way"):
        write_split(DecodingOptions((run,), device="cpu", beam=2))
    settings = opened.hypotheses_file("test").with_suffix(".settings.json")
    held = json.loads(settings.read_text())
    settings.write_text(json.dumps(held | {"weights": held["weights"] * 2}))  # of two models, then
    with pytest.raises(ValueError, match="saved weights"):
        write_split(DecodingOptions((run,), device="cpu"))
    with pytest.raises(ValueError, match="saved weights"):
        write_split(DecodingOptions((run,), device="cpu", out=tmp_path / "other.jsonl"))
