from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from oracles.result_pages import CHAPTERS, charts_of, results_of, text_of, whole
from seqsmooth.cli.main import main
from seqsmooth.reports.paper import paper_tables
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Results, read_results
from seqsmooth.reports.results_pages import NOTHING, make_pages
from seqsmooth.reports.times import at_once, busy

ROOT = Path(__file__).resolve().parents[2]
SOURCE = np.random.default_rng(0)
SHARED = SOURCE.normal(90, 20, ITEMS)


def scored(above: float, seed: int) -> np.ndarray:
    return SHARED + above + np.random.default_rng([int(10 * above) % 1000, seed]).normal(0, 2, ITEMS)


def several(row: str, above: float, seeds: int = 5, **changes: Any) -> list[Record]:
    return [record(row, seed, scored(above, seed), **changes) for seed in range(seeds)]


@pytest.fixture
def results() -> Results:
    made = several("MLE", 0.0) + several("Tok-Seq, CIDEr, V_refs", 3.0) + several("Label smoothing", 0.1, seeds=1)
    return results_of(made)


def row(page: str, label: str, nth: int = 0) -> list[str]:
    found = [line for line in page.replace("\u00a0", " ").splitlines() if line.startswith(f"| {label} |")]
    return [cell.strip() for cell in found[nth].strip("|").split(" | ")]


def test_a_row_has_the_papers_number_and_ours(results: Results) -> None:
    told = text_of(results)
    assert row(told, "loss") == [
        *("loss", "paper (- MLE)", "ours (seeds)", "ours - MLE [95 %: items]", "[items and trainings]"),
    ]
    values = [scored(0.0, seed).mean() for seed in range(5)]
    assert row(told, "MLE") == ["MLE", "88.30", f"{mean(values):.2f} ± {stdev(values):.2f} (5)", "", ""]
    _, paper, _, difference, wider = row(told, "Tok-Seq, CIDEr, V_refs")
    assert paper == "93.16 (+4.86)", "less 88.30"
    apart = mean(scored(3.0, seed).mean() for seed in range(5)) - mean(values)
    interval = r"\[[+-]\d+\.\d\d, [+-]\d+\.\d\d\]"
    assert re.fullmatch(re.escape(f"**{apart:+.2f}** ") + interval, difference)
    assert re.fullmatch(interval, wider)
    alone = row(told, "Label smoothing")
    assert (alone[1], alone[2], alone[4]) == ("", f"{scored(0.1, 0).mean():.2f} (1)", "")


def test_further_metrics_and_the_time_have_a_table(results: Results) -> None:
    told = text_of(results).split("<summary>Other metrics, and time</summary>")[1]
    best = dict(zip(row(told, "loss"), row(told, "Tok-Seq, CIDEr, V_refs"), strict=True))
    assert best["BLEU-4, paper (- MLE)"] == "30.31 (+1.97)"
    assert best["BLEU-4, ours (seeds)"] == "32.00 ± 1.58 (5)", "30 to 34"
    assert best["ROUGE-L"] == "50.00 ± 0.00"
    assert best["seconds a run"] == "120"


def test_the_papers_rows_come_in_its_order_and_none_is_missing(results: Results) -> None:
    told = text_of(results).split("**CIDEr**")[1].split("### ")[0]
    labels = [line.split("|")[1].strip() for line in told.splitlines() if line.startswith("| ")][1:]
    papers = [one.label for name in CHAPTERS[0].papers for one in paper_tables()[name]]
    assert labels == [*dict.fromkeys(papers), "Label smoothing"]
    assert len(paper_tables()["captioning without attention"]) == 22
    assert row(told, "Seq, lazy, CIDEr, V_batch")[1:] == ["90.81 (+2.51)", "not run", "", ""]
    assert told.count("| not run |") == len(labels) - 3


