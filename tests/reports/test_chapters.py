from __future__ import annotations

from pathlib import Path

import pytest

from seqsmooth.reports.chapters import CHAPTERS, PAIRS, Chapter
from seqsmooth.reports.paper import paper_tables
from seqsmooth.training.reader import read_config

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("captioning with attention, restval", "restval")
"""Tables of main rows only."""


@pytest.fixture(scope="module")
def rows() -> dict[str, set[str]]:
    """The rows of each table that has configs."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        if not path.name.endswith(".sweep.yaml") and path.parent.name not in ("base", "captions", "translation"):
            config = read_config(path)
            found.setdefault(config.table or "", set()).add(config.row or "")
    return found


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.table.replace(" ", "_"))
def test_every_row_of_the_paper_has_a_config_of_its_name(chapter: Chapter, rows: dict[str, set[str]]) -> None:
    ours = rows[chapter.table]
    assert "MLE" in ours or not chapter.papers
    if chapter.table in PARTS:
        assert len(ours & chapter.rows.keys()) >= 4
    else:
        assert chapter.rows.keys() <= ours


def test_what_is_compared_has_configs(rows: dict[str, set[str]]) -> None:
    known = set.union(*rows.values())
    assert {label for pair in PAIRS for label in pair} <= known
    assert len(set(PAIRS)) == len(PAIRS)


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
