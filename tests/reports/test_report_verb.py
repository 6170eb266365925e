from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from oracles.demo_runs import train_runs
from seqsmooth.cli.main import main
from seqsmooth.decoding import load_hypotheses
from seqsmooth.metrics.scorecard import Scorecard
from seqsmooth.metrics.scores import Scores
from seqsmooth.reports import Row, gather, write_report
from seqsmooth.reports.behaviour import Recall, behaviour, recalls
from seqsmooth.reports.examples import draw_examples
from seqsmooth.reports.rows import find_row
from seqsmooth.training.runs import Run
from seqsmooth.training.writing import DecodingOptions, write_split

pytest.importorskip("pytorch_lightning")
VOID = ("meta", "img")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train_runs(folder)
    return folder


@pytest.fixture(scope="module")
def folders(root: Path) -> list[Path]:
    return sorted(path.parent for path in (root / "runs").rglob("manifest.json"))


def gather_rows(folders: list[Path]) -> tuple[Row, ...]:
    (table,) = gather(folders, "test")
    return table.rows


def test_runs_become_rows(folders: list[Path]) -> None:
    rows = gather_rows(folders[::-1])
    assert [row.label for row in rows] == ["MLE", "Tok"]
    assert [row.seeds for row in rows] == [(0, 1), (0, 1)]
    ours = [100 * Scorecard.load(run.scores("test")).scores["cider"].value for run in _runs(rows[0])]
    assert rows[0].values("cider") == pytest.approx(ours)
    assert find_row(rows, "demo/tok") is rows[1]
    assert find_row(rows, "nothing") is None


def test_a_comparison_is_of_the_means_over_seeds(folders: list[Path]) -> None:
    (table,) = gather(folders, "test")
    mle, tok = table.rows
    table = replace(table, resamples=200)
    made, back = table.difference("cider", "Tok", "MLE"), table.difference("cider", "MLE", "Tok")
    assert made is not None
    assert back is not None
    low, high = made.items
    assert made.value == pytest.approx(mean(tok.values("cider")) - mean(mle.values("cider")))
    assert low <= made.value <= high
    assert made.trainings is None, "two seeds"
    assert (back.value, back.p_value) == pytest.approx((-made.value, made.p_value))
    # By hand: the same items drawn for both, the items' scores averaged over seeds.
    each = [
        np.mean([[scores["cider"][name] for name in scores["cider"]] for scores in _scores(row)], 0)
        for row in (tok, mle)
    ]
    drawn = np.random.default_rng(0).integers(12, size=(200, 12))
    differences = 100 * (each[0] - each[1])[drawn].mean(1)
    assert low == pytest.approx(np.quantile(differences, 0.025))
    assert high == pytest.approx(np.quantile(differences, 0.975))


def _runs(row: Row) -> list[Run]:
    return [record.run for record in row.records if record.run is not None]


def _scores(row: Row) -> list[Mapping[str, Scores]]:
    return [Scorecard.load(run.scores("test")).scores for run in _runs(row)]


def test_recall_counts_words_of_references_by_their_frequency() -> None:
    counts = {"a": 500, "dog": 20, "hound": 2, "cat": 40}
    written = [["a", "dog", "dog"], ["a", "hound"]]
    references = [[["a", "hound"], ["a", "dog", "zebra"]], [["a", "hound"]]]
    bins, rare = recalls(written, references, counts)
    # Items and words: (1, a), (1, hound), (1, dog), (2, a), (2, hound); a zebra has no count.
    assert bins == (Recall(1, 1, 2), Recall(10, 1, 1), Recall(300, 2, 2))
    assert rare == Recall(1, 2, 3), "hound and dog together are 22 of 562 words, less than 5 %"