def test_intervals_are_those_of_a_loop() -> None:
    mle, tok = several("MLE", 0.0, seeds=3), several("Tok, GloVe", 1.0, seeds=3)
    (table,) = results_of([*mle, *tok]).tables
    (made,) = table.differences("cider").values()
    drawn = np.random.default_rng(0).integers(ITEMS, size=(1000, ITEMS))
    ours, theirs = (np.stack([scored(above, seed)[drawn].mean(1) for seed in range(3)]) for above in (1.0, 0.0))
    apart = ours.mean(0) - theirs.mean(0)
    assert made.items == pytest.approx(tuple(np.quantile(apart, [0.025, 0.975])))
    spreads = [np.var([scored(above, seed).mean() for seed in range(3)], ddof=1) / 3 for above in (1.0, 0.0)]
    twice = sum(np.mean([np.var(d[:, b], ddof=1) for b in range(1000)]) / 3 for d in _around(ours, theirs))
    assert made.trainings is not None
    variance = max(sum(spreads) + apart.var(ddof=1) - twice, apart.var(ddof=1), *spreads)
    freedom = variance**2 / sum(spread**2 / 2 for spread in spreads)
    from scipy.stats import t

    assert made.trainings[1] - made.value == pytest.approx(t.ppf(0.975, freedom) * variance**0.5, rel=1e-5)


def _around(*several: np.ndarray) -> list[np.ndarray]:
    return [one - one.mean(1, keepdims=True) for one in several]


def test_what_items_alone_say_is_not_bold() -> None:
    made = several("MLE", 0.0) + several("Tok, GloVe", 9.0, seeds=1) + several("Seq, Hamming, V", 9.0, seeds=3)
    told = text_of(results_of(made))
    assert re.match(r"\*\+\d+\.\d\d\* \[", row(told, "Tok, GloVe")[3])
    assert re.match(r"\*\*\+\d+\.\d\d\*\* \[", row(told, "Seq, Hamming, V")[3])


def test_seeds_of_one_loss_are_the_yardstick(results: Results) -> None:
    around = [[scored(above, seed).mean() for seed in range(5)] for above in (0.0, 3.0)]
    pooled = np.sqrt(np.mean([np.var(values, ddof=1) for values in around]))  # of as many seeds each
    assert f"a standard deviation of {pooled:.2f} CIDEr (pooled over the 2 losses" in text_of(results)
    alone = results_of(several("MLE", 0.0))
    assert f"of {np.std(around[0], ddof=1):.2f} CIDEr (that of the only loss of" in text_of(alone)


def test_losses_are_compared_with_label_smoothing_too(results: Results) -> None:
    told = text_of(results).split("### Other differences")[1]
    found = row(told, "Tok-Seq, CIDEr, V_refs")
    apart = mean(scored(3.0, seed).mean() for seed in range(5)) - scored(0.1, 0).mean()
    assert found[1] == "Label smoothing"
    assert found[2].split()[0].strip("*") == f"{apart:+.2f}"
    assert found[3] == "", "label smoothing has one seed"


def test_behaviour_examples_commands_and_time_are_there(results: Results) -> None:
    pages = make_pages(results)
    told = whole(pages)
    # Five seeds of two losses and one of the third, 120 seconds each, begun one second after the other.
    assert "11 runs, 22.0 min of run time in 2.1 min on A GPU" in told
    behaves = row(told.split("### How the models behave")[1], "MLE")
    assert behaves[1:4] == ["2.500 ± 0.000", "10.0 ± 0.0", "25.0 ± 0.0"]
    assert behaves[6:8] == ["3.000 ± 0.000", "+0.500 ± 0.000"]
    assert row(told, "7") == ["7", *(f"{label} writes \\| 7" for label in _shown(told))]
    assert _shown(told) == ["MLE", "Tok-Seq, CIDEr, V_refs", "Label smoothing"]
    assert "- MLE: `seqsmooth train configs/made/mle.yaml --seed 0 && seqsmooth decode runs/made/mle/0`" in told
    names = {name.removeprefix("coco-").removesuffix(".svg") for name in charts_of(pages)}
    assert names == {"differences", "score", "validation-nll", "lengths", "recall", "calibration", "corrupted"}
    for name in charts_of(pages):
        assert f"]({name})" in told, "beside the page"


