"""All sets in one table, and what the page says once, folds and puts in order."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from seqsmooth.metrics.trainings import Difference
from seqsmooth.reports import differences
from seqsmooth.reports.chapters import CHAPTERS
from seqsmooth.reports.glance import NOTE, Glance
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Results
from seqsmooth.reports.results_page import make_page, text
from seqsmooth.reports.results_tables import table

ROOT = Path(__file__).resolve().parents[2]
COCO, STAGE_TWO = CHAPTERS[0].table, CHAPTERS[-1].table
MULTI, FRENCH, GERMAN = (
    "translation, Multi30k",
    "translation, Tatoeba English-French",
    "translation, Tatoeba German-English",
)
SHARED = np.random.default_rng(0).normal(90, 20, ITEMS)


def scored(above: float, seed: int) -> np.ndarray:
    return SHARED + above + np.random.default_rng([int(10 * above) % 1000, seed]).normal(0, 2, ITEMS)


def several(row: str, above: float, seeds: int, **changes: Any) -> list[Record]:
    return [record(row, seed, scored(above, seed), **changes) for seed in range(seeds)]


@pytest.fixture
def results() -> Results:
    made = several("MLE", 0.0, 3, table=COCO) + several("MLE", 1.0, 2, table=MULTI)
    made += several("Seq, CIDEr, V_refs", 9.0, 3, table=COCO)  # three seeds on one set
    made += several("Seq, Edit, V_refs", 9.0, 2, table=COCO)  # two seeds on one set
    made += several("Label smoothing", 0.0, 3, table=COCO) + several("Label smoothing", 8.0, 3, table=MULTI)
    made += several("Tok, GloVe", 0.1, 1, table=COCO) + several("Tok, GloVe", 1.1, 1, table=MULTI)  # on two sets
    made += several("Tok, GloVe", 1.1, 1, table=MULTI, split="news", items="others")
    made += several("MLE", 0.0, 1, table=MULTI, split="news", items="others")
    made += several("Seq, BLEU-4, V_batch", 2.0, 3, table=STAGE_TWO)  # no MLE to compare with
    return Results(tuple(made))


def cells(page: str, label: str) -> list[str]:
    """The first row of a label, which is that of "At a glance" where there is one."""
    lines = page.replace("\u00a0", " ").splitlines()
    return next(line for line in lines if line.startswith(f"| {label} |")).strip("| ").split(" | ")


def test_a_cell_is_the_difference_its_wider_interval_and_the_seeds(results: Results) -> None:
    told = text(make_page(results))
    glance, chapters = told.split("## How to read the tables")
    head = cells(glance, "loss")
    assert head[1:] == [
        "[COCO](#captioning-without-attention), CIDEr",
        "[Multi30k De-En](#translation-multi30k-german-english), CIDEr",
    ], "test sets with MLE alone"
    apart = [mean(scored(above, s).mean() for s in range(3)) for above in (9.0, 0.0)]
    own = cells(chapters, "Seq, CIDEr, V_refs")
    assert cells(glance, "Seq, CIDEr, V_refs")[1] == f"**{apart[0] - apart[1]:+.2f}** (3)<br>{own[4]}"
    smooth = cells(glance, "Label smoothing")
    gained = mean(scored(8.0, s).mean() for s in range(3)) - mean(scored(1.0, s).mean() for s in range(2))
    assert re.fullmatch(re.escape(f"*{gained:+.2f}* (3)<br>") + r"\[\+\d\.\d\d, \+\d\.\d\d\]", smooth[2]), "MLE has two"
    assert smooth[2].endswith(cells(chapters.split("Multi30k")[1], "Label smoothing")[2].split(" ", 1)[1])
    values = [scored(1.0, s).mean() for s in range(2)]
    assert cells(glance, "MLE")[2] == f"{mean(values):.2f} (2)<br>± {stdev(values):.2f}"


def test_rows_are_losses_of_several_sets_or_seeds_by_kind(results: Results) -> None:
    glance = text(make_page(results)).split("## How to read the tables")[0]
    labels = [line.split("|")[1].strip() for line in glance.replace("\u00a0", " ").splitlines() if line[:2] == "| "]
    assert labels == ["loss", "MLE", "Label smoothing", "Tok, GloVe", "Seq, CIDEr, V_refs", "seeds of one loss, ±"]
    pooled = np.sqrt(np.mean([np.var([scored(a, s).mean() for s in range(3)], ddof=1) for a in (0.0, 9.0, 0.0)]))
    assert cells(glance, "seeds of one loss, ±")[1] == f"{pooled:.2f}"


def test_the_chart_has_a_panel_for_each_set(results: Results) -> None:
    svg = make_page(results).charts["glance.svg"]
    assert ">COCO, CIDEr<" in svg
    assert ">Multi30k De-En, CIDEr<" in svg
    assert svg.count("<circle") == 3 + 2
    assert "news" not in svg


def test_a_set_again_with_other_values_has_no_column(results: Results) -> None:
    again = next(chapter for chapter in CHAPTERS if not chapter.glance)
    values = several("MLE", 0.0, 3, table=again.table) + several("Seq, Edit, V_refs", 9.0, 3, table=again.table)
    more = text(make_page(Results((*results.records, *values))))
    assert f"## {again.title}" in more
    glance = "## At a glance", "## How to read the tables"
    parts = [page.split(glance[0])[1].split(glance[1])[0] for page in (more, text(make_page(results)))]
    assert parts[0] == parts[1]


def test_one_set_is_its_own_chapter(results: Results) -> None:
    alone = Results(tuple(one for one in results.records if one.facts["table"] == COCO))
    page = make_page(alone)
    assert "## At a glance" not in text(page)
    assert "glance.svg" not in page.charts
    nothing = several("MLE", 0.0, 3, table=COCO) + several("MLE", 1.0, 3, table=MULTI)
    assert "## At a glance" not in text(make_page(Results(tuple(nothing)))), "nothing to compare"


def test_a_set_whose_mle_was_not_scored_has_no_column(results: Results) -> None:
    held = []
    for one in results.records:
        lacks = one.facts["table"] == MULTI and one.facts["row"] == "MLE"
        scores = {name: tally for name, tally in one.scores.items() if not (lacks and name == "cider")}
        held.append(replace(one, scores=scores))
    groups = Results(tuple(held)).groups
    found = Glance.of([(CHAPTERS[0], group) for group in groups])
    assert [group.table for _, group in found.sets] == [COCO]


def test_chapters_come_in_order_and_a_split_after_its_test() -> None:
    tables = (STAGE_TWO, GERMAN, "another", FRENCH, COCO)
    made = [one for name in tables for one in several("MLE", 0.0, 1, table=name)]
    made = several("MLE", 0.0, 1, table=FRENCH, split="newstest2014", items="others") + made
    titles = re.findall("^## (.*)$", text(make_page(Results(tuple(made)))), re.MULTILINE)
    assert titles[1:-1] == [
        "Captioning without attention",
        "Translation: Tatoeba English-French",
        "Translation: Tatoeba English-French (newstest2014)",
        "Translation: Tatoeba German-English",
        "Stage two on 480 pictures",
        "another",
    ]
    assert titles[-1] == "Not run"
    names = [chapter.title for chapter in CHAPTERS]
    translations = [title for title in names if title.startswith("Translation")]
    assert translations == sorted(translations)
    assert names.index(translations[-1]) == len(names) - 2, "stage two is last"


def test_what_is_true_of_all_tables_is_said_once(results: Results) -> None:
    told = text(make_page(results))
    for words in ("nats a token of the test references", "none picked", "paired bootstrap", "**Seconds a run** are"):
        assert told.count(words) == 1
    reading = told.split("## How to read the tables")[1].split("\n## ")[0]
    # All are begun within three seconds, and 120 seconds long.
    trained = {(one.facts["name"], one.facts["seed"]) for one in results.records}
    assert f"while up to {len(trained) - 1} others shared the device" in reading
    assert "[Benchmarks](benchmarks.md)" in reading


def test_two_runs_at_once_shared_the_device_with_another() -> None:
    told = text(make_page(Results(tuple(several("MLE", 0.0, 2)))))
    assert "the wall time of a run, while another shared the device:" in told


def test_nothing_is_explained_that_is_not_there() -> None:
    bare = [replace(one, behaviour=None, examples=()) for one in several("MLE", 0.0, 1)]
    told = text(make_page(Results(tuple(bare))))
    assert "Calibration error" not in told
    assert "none picked" not in told
    assert "shared the device" not in told, "one run"
    only = [record("MLE", 0, scored(0.0, 0), variant="wide", decoding={"beam": 9})]
    assert "## Beams and ensembles" in text(make_page(Results(tuple(only))))


def test_what_was_chosen_is_told_before_all_that_was_tried() -> None:
    keys = ("objective.token.tau", "objective.sequence.tau")
    points = [
        {"config": "tok", "values": dict(zip(keys, (0.1, tau), strict=True)), "score": score, "best": score == 91.0}
        for tau, score in ((0.2, 91.0), (0.3, 90.0), (0.4, None))
    ]
    choices = {"grids/tok": {"kind": "seqsmooth choice 1", "metric": "cider", "points": points}}
    told = text(make_page(Results(tuple(several("MLE", 0.0, 1)), choices))).split("## Grids")[1]
    chosen, tried = told.split("<details")
    assert cells(chosen, "grids/tok") == ["grids/tok", "tok", "token.tau 0.1, sequence.tau 0.2", "91.00 CIDEr"]
    assert "90.00" not in chosen
    assert "| tok | 0.1 | 0.4 | unfinished |" in tried.replace("\u00a0", " ")


class Folds(HTMLParser):
    """The elements inside each `<details>`, by its id, and the ids of headings."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: dict[str, list[str]] = {}
        self.open: str | None = None
        self.anchors: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("id")
        if tag in ("h2", "h3") and name:
            assert self.open is None, "a heading in a fold would lead into what is closed"
            self.anchors.append(name)
        if tag == "details":
            assert self.open is None
            assert name is not None
            assert name not in self.inside
            self.open = name
            self.inside[name] = []
        elif self.open is not None:
            self.inside[self.open].append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.open = None if tag == "details" else self.open


