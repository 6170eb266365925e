from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from oracles.demo_runs import train_runs
from seqsmooth.cli.main import main
from seqsmooth.decoding import load_hypotheses
from seqsmooth.metrics.bootstrap import resampled_sums
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.reports.behaviour import behaviour
from seqsmooth.reports.record import Record
from seqsmooth.reports.recording import record_run
from seqsmooth.training.reader import read_config
from seqsmooth.training.runs import Run
from seqsmooth.training.writing import DecodingOptions, write_split

pytest.importorskip("pytorch_lightning")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    for run in train_runs(folder)[:2]:
        behaviour(Run.open(run), "test")
    return folder


@pytest.fixture
def run(root: Path, tmp_path: Path) -> Path:
    """A run whose weights and corpus are elsewhere now."""
    shutil.copytree(root / "runs" / "mle" / "0", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(manifest.read_text().replace(str(root / "data"), "/nowhere/data"))
    return tmp_path / "run"


def test_a_record_holds_all_that_was_measured(run: Path, tmp_path: Path) -> None:
    made = record_run(run, "test")
    made.save(tmp_path / "record.json")
    read = Record.load(tmp_path / "record.json")
    manifest = json.loads((run / "manifest.json").read_text())
    for name in ("name", "row", "seed", "objective", "steps", "seconds", "versions", "device", "best", "started"):
        assert read.facts[name] == manifest[name]
    assert read.data == manifest["data"]["fingerprint"]
    assert read.facts["config"]["optimizer"] == manifest["config"]["optimizer"]
    assert "/nowhere" not in (tmp_path / "record.json").read_text(), "where the data was is nobody's business"
    assert read.curve["cider"] == [row["cider"] for row in Run.open(run).log if row["split"] == "val"]
    assert [row["nll"] for row in read.log] == list(read.curve["nll"])
    seen = behaviour(Run.open(run), "test")
    assert read.behaviour is not None
    assert read.behaviour.nll == pytest.approx(seen.nll, rel=1e-7)
    assert read.behaviour.lengths == seen.lengths
    assert read.behaviour.corrupted[3].accuracy == pytest.approx(seen.corrupted[3].accuracy, rel=1e-7)
    texts = dict(load_hypotheses(run / "decoded" / "test.jsonl"))
    words = json.loads((run / "vocabulary.json").read_text())["words"]
    assert len(read.examples) == 12, "of twelve items there are no twenty"
    for one in read.examples:
        assert one.text == " ".join(words[token] for token in texts[int(one.item)][0].tokens)


def test_tests_can_be_repeated_from_records_alone(run: Path, tmp_path: Path) -> None:
    record_run(run, "test").save(tmp_path / "record.json")
    read = Record.load(tmp_path / "record.json")
    for name, scores in Scorecard.load(run / "scores" / "test.json").scores.items():
        held = read.scores[name]
        assert held.signature == scores.signature
        assert held.value == pytest.approx(100 * scores.value)
        assert held.total(held.statistics.sum(0, keepdims=True))[0] == pytest.approx(held.value, rel=1e-6)
        drawn = np.random.default_rng(5).integers(12, size=(30, 12))
        theirs = 100 * scores.total(scores.statistics[drawn].sum(1), 12)
        assert held.total(resampled_sums(held.statistics, resamples=30, seed=5)) == pytest.approx(theirs, rel=1e-5)


def test_the_command_makes_the_config_of_the_run(root: Path) -> None:
    record = record_run(root / "runs" / "tok" / "1", "test")
    verb, base, option, loss, *words = record.commands[0].removeprefix("seqsmooth ").split()
    assert (verb, option) == ("train", "--loss")
    given = list(zip([word.removeprefix("--") for word in words[::2]], words[1::2], strict=True))
    config = read_config(base, [(key, value.strip("'")) for key, value in given], loss=loss)
    known = Run.open(root / "runs" / "tok" / "1").config
    assert (config.seed, config.name) == (1, "demo/tok")
    assert (config.objective, config.model, config.optimizer) == (known.objective, known.model, known.optimizer)
    assert config.trainer.max_epochs == known.trainer.max_epochs
    assert record.commands[1] == "seqsmooth decode runs/demo/tok/1 --split test"


def test_the_command_of_a_run_from_before_an_option_came(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "runs" / "tok" / "1", tmp_path / "1")
    manifest = tmp_path / "1" / "manifest.json"
    held = json.loads(manifest.read_text())
    assert held["config"]["data"].pop("fraction") == 1.0
    manifest.write_text(json.dumps(held))
    assert record_run(tmp_path / "1", "test").commands == record_run(root / "runs" / "tok" / "1", "test").commands


def test_the_commands_of_a_record_repeat_its_score(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = record_run(root / "runs" / "tok" / "1", "test")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "demo").symlink_to(root / "data")
    monkeypatch.chdir(tmp_path)
    for command in record.commands:
        verb, *words = shlex.split(command)
        assert verb == "seqsmooth"
        assert main([*words, *(["--metrics", "cider"] if words[0] == "decode" else [])]) == 0
    again = record_run(tmp_path / "runs" / "demo" / "tok" / "1", "test")
    assert again.scores["cider"].value == pytest.approx(record.scores["cider"].value, abs=1e-4)
    assert [one.text for one in again.examples] == [one.text for one in record.examples]


def test_all_runs_of_a_corpus_show_the_same_items(root: Path) -> None:
    records = [record_run(root / "runs" / loss / "0", "test") for loss in ("mle", "tok")]
    assert [one.item for one in records[0].examples] == [one.item for one in records[1].examples]
    assert records[0].items == records[1].items
    assert [record.behaviour is None for record in records] == [False, True], "tok was not observed"


def test_the_verb_writes_one_file_a_run(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["report", "record", str(root / "runs"), "--out", "results"]
    assert main(words) == 0
    names = sorted(path.name for path in (tmp_path / "results" / "demo").iterdir())
    assert names == [f"{loss}.{seed}.test.json" for loss in ("mle", "tok") for seed in (0, 1)]
    assert capsys.readouterr().err.count("not observed") == 2
    before = (tmp_path / "results" / "demo" / "mle.0.test.json").read_bytes()
    assert main(words) == 0, "again"
    assert (tmp_path / "results" / "demo" / "mle.0.test.json").read_bytes() == before
    shutil.copytree(root / "runs" / "mle" / "0", tmp_path / "other")
    manifest = tmp_path / "other" / "manifest.json"
    held = json.loads(manifest.read_text()) | {"started": "2001-01-01T00:00:00+00:00"}
    manifest.write_text(json.dumps(held))
    assert main(["report", "record", "other", "--out", "results"]) == 2
    assert "of the same run, or replaced with --overwrite" in capsys.readouterr().err
    assert main(["report", "record", "other", "--out", "results", "--overwrite"]) == 0
    (tmp_path / "other" / "scores" / "test.json").unlink()
    assert main(["report", "record", ".", "--out", "elsewhere"]) == 2, "there is none left"
    assert "left out other: no scores of test" in capsys.readouterr().err
    shutil.copy(root / "runs" / "mle" / "0" / "scores" / "test.json", tmp_path / "other" / "scores")
    assert main(["report", "record", "other", str(root / "runs"), "--out", "elsewhere"]) == 2
    assert "of different names, seeds or splits" in capsys.readouterr().err


def test_ensembles_and_other_beams_are_recorded(root: Path, tmp_path: Path) -> None:
    runs = tuple(root / "runs" / "mle" / seed for seed in ("0", "1"))
    write_split(DecodingOptions(runs=runs, out=tmp_path / "both.jsonl", beam=2, metrics=("cider",), device="cpu"))
    words = [
        "report",
        "record",
        *map(str, runs),
        "--hypotheses",
        str(tmp_path / "both.jsonl"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    read = Record.load(tmp_path / "out" / "demo" / "mle.0.test.both.json")
    assert (read.variant, read.members, read.decoding["beam"]) == ("both", (0, 1), 2)
    known = (
        "seqsmooth decode runs/demo/mle/0 runs/demo/mle/1 --split test --beam 2 --mean probabilities --out both.jsonl"
    )
    assert read.commands[-1] == known
    assert len(read.commands) == 3
    assert read.behaviour is None


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda run: (run / "scores" / "test.json").unlink(), "decoded and scored"),
        (lambda run: (run / "decoded" / "test.settings.json").unlink(), "with its settings beside it"),
        (
            lambda run: (run / "decoded" / "test.jsonl").write_text(
                "".join((run / "decoded" / "test.jsonl").read_text().splitlines(keepends=True)[1:])
            ),
            "of the hypotheses beside it",
        ),
        (
            lambda run: (run / "manifest.json").write_text(
                (run / "manifest.json").read_text().replace('"finished": true', '"finished": false')
            ),
            "trained to its end",
        ),
    ],
    ids=["scores", "settings", "items", "unfinished"],
)
def test_a_run_that_is_not_whole_is_one_sentence(
    run: Path, tmp_path: Path, spoil: object, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(run)  # type: ignore[operator]
    assert main(["report", "record", str(run), "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_damaged_record_is_one_sentence(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    record_run(run, "test").save(path)
    held = json.loads(path.read_text())
    for change in ({"kind": "else"}, {"statistics": {}}, {"behaviour": {}}, {"curve": [1]}, {"run": {}}):
        path.write_text(json.dumps({**held, **change}))
        with pytest.raises(ValueError, match="must be a file written by `seqsmooth report record`"):
            Record.load(path)
    with pytest.raises(ValueError, match=r"must be a file written by .* cannot be read"):
        Record.load(tmp_path / "nothing.json")


def test_hypotheses_of_others_are_not_recorded_for_a_run(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mle, tok = ([str(root / "runs" / loss / seed) for seed in ("0", "1")] for loss in ("mle", "tok"))
    for name, runs in (("both", mle), ("mixed", [mle[0], tok[0]])):
        out = tmp_path / f"{name}.jsonl"
        write_split(DecodingOptions(runs=tuple(map(Path, runs)), out=out, metrics=("cider",), device="cpu"))
    for name, runs, sentence in (
        ("both", mle[:1], "must be written with the weights of"),  # one of two
        ("both", mle[::-1], "must be written with the weights of"),
        ("both", tok, "must be written with the weights of"),
        ("mixed", [mle[0], tok[0]], "The runs of a row must differ in their seed alone"),
    ):
        words = [
            "report",
            "record",
            *runs,
            "--hypotheses",
            str(tmp_path / f"{name}.jsonl"),
            "--out",
            str(tmp_path / "out"),
        ]
        assert main(words) == 2, (name, runs)
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_hypotheses_of_one_name_do_not_replace_each_other(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, path = root / "runs" / "mle" / "0", tmp_path / "out" / "demo" / "mle.0.test.test.json"
    for beam in (1, 2):
        (tmp_path / str(beam)).mkdir()
        out = tmp_path / str(beam) / "test.jsonl"
        write_split(DecodingOptions(runs=(run,), out=out, beam=beam, metrics=("cider",), device="cpu"))
        words = ["report", "record", str(run), "--hypotheses", str(out), "--out", str(tmp_path / "out")]
        assert main(words) == (0 if beam == 1 else 2)
    assert "decoded in another way" in capsys.readouterr().err
    assert Record.load(path).decoding["beam"] == 1
    assert main([*words, "--overwrite"]) == 0
    assert Record.load(path).decoding["beam"] == 2


def test_a_run_decoded_otherwise_is_not_recorded_as_its_own(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root / "runs" / "mle" / "0", tmp_path / "run")
    for how, told in (({"beam": 1}, "decoded with beam 1"), ({"which": "last"}, "decoded with which last")):
        request = DecodingOptions(runs=(tmp_path / "run",), overwrite=True, metrics=("cider",), device="cpu", **how)
        write_split(request)
        assert main(["report", "record", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 2
        assert told in capsys.readouterr().err


def test_runs_behind_links_are_found(root: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "mle").mkdir(parents=True)
    (tmp_path / "runs" / "mle" / "0").symlink_to(root / "runs" / "mle" / "0")
    (tmp_path / "runs" / "tok").symlink_to(root / "runs" / "tok")
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs")
    assert main(["report", "record", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    found = sorted(path.name for path in (tmp_path / "out" / "demo").iterdir())
    assert found == ["mle.0.test.json", "tok.0.test.json", "tok.1.test.json"]


def test_the_command_of_a_config_of_ones_own_can_be_pasted(run: Path, tmp_path: Path) -> None:
    manifest = run / "manifest.json"
    held = json.loads(manifest.read_text())
    name = "my 'own' größe/tau=0.2,alpha=0.3"
    manifest.write_text(json.dumps(held | {"name": name, "config": held["config"] | {"name": name}}))
    train, decode = (shlex.split(command) for command in record_run(run, "test").commands)
    assert train == ["seqsmooth", "train", f"runs/{name}/0/config.yaml"]
    assert decode == ["seqsmooth", "decode", f"runs/{name}/0", "--split", "test"]


def test_a_record_never_leaves_its_folder(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = run / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"name": "../../elsewhere"}))
    assert main(["report", "record", str(run), "--out", str(tmp_path / "out")]) == 2
    assert "`name` must be a relative path without .." in capsys.readouterr().err
