"""`seqsmooth train` and `seqsmooth decode`, from a folder that is not the project's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from oracles.small_corpora import captions, pairs
from seqsmooth.cli.main import main
from seqsmooth.data import FeatureStore
from seqsmooth.decoding import BeamSearch, Ensemble
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.models.weights import load_weights, save_weights
from seqsmooth.training import Run, load_model

CAPTIONS: dict[str, Any] = {
    "row": "MLE",
    "data": {"folder": "corpus", "batch_size": 20, "captions_per_image": 5},
    "model": {"kind": "show_tell", "units": 16, "embedding_size": 16, "embedding_dropout": 0.0},
    "optimizer": {"lr": 0.02},
    "trainer": {"max_epochs": 3, "device": "cpu", "progress": False},
    "validation": {"limit": 7},
    "decoding": {"beam": 2, "max_length": 9},
}
PAIRS: dict[str, Any] = {
    "data": {"folder": "corpus", "batch_size": 16},
    "model": {"kind": "rnnsearch", "units": 16, "embedding_size": 16, "encoder_units": 16},
    "optimizer": {"lr": 0.02},
    "trainer": {"max_epochs": 2, "device": "cpu", "progress": False},
    "validation": {"metrics": ["sacrebleu"], "monitor": "sacrebleu", "beam": 2},
    "decoding": {"beam": 3, "max_length": 12, "batch_size": 7},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, values: dict[str, Any], name: str = "small.yaml") -> None:
    (folder / name).write_text(yaml.safe_dump(values), encoding="utf-8")


def test_each_verb_opens_the_corpus_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions(folder / "corpus")
    write(folder, CAPTIONS)
    opened = []
    open_features = FeatureStore.open
    monkeypatch.setattr(FeatureStore, "open", lambda path: opened.append(path) or open_features(path))
    assert main(["train", "small.yaml", "--decode", "val,test", "--metrics", "cider", "--observe"]) == 0
    assert len(opened) == 1
    again = ["--beam", "1", "--overwrite", "--metrics", "cider", "--observe"]
    assert main(["decode", "runs/small/0", "--split", "val", *again]) == 0
    assert len(opened) == 2


def test_from_a_config_to_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions(folder / "corpus")
    write(folder, CAPTIONS)
    assert main(["train", "small.yaml", "--seed", "3"]) == 0
    run = Run.open("runs/small/3")
    assert run.finished
    assert run.manifest["row"] == "MLE"
    assert run.manifest["seed"] == 3
    assert run.config.seed == 3
    assert run.manifest["steps"] == 45
    assert [row["step"] for row in run.log if row["split"] == "val"] == [15, 30, 45]
    best = max(row["cider"] for row in run.log if row["split"] == "val")
    assert run.manifest["best"]["value"] == pytest.approx(best, rel=1e-5)
    assert "runs/small/3: 45 steps in " in capsys.readouterr().err
    assert main(["train", "small.yaml", "--seed", "3"]) == 0
    assert "runs/small/3: finished before, left as it is: 45 steps in " in capsys.readouterr().err
    assert main(["decode", "runs/small/3", "--metrics", "cider,bleu-4"]) == 0
    assert "CIDEr-D" in capsys.readouterr().out
    found = run.hypotheses("test")
    assert [name for name, _ in found] == [f"image{number}" for number in range(70, 80)]
    report = Scorecard.load(run.scores("test"))
    assert set(report.scores) == {"cider", "bleu-4"}
    # What the file holds is what the best weights write.
    model, corpus = load_model(run.folder)
    search = BeamSearch(corpus.vocabulary.specials(), 9, width=2)
    alone = [search(model, *corpus.inputs("test", [row], "cpu")).lists()[0][0].tokens for row in range(10)]
    assert [each[0].tokens for _, each in found] == alone
    # Once more: nothing is decoded again; another way is refused, and done elsewhere or where it is asked for.
    before = run.hypotheses_file("test").stat().st_mtime_ns
    assert main(["decode", "runs/small/3", "--no-score"]) == 0
    assert run.hypotheses_file("test").stat().st_mtime_ns == before
    assert main(["decode", "runs/small/3", "--beam", "4"]) == 2
    assert "was made with other settings or weights" in capsys.readouterr().err
    assert main(["decode", "runs/small/3", "--beam", "4", "--out", "four.jsonl", "--metrics", "cider"]) == 0
    assert (folder / "four.scores.json").is_file()
    assert main(["decode", "runs/small/3", "--beam", "1", "--overwrite", "--no-score"]) == 0
    assert not run.scores("test").exists()  # they were of other hypotheses
    whole = run.hypotheses_file("test").read_bytes()
    run.hypotheses_file("test").write_bytes(whole[:-20])
    assert main(["decode", "runs/small/3", "--beam", "1", "--no-score"]) == 2
    assert "is damaged: `path` must hold a line" in capsys.readouterr().err
    assert main(["decode", "runs/small/3", "--beam", "1", "--no-score", "--overwrite"]) == 0
    assert run.hypotheses_file("test").read_bytes() == whole


def test_what_was_interrupted_is_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs(folder / "corpus")
    write(folder, PAIRS)
    assert main(["train", "small.yaml"]) == 0
    run = Run.open("runs/small/0")
    calls = []
    whole = BeamSearch.__call__

    def dying(self: BeamSearch, model: Any, *inputs: torch.Tensor) -> Any:
        calls.append(inputs[0].shape)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(self, model, *inputs)

    with monkeypatch.context() as patch:
        patch.setattr(BeamSearch, "__call__", dying)
        assert main(["decode", "runs/small/0", "--no-score"]) == 130
    assert [shape[1] for shape in calls] == sorted((shape[1] for shape in calls), reverse=True)  # the longest first
    assert not run.hypotheses_file("test").is_file()
    assert main(["decode", "runs/small/0", "--no-score", "--beam", "2"]) == 2  # half of it is of another width
    assert run.hypotheses_file("test").with_name("test.jsonl.partial").is_file()
    calls.clear()
    assert main(["decode", "runs/small/0"]) == 0
    assert [name for name, _ in run.hypotheses("test")] == list(range(20))
    assert json.loads(run.scores("test").read_text(encoding="utf-8"))["scores"].keys() == {"sacrebleu", "bleu-4"}


def test_an_ensemble(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions(folder / "corpus")
    write(folder, CAPTIONS | {"trainer": {"max_epochs": 1, "device": "cpu", "progress": False}})
    write(folder, {"configs": ["small.yaml"], "seeds": [0, 1]}, "both.sweep.yaml")
    for seed in ("0", "1"):
        assert main(["train", "small.yaml", "--seed", seed]) == 0
    assert main(["train", "--sweep", "both.sweep.yaml"]) == 0  # both are finished, and passed over
    assert "2 of 2 runs were done before" in capsys.readouterr().err
    runs = ["runs/small/0", "runs/small/1"]
    assert main(["decode", *runs]) == 2
    assert "`out` must be given for an ensemble" in capsys.readouterr().err
    assert main(["decode", *runs, "--out", "both.jsonl", "--mean", "log-probabilities", "--metrics", "cider"]) == 0
    members = [load_model(run)[0] for run in runs]
    corpus = Run.open(runs[0]).corpus()
    search = BeamSearch(corpus.vocabulary.specials(), 9, width=2)
    both = Ensemble(members, "log-probabilities")
    expected = [each[0].tokens for each in search(both, *corpus.inputs("test", range(10), "cpu")).lists()]
    lines = [json.loads(line) for line in (folder / "both.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [tuple(line["hypotheses"][0]["tokens"]) for line in lines] == expected


def test_a_corpus_that_has_moved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions(folder / "corpus")
    write(folder, CAPTIONS | {"trainer": {"max_epochs": 1, "device": "cpu", "progress": False}})
    assert main(["train", "small.yaml"]) == 0
    (folder / "corpus").rename(folder / "moved")
    capsys.readouterr()
    assert main(["decode", "runs/small/0", "--no-score"]) == 2
    assert "`data.folder` must be what `seqsmooth prepare` wrote" in capsys.readouterr().err
    captions(folder / "other", seed=4)
    assert main(["decode", "runs/small/0", "--no-score", "--data", "other"]) == 2
    assert "must be the corpus that the run began with" in capsys.readouterr().err
    assert main(["decode", "runs/small/0", "--no-score", "--data", "moved", "--length", "none"]) == 0
    assert len(Run.open("runs/small/0").hypotheses("test")) == 10


def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions(folder / "corpus")
    write(folder, CAPTIONS)
    for words, message in (
        (["train", "small.yaml", "--trainer.max_epoch", "1"], "nearest is `trainer.max_epochs`"),
        (["train", "nothing.yaml"], "`config` names nothing.yaml, which is neither here nor among the package"),
        (["train"], "give a BASE and a --loss, or --list to list the bases"),
        (["train", "small.yaml", "--data.folder", "nowhere"], "`data.folder` must be what `seqsmooth prepare` wrote"),
        (["train", "small.yaml", "--model.kind", "rnnsearch"], "`model.kind` must be one for captions"),
        (["train", "small.yaml", "--model", "{kind: top_down}"], "`model.kind` must be show_tell for pooled features"),
        (["train", "small.yaml", "--data.train", "training"], "`data.train` must be one of"),
        (["train", "small.yaml", "--validation.monitor", "spice"], "`validation.monitor` must be one of"),
        (["train", "small.yaml", "--objective.token", "{kind: similarity, vectors: no.txt, tau: 1}"], "`vectors` must"),
        (
            ["train", "small.yaml", "--objective.token", "{kind: similarity, vectors: no.txt, tau: 1}"],
            "seqsmooth glove",
        ),
        (["train", "small.yaml", "--decoding.beam", "0"], "`decoding.beam` must be 1 or more; it is 0"),
        (["train", "small.yaml", "--validation.limit", "0"], "`validation.limit` must be 1 or more; it is 0"),
        (["train", "small.yaml", "--validation.beam", "0"], "`validation.beam` must be 1 or more; it is 0"),
        (["decode", "corpus"], "`run` must be the folder of a run"),
    ):
        assert main([*words, "--run", f"run{len(message)}"] if words[:1] == ["train"] and words[1:] else words) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["score", "a", "b", "--trainer.max_epochs", "1"])
    assert caught.value.code == 2


@pytest.mark.parametrize("words", [["train", "small.yaml"], ["decode", "run"]])
def test_a_package_that_is_missing_is_named(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from seqsmooth.cli import train

    monkeypatch.setattr(train, "find_spec", lambda name: None if name == "safetensors" else name)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"`safetensors` must be installed for seqsmooth {words[0]}" in said
    assert "pip install 'seqsmooth[toolkit]'" in said


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("train", "report choose", "decode"):
        with pytest.raises(SystemExit) as caught:
            main([*verb.split(), "--help"])
        assert caught.value.code == 0
        assert f"  seqsmooth {verb} " in capsys.readouterr().out.split("examples:")[1]


def test_print_config_does_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, CAPTIONS)
    assert main(["train", "small.yaml", "--print_config", "--trainer.max_epochs=9"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["trainer"]["max_epochs"] == 9
    assert not (folder / "runs").exists()


def test_weights_of_another_vocabulary_or_model_are_refused(tmp_path: Path) -> None:
    from seqsmooth.models import ShowTell

    torch.manual_seed(0)
    model = ShowTell(20, 6, 8, 8, tied=True)
    path = tmp_path / "weights.safetensors"
    save_weights(path, model, vocabulary="abc")
    twin = ShowTell(20, 6, 8, 8, tied=True)
    load_weights(path, twin, vocabulary="abc")
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), twin.parameters(), strict=True))
    with pytest.raises(ValueError, match=r"^The weights in .* are of another vocabulary: abc there, xyz here\.$"):
        load_weights(path, twin, vocabulary="xyz")
    with pytest.raises(ValueError, match=r"are of another model than this config's: it has no `"):
        load_weights(path, ShowTell(20, 6, 8, 9))
    with pytest.raises(ValueError, match=r"are not complete; missing: "):
        load_weights(path, ShowTell(20, 6, 8, 8))  # whose head is its own
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="must be a safetensors file; it is damaged"):
        load_weights(path, twin)
    with pytest.raises(ValueError, match="`weights` must be a file that is there"):
        load_weights(tmp_path / "nothing.safetensors", twin)


def test_what_needs_no_lightning_does_not_wait_for_it(folder: Path) -> None:
    """A finished run, and what is wrong with a config on its corpus; a run that is trained does need it."""
    captions(folder / "corpus")
    short = {**CAPTIONS, "trainer": {**CAPTIONS["trainer"], "max_epochs": 1}}
    (folder / "short.yaml").write_text(yaml.safe_dump(short))
    code = (
        "import sys; from seqsmooth.cli.main import main; status = main(sys.argv[1:]); "
        "print(status, 'pytorch_lightning' in sys.modules)"
    )

    def answer(*more: str) -> tuple[str, str]:
        words = [sys.executable, "-c", code, "train", "short.yaml", "--run", "run", *more]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return done.stdout.strip(), done.stderr

    status, error = answer("--data.train", "nowhere")
    assert (status, "`data.train` must be one of 'train', 'val', 'test'" in error) == ("2 False", True), error
    status, error = answer("--validation.monitor", "bleu-1")
    assert (status, "`validation.monitor` must be one of `validation.metrics`" in error) == ("2 False", True), error
    assert answer()[0] == "0 True"
    status, error = answer()
    assert (status, "finished before, left as it is" in error) == ("0 False", True), error