@pytest.fixture
def drawn() -> tuple[str, Folds]:
    """The page of the documentation as a site shows it."""
    markdown = pytest.importorskip("markdown", reason="needs markdown: pip install 'seqsmooth[dev]'")
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    html = markdown.markdown(page, extensions=["attr_list", "md_in_html", "tables", "toc"])
    folds = Folds()
    folds.feed(html)
    return html, folds


def test_folds_hold_tables_and_lists_that_are_drawn(drawn: tuple[str, Folds]) -> None:
    html, folds = drawn
    assert folds.open is None
    kinds = {name: name.rpartition("-")[2] for name in folds.inside}
    assert set(kinds.values()) == {"behaviour", "metrics", "examples", "commands", "points"}
    for name, inside in folds.inside.items():
        assert inside[0] == "summary"
        assert ("li" if kinds[name] == "commands" else "table") in inside, f"{name} is Markdown that nobody read"
    assert html.count("<details") == len(folds.inside) > 20
    assert "|---" not in html


def test_the_headings_at_a_glance_lead_to_chapters(drawn: tuple[str, Folds]) -> None:
    html, folds = drawn
    glance = html.split('id="at-a-glance"')[1].split("</table>")[0]
    found = re.findall('href="#([^"]*)"', glance)
    assert len(found) > 3
    assert set(found) <= set(folds.anchors)
    assert "grids" in folds.anchors, "other pages lead there"