def test_the_papers_numbers_are_of_its_test_set(results: Results) -> None:
    held_out = several("MLE", -3.0, seeds=1, split="val", items="others")
    told = text_of(results_of([*results.records, *held_out])).split("## Captioning without attention (val)\n\n")[1]
    told = told.split("-->\n\n", 1)[1]
    assert told.startswith("The models of the table of the test items that were decoded on the validation items, too")
    assert row(told, "loss") == ["loss", "ours (seeds)", "ours - MLE [95 %: items]", "[items and trainings]"]
    assert row(told, "MLE") == ["MLE", f"{scored(-3.0, 0).mean():.2f} (1)", "", ""]
    assert "| not run |" not in told


def _shown(told: str) -> list[str]:
    return row(told, "item")[1:]


def test_less_data_beams_grids_and_other_splits_have_their_tables() -> None:
    made = several("MLE", 0.0) + several("Tok, GloVe", 1.0)
    for share, above in ((0.1, -20.0), (0.3, -10.0)):
        for label, more in (("MLE", 0.0), ("Tok, GloVe", 2.0)):
            name = f"made/{label.lower().replace(', ', '_')}/fraction={share}"
            made += several(f"{label} (fraction {share})", above + more, 3, name=name, fraction=share, table="curves")
    made += [record("MLE", 0, scored(0.5, 0), variant="five", members=(0, 1, 2), decoding={"beam": 5}, seconds=9e9)]
    made += [record("MLE", 4, scored(0.7, 0), variant="wide", decoding={"beam": 9})]
    made += [record("MLE", 0, scored(-30, 0), split="news", items="others")]
    grid = {
        "kind": "seqsmooth choice 1",
        "metric": "cider",
        "points": [
            {"config": "tok", "values": {"objective.token.tau": 0.1}, "score": 91.0, "best": True},
            {"config": "tok", "values": {"objective.token.tau": 0.2}, "score": None, "best": False},
        ],
    }
    told = text_of(results_of(made, {"grids/tok": grid}, "## What we found\n\nIt depends."))
    less = told.split("## Learning curves: less training data\n")[1]
    assert "Trained on 10 % for 2 epochs, 4 steps; 30 % for" in less
    assert "On less than all: 12 runs, 24.0 min of run time" in less
    assert [row(less, "loss", nth)[1:] for nth in (0, 1)] == [["10 %", "30 %", "100 %"]] * 2
    gain = mean(scored(-18.0, s).mean() for s in range(3)) - mean(scored(-20.0, s).mean() for s in range(3))
    assert row(less, "Tok, GloVe")[1].startswith(f"**{gain:+.2f}** [+")
    assert row(less, "Tok, GloVe", 1)[3].startswith(f"{mean(scored(1.0, s).mean() for s in range(5)):.2f} ± ")
    assert row(less, "Tok, GloVe", 1)[1].endswith(" (3)")
    assert len(row(less, "MLE")) == 4, "scores alone: it has no difference from itself"
    otherwise = [line.split("test | ")[1] for line in told.split("## Beams")[1].split("## Grids")[0].splitlines()[6:-1]]
    assert otherwise == [  # of, beam, BLEU-4, ROUGE-L, CIDEr
        f"seed 4 | 3 | 34.00 | 50.00 | {scored(0.0, 4).mean():.2f} |  |",  # as its config says, beside the other beam
        f"seed 4 | 9 | 34.00 | 50.00 | {scored(0.7, 0).mean():.2f} |  |",
        f"3 models | 5 | 30.00 | 50.00 | {scored(0.5, 0).mean():.2f} |  |",
    ]
    assert "| tok | 0.1 | **91.00** |" in told
    assert "| tok | 0.2 | unfinished |" in told
    assert "## Captioning without attention (news)" in told
    assert "## Discussion" in told
    assert "### What we found" in told
    assert "(fraction" not in told.split("## Learning curves: less training data\n")[0], (
        "runs on less data are no rows of the table"
    )
    assert "22 runs, 44.0 min of run time" in told, "what is decoded again is not trained again"