def test_behaviour_is_remembered_until_something_changes(root: Path, folders: list[Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path / "run")
    run = Run.open(tmp_path / "run")
    first = behaviour(run, "test")
    kept = run.folder / "behaviour" / "test.json"
    held = json.loads(kept.read_text())
    held["behaviour"]["words"] = 12345
    kept.write_text(json.dumps(held))
    assert behaviour(run, "test").words == 12345, "it is remembered"
    held["decoded"] = "of other hypotheses"
    kept.write_text(json.dumps(held))
    assert behaviour(run, "test") == first
    kept.write_text("{")
    assert behaviour(run, "test") == first
    lengths = [len(found[0].tokens) for _, found in load_hypotheses(run.hypotheses_file("test"))]
    assert first.mean_length == pytest.approx(mean(lengths))
    assert sum(first.reference_lengths) == 5 * 12
    accuracy = [abs(b.confidence - b.right) for b in first.calibration]
    assert first.calibration_error == pytest.approx(sum(accuracy) / sum(b.tokens for b in first.calibration))


def test_decode_observes_in_the_same_breath(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folders[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "behaviour", ignore_errors=True)
    words = ["decode", str(tmp_path / "run"), "--metrics", "cider", "--device", "cpu", "--observe"]
    assert main(words) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    held = json.loads((tmp_path / "run" / "behaviour" / "test.json").read_text())["behaviour"]
    worst = held["corrupted"][-1]["nll"]
    assert told.startswith(f"NLL {held['nll']:.3f}, with 30% of the prefix replaced {worst:.3f};")
    assert held["nll"] == held["corrupted"][0]["nll"]
    assert main([*words, "--which", "last"]) == 2
    assert "`observe` must be of one run, its best weights and its own folder" in capsys.readouterr().err


def test_examples_are_drawn_by_the_seed(root: Path, folders: list[Path]) -> None:
    rows = gather_rows(folders)
    (run, _), corpus = _runs(rows[1]), _runs(rows[0])[0].corpus()
    ours = draw_examples(rows, 4, 0, root / "pictures")
    assert ours == draw_examples(rows, 4, 0, root / "pictures")
    assert [one.name for one in ours] != [one.name for one in draw_examples(rows, 4, 1)]
    assert all(one.picture.startswith("data:image/png;base64,") for one in ours)
    assert len(draw_examples(rows, 99, 0)) == 12
    texts = dict(run.hypotheses("test"))
    each = Scorecard.load(run.scores("test")).scores["cider"].each
    for one in ours:
        words = corpus.vocabulary.decode(texts[int(one.name)][0].tokens)
        assert one.outputs[1] == (" ".join(words), pytest.approx(100 * each[one.name]))


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass  # closed in itself


def test_the_verb_writes_a_whole_report(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["report", str(root / "runs"), "--out", "out", "--pictures", str(root / "pictures"), "--examples", "3"]
    assert main([*words, "--resamples", "50"]) == 0
    told = capsys.readouterr()
    assert re.search(r"^MLE +\d+\.\d ± ", told.out, re.MULTILINE)
    assert "report.html" in told.err
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    page = Balanced()
    page.feed(html)
    assert page.open == []
    page.sources.remove("index.html")
    assert len(page.sources) == 3
    assert all(source.startswith("data:") for source in page.sources), "nothing is loaded from elsewhere"
    listed = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert listed.count("<tr>") == 1 + 4
    assert "the same model and data" not in html, "it says only what it has checked"
    assert "demo/tok" in listed
    held = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert list(held["tables"][0]["rows"]) == ["MLE", "Tok"]
    assert r"\toprule" in (tmp_path / "out" / "tables.tex").read_text(encoding="utf-8")
    names = {path.stem for path in (tmp_path / "out" / "plots").glob("*.svg")}
    assert {"score", "validation-nll", "training-nll", "lengths", "recall", "calibration", "corrupted"} <= names
    assert main([*words, "--resamples", "50"]) == 0, "again, over what is there"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--baseline", "RAML"], "`baseline` must be the name of one row of every table; it is 'RAML'"),
        (["--split", "val"], "decoded (`seqsmooth decode "),
        (["--metrics", "spice"], "one that all runs are scored by"),
        (["--metrics", "glue"], "`metrics` must be one of"),
        (["--pictures", "nowhere"], "`pictures` must be a folder that is there; it is nowhere."),
        (["--resamples", "0"], "`resamples` must be 1 or more; it is 0."),
        (["--device", "tpu"], "`device` must be one of"),
    ],
)
def test_bad_input_is_one_sentence(
    root: Path, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["report", str(root / "runs"), "--out", str(tmp_path / "out"), *options]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("seqsmooth: error: ")
    assert sentence in told


def test_what_is_no_run_and_what_is_there_twice(folders: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be the folder of a run"):
        write_report([tmp_path], tmp_path / "out")
    shutil.copytree(folders[0], tmp_path / "copy")
    with pytest.raises(ValueError, match="are both of seed 0"):
        gather([folders[0], tmp_path / "copy"], "test")
    manifest = tmp_path / "copy" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished": true', '"finished": false'))
    with pytest.raises(ValueError, match="trained to its end"):
        gather([tmp_path / "copy"], "test")


def test_runs_without_scores_are_scored(folders: list[Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path / "run")
    known = Scorecard.load(tmp_path / "run" / "scores" / "test.json").scores["cider"].value
    (tmp_path / "run" / "scores" / "test.json").unlink()
    (row,) = gather_rows([tmp_path / "run"])
    assert row.first.scores["cider"].value == pytest.approx(100 * known)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda held: held["config"]["optimizer"].update(lr=0.5), "differ in `optimizer.lr`"),
        (lambda held: held["config"]["data"].update(fraction=0.5), "differ in `data.fraction`"),
    ],
    ids=["rate", "fraction"],
)
def test_runs_that_differ_in_more_than_their_seed_are_no_row(
    folders: list[Path], tmp_path: Path, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    shutil.copytree(folders[1], tmp_path / "other")
    held = json.loads((tmp_path / "other" / "manifest.json").read_text())
    change(held)
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(held))
    with pytest.raises(ValueError, match=f"The runs of a row must differ in their seed alone.*{told}"):
        gather([folders[0], tmp_path / "other"], "test")
    held["config"]["row"] = held["row"] = "Another loss"
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(held))
    assert [row.label for row in gather_rows([folders[0], tmp_path / "other"])] == ["MLE", "Another loss"]