@pytest.mark.parametrize(
    ("items", "trainings", "mark", "colour"),
    [
        ((0.1, 0.9), (0.2, 0.8), "**", 2),
        ((0.1, 0.9), (-0.2, 1.2), "", 0),
        ((0.1, 0.9), None, "*", 1),
        ((-0.9, -0.1), None, "*", 1),
        ((-0.1, 0.9), None, "", 0),
        ((0.0, 0.9), None, "", 0),
    ],
    ids=["trainings", "not_trainings", "items", "below", "neither", "touches"],
)
def test_how_sure_a_difference_is_looks_the_same_in_words_and_colours(
    items: tuple[float, float], trainings: tuple[float, float] | None, mark: str, colour: int
) -> None:
    made = Difference(0.5, items, trainings)
    assert differences.told(made)[0] == f"{mark}+0.50{mark}"
    drawn = differences.drawn("Tok", made)
    assert (drawn.number, drawn.low, drawn.high) == (colour, *(trainings or items))


def test_a_label_above_a_column_cannot_break_a_table() -> None:
    head, *_ = table(["item", "a | <b>"], [["1", "two\nlines"]], numbers=False).splitlines()
    assert head == "| item | a \\| &lt;b> |"
    assert table(["item", "b"], [["1", "two\nlines"]]).splitlines()[2] == "| 1 | two<br>lines |"


def test_the_rule_of_the_rows_is_stated(results: Results) -> None:
    assert NOTE in text(make_page(results))
    assert "every loss that ran on more than one set, or with 3 seeds or more on one" in NOTE