def test_the_device_is_busy_while_a_run_goes_on() -> None:
    def run(start: int, seconds: float) -> Record:
        made = record("MLE", 0, scored(0.0, 0), seconds=seconds)
        return replace(made, facts={**made.facts, "started": f"2026-01-01T00:{start // 60:02d}:{start % 60:02d}+00:00"})

    # From 0 to 100, from 50 to 80, from 90 to 110, and from 200 to 230.
    several = [run(200, 30), run(0, 100), run(90, 20), run(50, 30)]
    assert busy(several) == 110 + 30
    assert at_once(several) == 2
    assert at_once([*several, run(60, 10)]) == 3
    assert at_once([*several, run(80, 10)]) == 2, "one begins when another ends"


def test_records_that_do_not_compare_are_refused() -> None:
    other = record("Tok, GloVe", 0, scored(1.0, 0), items="others")
    with pytest.raises(ValueError, match="`records` must be of the same items of test in a table"):
        make_pages(results_of([*several("MLE", 0.0), other]))
    other = record("Tok, GloVe", 0, scored(1.0, 0))
    other.scores["cider"] = replace(other.scores["cider"], signature="cider:D|otherwise")  # type: ignore[index]
    with pytest.raises(ValueError, match="`records` must be of one signature of cider in a table"):
        make_pages(results_of([*several("MLE", 0.0), other]))
    with pytest.raises(ValueError, match="The runs of a row must be of different seeds"):
        make_pages(results_of([*several("MLE", 0.0), record("MLE", 2, scored(0.0, 2))]))


def test_the_verb_writes_the_same_page_from_files(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for one in results.records:
        path = tmp_path / "kept" / one.file
        path.parent.mkdir(parents=True, exist_ok=True)
        one.save(path)
    (tmp_path / "kept" / "discussion.md").write_text("## In short\n")
    (tmp_path / "kept" / "summary.md").write_text("It helps.\n")
    (tmp_path / "kept" / "pages.yaml").write_text((ROOT / "results" / "pages.yaml").read_text())
    words = ["report", "results", "kept", "--out", "page.md"]
    assert main(words) == 0
    texts = {"discussion.md": "## In short\n", "summary.md": "It helps.\n"}
    pages = make_pages(replace(results, texts=texts), "page")
    assert "wrote page.md, 3 more pages and 7 charts" in capsys.readouterr().err
    first = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "It helps." in first
    assert first == pages[0].text
    for page in pages[1:]:
        told = (tmp_path / "page" / f"{page.name}.md").read_text(encoding="utf-8")
        assert f"- [{page.title}](page/{page.name}.md)" in first
        assert _rounded(told) == _rounded(page.text), "single precision is enough"
    names = {path.name for path in (tmp_path / "page").iterdir()}
    assert names == charts_of(pages).keys() | {f"{page.name}.md" for page in pages[1:]}
    (tmp_path / "page" / "gone.md").write_text(pages[1].text)
    (tmp_path / "page" / "mine.md").write_text("# Mine\n")
    assert main(words) == 0, "again, over what is there"
    assert {path.name for path in (tmp_path / "page").iterdir()} == names | {"mine.md"}, "a page that is no more goes"
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == first


def _rounded(told: str) -> str:
    """Where the last digit of two is 1 apart."""
    return re.sub(r"(\.\d)\d", r"\1", told)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere", "--out", "page.md"], "`results` must be a folder of records"),
        ([".", "--out", "page.html"], "`out` must be a file of Markdown (.md); it is page.html."),
        ([".", "--out", "none/page.md"], "`out` must be in a folder that is there"),
    ],
    ids=["folder", "suffix", "out"],
)
def test_bad_words_are_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "results", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("held", ["{", "[]", json.dumps({"kind": "else"})], ids=["damaged", "list", "kind"])
def test_other_files_are_refused(held: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(held)
    with pytest.raises(ValueError, match=r"x\.json"):
        read_results(tmp_path)


def test_the_page_of_the_documentation_holds_the_committed_records() -> None:
    first, *pages = make_pages(read_results(ROOT / "results"))
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == first.text, "run `make results`"
    folder = ROOT / "docs" / "results"
    for page in pages:
        assert (folder / f"{page.name}.md").read_text(encoding="utf-8") == page.text, "run `make results`"
    drawn = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.svg"))}
    assert drawn == charts_of([first, *pages]), "run `make results`"


def test_without_records_the_page_says_so() -> None:
    assert NOTHING in text_of(Results(()))