def test_a_run_from_before_an_option_came_has_its_default(folders: list[Path], tmp_path: Path) -> None:
    shutil.copytree(folders[1], tmp_path / "other")
    held = json.loads((tmp_path / "other" / "manifest.json").read_text())
    assert held["config"]["data"].pop("fraction") == 1.0
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(held))
    for pair in ([folders[0], tmp_path / "other"], [tmp_path / "other", folders[0]]):
        (row,) = gather_rows(pair)
        assert len(row.records) == 2
    held["config"]["data"]["no such key"] = 1  # of a version that this one does not know
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(held))
    with pytest.raises(ValueError, match=r"differ in `data\.fraction`, `data\.no such key`"):
        gather([folders[0], tmp_path / "other"], "test")


def test_rows_decoded_in_different_ways_do_not_compare(folders: list[Path], tmp_path: Path) -> None:
    mle, tok = (tmp_path / name for name in ("mle", "tok"))
    shutil.copytree(folders[0], mle)
    shutil.copytree(folders[2], tok)

    def decode_greedily(run: Path) -> None:
        write_split(DecodingOptions(runs=(run,), beam=1, overwrite=True, metrics=("cider",), device="cpu"))

    decode_greedily(tok)
    with pytest.raises(ValueError, match="`runs` must be decoded as their configs say in a table"):
        write_report([mle, tok], tmp_path / "out", resamples=10)
    with pytest.raises(ValueError, match="differ in how they were decoded"):
        gather([folders[3], tok], "test")
    decode_greedily(mle)
    write_report([mle, tok], tmp_path / "out", resamples=10)


def test_hypotheses_that_are_cut_short_are_one_sentence(folders: list[Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path / "run")
    decoded = tmp_path / "run" / "decoded" / "test.jsonl"
    decoded.write_text("".join(decoded.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(ValueError, match=r"test\.jsonl` must be whole"):
        behaviour(Run.open(tmp_path / "run"), "test")


def test_a_report_replaces_nothing_but_a_report(folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(ValueError, match=r"`out` must be a new folder, or one of a report.*index\.html is no report"):
        write_report(folders, tmp_path / "site", resamples=10)
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]


def test_scores_of_two_signatures_are_no_row(folders: list[Path], tmp_path: Path) -> None:
    shutil.copytree(folders[1], tmp_path / "other")
    path = tmp_path / "other" / "scores" / "test.json"
    path.write_text(path.read_text().replace("cider:D|", "cider:E|"))
    with pytest.raises(ValueError, match="`records` must be of one signature of cider in a table"):
        gather([folders[0], tmp_path / "other"], "test")


def test_a_baseline_that_several_rows_could_be_is_none(folders: list[Path]) -> None:
    mle, tok = gather_rows(folders)
    points = [replace(mle, label=f"MLE (lr {rate})") for rate in (0.1, 0.2)]
    assert find_row([*points, tok], "MLE") is None, "the first would be as good as the second"
    assert find_row([*points, tok], "mle (lr 0.2)") is points[1]
    assert find_row([points[0], tok], "MLE") is points[0], "by its loss"
