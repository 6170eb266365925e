from __future__ import annotations

import json
from pathlib import Path

import pytest

from oracles.result_pages import text_of
from seqsmooth.cli.main import main
from seqsmooth.data.writing import write_pairs
from seqsmooth.reports.results import read_results
from seqsmooth.training.reader import parse_config
from seqsmooth.training.trainer import train
from seqsmooth.training.writing import DecodingOptions, write_split

pytest.importorskip("pytorch_lightning")
BLEU = pytest.importorskip("sacrebleu.metrics.bleu").BLEU
WORDS = ("one", "two", "three", "four", "five", "six")


def pairs(number: int, shift: int) -> list[tuple[str, str]]:
    """Sentences, and the same backwards."""
    made = []
    for n in range(number):
        words = [WORDS[(n * (k + 2) + k + shift) % len(WORDS)] for k in range(3 + n % 4)]
        made.append((" ".join(words), " ".join(reversed(words))))
    return made


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("translation")
    write_pairs(root / "data", {"train": pairs(40, 0), "val": pairs(8, 1), "test": pairs(10, 2)})
    smooth = {"token": {"kind": "uniform", "alpha": 0.1}}
    for table in ("small", "smaller"):
        for row, objective in (("MLE", {}), ("Label smoothing", smooth)):
            held = {
                "name": f"{table}-{row}",
                "row": row,
                "table": table,
                "data": {"folder": str(root / "data"), "batch_size": 20},
                "model": {"kind": "rnnsearch", "embedding_size": 8, "encoder_units": 8, "units": 8},
                "objective": objective,
                "optimizer": {"lr": 0.02},
                "trainer": {"max_epochs": 1, "device": "cpu", "progress": False},
                "validation": {"metrics": ["sacrebleu"], "monitor": "sacrebleu"},
                "decoding": {"beam": 2, "max_length": 8},
            }
            folder = root / "runs" / table / row
            train(parse_config(held), folder)
            write_split(DecodingOptions(runs=(folder,), device="cpu"))
    return root / "runs"


def test_two_tables_of_translations(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["report", str(runs), "--out", str(out), "--examples", "2", "--resamples", "20"]) == 0
    told = capsys.readouterr().out
    assert told.count("MLE  ") == 2
    held = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [table["title"] for table in held["tables"]] == ["small", "smaller"]
    assert all(list(table["rows"]) == ["MLE", "Label smoothing"] for table in held["tables"])
    html = (out / "report.html").read_text(encoding="utf-8")
    sources = [source for source, _ in pairs(10, 2) if f"<p>{source}</p>" in html]
    assert sources, "what was to be translated is shown"
    assert "<img" not in html
    assert (out / "tables.tex").read_text(encoding="utf-8").count(r"\begin{tabular}") == 2
    assert (out / "plots" / "1-calibration.svg").is_file()


def test_translations_are_recorded_with_their_counts(runs: Path, tmp_path: Path) -> None:
    assert main(["report", "record", str(runs), "--out", str(tmp_path / "results")]) == 0
    made = read_results(tmp_path / "results")
    assert [table.name for table in made.tables] == ["small", "smaller"]
    for record in made.records:
        held = record.scores["sacrebleu"]
        assert held.statistics.shape == (10, 10)
        assert held.total(held.statistics.sum(0, keepdims=True))[0] == pytest.approx(held.value)
        whole = BLEU(tokenize="none", force=True, lowercase="case:lc" in held.signature)
        texts = [" ".join(reversed(source.split())) for source, _ in pairs(10, 2)]
        folder = runs / record.facts["table"] / record.facts["row"]
        words = [json.loads(line) for line in (folder / "decoded" / "test.jsonl").read_text().splitlines()]
        written = {held["id"]: held["hypotheses"][0]["text"] for held in words}
        assert held.value == pytest.approx(whole.corpus_score([written[n] for n in range(10)], [texts]).score)
    told = text_of(made)
    assert "**BLEU**, by loss:" in told
    assert "\n| Label smoothing | " in told
