from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oracles.made_records import ITEMS, record
from oracles.result_pages import CHAPTERS, OUTLINE, results_of
from seqsmooth.reports.paper import paper_tables
from seqsmooth.reports.results import Chapter
from seqsmooth.reports.results_tables import main_scores, order_rows
from seqsmooth.training.bases import packaged_bases
from seqsmooth.training.sweep import plan_sweep

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rows() -> dict[str, set[str]]:
    """The rows of each table that has configs: those of its sweeps, and those of its bases without one."""
    found: dict[str, set[str]] = {}
    for base in packaged_bases():
        for sweep in base.sweeps:
            for each in plan_sweep(f"{base.name}/{sweep}", Path("runs")):
                found.setdefault(each.config.table or "", set()).add(each.config.row or "")
    return found


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.table.replace(" ", "_"))
def test_every_row_of_the_paper_has_a_config_of_its_name(chapter: Chapter, rows: dict[str, set[str]]) -> None:
    ours = rows[chapter.table]
    if chapter.baseline is not None:
        assert "MLE" not in ours, "it would be trained for nothing"
        ours = ours | (rows[chapter.baseline] & {"MLE"})
    assert "MLE" in ours or not chapter.papers
    missing = chapter.rows.keys() - ours
    assert bool(missing) is not chapter.whole, "a chapter is whole where every row of the paper can be run"
    assert len(chapter.rows.keys() - missing) >= 2 or not chapter.papers


@pytest.mark.parametrize(("whole", "told"), [(True, "not run"), (False, "")], ids=["whole", "part"])
def test_a_chapter_of_some_rows_lists_no_others(whole: bool, told: str) -> None:
    made = [record(row, 0, np.full(ITEMS, value)) for row, value in (("Tok, GloVe", 91.0), ("MLE", 90.0))]
    (table,) = results_of(made).tables
    chapter = replace(CHAPTERS[0], whole=whole)
    labels = [label for label, _ in order_rows(table, chapter)]
    assert labels == list(chapter.rows) if whole else labels == ["MLE", "Tok, GloVe"]
    page = main_scores(table, chapter).replace("\u00a0", " ")
    assert ("not run" in page) is bool(told)
    assert "| Tok, GloVe | 92.36 (+4.06) | 91.00 (1) | *+1.00* [+1.00, +1.00] |" in page


def test_what_is_compared_has_configs(rows: dict[str, set[str]]) -> None:
    known = set.union(*rows.values())
    assert {label for pair in OUTLINE.pairs for label in pair} <= known
    assert len(set(OUTLINE.pairs)) == len(OUTLINE.pairs)
    assert {label for labels in OUTLINE.summary.values() for label in labels} <= known


def test_the_papers_numbers_agree_where_it_has_them_twice() -> None:
    tables = paper_tables()
    for with_or_without in ("without", "with"):
        main = {row.label: row for row in tables[f"captioning {with_or_without} attention"]}
        appendix = {row.label: row for row in tables[f"captioning appendix, {with_or_without} attention"]}
        both = main.keys() & appendix.keys()
        assert len(both) == 7, "MLE, and Hamming and CIDEr with three pools"
        assert all(main[label].printed == appendix[label].printed for label in both)


@pytest.mark.parametrize(
    ("table", "metric", "low", "high"),
    [
        ("captioning without attention", "cider", 93.59, 99.92),
        ("captioning with attention", "cider", 101.63, 103.81),
        ("translation, WMT'14 English-French", "sacrebleu", 30.03, 31.39),
        ("translation, IWSLT'14 German-English", "sacrebleu", 27.55, 28.74),
    ],
    ids=["without", "with", "wmt14", "iwslt14"],
)
def test_the_tables_are_as_the_papers_text_says(table: str, metric: str, low: float, high: float) -> None:
    """Its analysis: "improving from 93.59 (MLE) to 99.92", and so on, for the best row of each table."""
    printed = {row.label: row.printed[metric] for row in paper_tables()[table]}
    assert printed["MLE"] == low
    assert max(printed.values()) == high
    assert len(printed) == (22 if metric == "cider" else 8)
