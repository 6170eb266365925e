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
from oracles.result_pages import CHAPTERS, charts_of, results_of, text_of
from seqsmooth.metrics.trainings import Difference
from seqsmooth.reports.figures import difference_interval
from seqsmooth.reports.formats import difference_cells, markdown_table
from seqsmooth.reports.glance import RULE, Glance
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Results
from seqsmooth.reports.results_pages import MARK, make_pages

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
    return results_of(made)


def cells(page: str, label: str) -> list[str]:
    """The first row of a label, which is that of "At a glance" where there is one."""
    lines = page.replace("\u00a0", " ").splitlines()
    return next(line for line in lines if line.startswith(f"| {label} |")).strip("| ").split(" | ")


def test_a_cell_is_the_difference_its_wider_interval_and_the_seeds(results: Results) -> None:
    told = text_of(results)
    glance, chapters = told.split("## Captioning without attention\n")
    head = cells(glance, "loss")
    assert head[1:] == [
        "[COCO](results/coco.md), CIDEr",
        "[Multi30k De-En](results/multi30k.md), CIDEr",
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
    glance = text_of(results).split("## All losses on all sets\n")[1].split("\n## ")[0]
    labels = [line.split("|")[1].strip() for line in glance.replace("\u00a0", " ").splitlines() if line[:2] == "| "]
    assert labels == ["loss", "MLE", "Label smoothing", "Tok, GloVe", "Seq, CIDEr, V_refs", "seeds of one loss, ±"]
    pooled = np.sqrt(np.mean([np.var([scored(a, s).mean() for s in range(3)], ddof=1) for a in (0.0, 9.0, 0.0)]))
    assert cells(glance, "seeds of one loss, ±")[1] == f"{pooled:.2f}"


def test_the_chart_has_a_panel_for_each_set(results: Results) -> None:
    svg = charts_of(make_pages(results))["glance.svg"]
    assert ">COCO, CIDEr<" in svg
    assert ">Multi30k De-En, CIDEr<" in svg
    assert svg.count("<circle") == 3 + 2
    assert "news" not in svg


def test_a_set_again_with_other_values_has_no_column(results: Results) -> None:
    again = next(chapter for chapter in CHAPTERS if not chapter.glance)
    values = several("MLE", 0.0, 3, table=again.table) + several("Seq, Edit, V_refs", 9.0, 3, table=again.table)
    more = text_of(results_of([*results.records, *values]))
    assert f"## {again.title}" in more
    parts = [page.split("## All losses on all sets\n")[1].split("\n## ")[0] for page in (more, text_of(results))]
    assert parts[0] == parts[1]


def test_one_set_is_its_own_chapter(results: Results) -> None:
    alone = results_of([one for one in results.records if one.facts["table"] == COCO])
    assert "All losses on all sets" not in text_of(alone)
    assert "glance.svg" not in charts_of(make_pages(alone))
    nothing = several("MLE", 0.0, 3, table=COCO) + several("MLE", 1.0, 3, table=MULTI)
    assert "All losses on all sets" not in text_of(results_of(nothing)), "nothing to compare"


def test_a_set_whose_mle_was_not_scored_has_no_column(results: Results) -> None:
    held = []
    for one in results.records:
        lacks = one.facts["table"] == MULTI and one.facts["row"] == "MLE"
        scores = {name: tally for name, tally in one.scores.items() if not (lacks and name == "cider")}
        held.append(replace(one, scores=scores))
    found = Glance.of([(CHAPTERS[0], table) for table in results_of(held).tables])
    assert [table.name for _, table in found.sets] == [COCO]


def test_chapters_come_in_order_and_a_split_after_its_test() -> None:
    tables = (STAGE_TWO, GERMAN, "another", FRENCH, COCO)
    made = [one for name in tables for one in several("MLE", 0.0, 1, table=name)]
    made = several("MLE", 0.0, 1, table=FRENCH, split="newstest2014", items="others") + made
    titles = re.findall("^## (.*)$", text_of(results_of(made)), re.MULTILINE)
    assert titles[0] == "All tables"
    assert titles[1:-1] == [
        "Captioning without attention",
        "Translation: Tatoeba English-French",
        "Translation: Tatoeba English-French (newstest2014)",
        "Translation: Tatoeba German-English",
        "Stage two on 480 pictures",
        "another",
    ]
    assert titles[-1] == "How to read the tables"
    names = [chapter.title for chapter in CHAPTERS]
    translations = [title for title in names if title.startswith("Translation")]
    assert translations == sorted(translations)
    assert names.index(translations[-1]) == len(names) - 2, "stage two is last"


def test_what_is_true_of_all_tables_is_said_once(results: Results) -> None:
    told = text_of(results)
    for words in ("nats a token of the test references", "none picked", "paired bootstrap", "**Seconds a run** are"):
        assert told.count(words) == 1
    reading = told.split("## How to read the tables\n")[1].split("\n## ")[0]
    # All are begun within three seconds, and 120 seconds long.
    trained = {(one.facts["name"], one.facts["seed"]) for one in results.records}
    assert f"while up to {len(trained) - 1} others shared the device" in reading


def test_two_runs_at_once_shared_the_device_with_another() -> None:
    told = text_of(results_of(several("MLE", 0.0, 2)))
    assert "the wall time of a run, while another shared the device:" in told


def test_nothing_is_explained_that_is_not_there() -> None:
    bare = [replace(one, behaviour=None, examples=()) for one in several("MLE", 0.0, 1)]
    told = text_of(results_of(bare))
    assert "Calibration error" not in told
    assert "none picked" not in told
    assert "shared the device" not in told, "one run"
    only = [record("MLE", 0, scored(0.0, 0), variant="wide", decoding={"beam": 9})]
    assert "## Beams and ensembles" in text_of(results_of(only))


def test_what_was_chosen_is_told_before_all_that_was_tried() -> None:
    keys = ("objective.token.tau", "objective.sequence.tau")
    points = [
        {"config": "tok", "values": dict(zip(keys, (0.1, tau), strict=True)), "score": score, "best": score == 91.0}
        for tau, score in ((0.2, 91.0), (0.3, 90.0), (0.4, None))
    ]
    choices = {"grids/tok": {"kind": "seqsmooth choice 1", "metric": "cider", "points": points}}
    told = text_of(results_of(several("MLE", 0.0, 1), choices)).split("## Grids\n")[1]
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


PAGES = [path for path in sorted((ROOT / "docs/results").glob("*.md")) if MARK in path.read_text(encoding="utf-8")]


def shown(path: Path) -> tuple[str, Folds]:
    """A page of the documentation as a site shows it."""
    markdown = pytest.importorskip("markdown", reason="needs markdown: pip install 'seqsmooth[dev]'")
    html = markdown.markdown(path.read_text(encoding="utf-8"), extensions=["attr_list", "md_in_html", "tables", "toc"])
    folds = Folds()
    folds.feed(html)
    return html, folds


def test_folds_hold_tables_and_lists_that_are_drawn() -> None:
    kinds, number = set(), 0
    for path in PAGES:
        html, folds = shown(path)
        assert folds.open is None
        for name, inside in folds.inside.items():
            kind = name.rpartition("-")[2]
            kinds.add(kind)
            assert inside[0] == "summary"
            assert ("li" if kind == "commands" else "table") in inside, f"{name} is Markdown that nobody read"
        assert html.count("<details") == len(folds.inside)
        number += len(folds.inside)
        assert "|---" not in html
    assert kinds == {"behaviour", "metrics", "examples", "commands", "points"}
    assert number > 20


def test_the_headings_of_sets_lead_to_their_pages() -> None:
    for path in (ROOT / "docs/results.md", ROOT / "docs/results/glance.md"):
        html, _ = shown(path)
        found = re.findall('href="([^"]*)"', html.split("<thead>")[1].split("</thead>")[0])
        assert len(found) > 3
        assert all((path.parent / name).is_file() for name in found)
        assert len(set(found)) == len(found)


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
    assert difference_cells(made)[0] == f"{mark}+0.50{mark}"
    drawn = difference_interval("Tok", made)
    assert (drawn.number, drawn.low, drawn.high) == (colour, *(trainings or items))


def test_a_label_above_a_column_cannot_break_a_table() -> None:
    head, *_ = markdown_table(["item", "a | <b>"], [["1", "two\nlines"]], numbers=False).splitlines()
    assert head == "| item | a \\| &lt;b> |"
    assert markdown_table(["item", "b"], [["1", "two\nlines"]]).splitlines()[2] == "| 1 | two<br>lines |"


def test_the_rule_of_the_rows_is_stated(results: Results) -> None:
    assert RULE in text_of(results)
    assert "every loss that ran on more than one set, or with 3 seeds or more on one" in RULE
