"""Pages of results in one text, with the outline of our own results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Outline, Results
from seqsmooth.reports.results_pages import Page, make_pages

ROOT = Path(__file__).resolve().parents[2]
OUTLINE = Outline.load(ROOT / "results/pages.yaml")
CHAPTERS = OUTLINE.chapters


def results_of(
    records: Sequence[Record], choices: Mapping[str, Mapping[str, Any]] | None = None, discussion: str = ""
) -> Results:
    """Results with our outline."""
    return Results(tuple(records), choices or {}, OUTLINE, {"discussion.md": discussion} if discussion else {})


def whole(pages: Sequence[Page]) -> str:
    """All pages, one after the other, their headings a level lower but for the first."""
    first, *others = (page.text.replace("\u00a0", " ") for page in pages)
    return "\n".join([first, *(re.sub("^#", "##", text, flags=re.MULTILINE) for text in others)])


def text_of(results: Results) -> str:
    """All pages of some results."""
    return whole(make_pages(results))


def charts_of(pages: Sequence[Page]) -> dict[str, str]:
    """The charts of all pages, by the names of their files."""
    return {name: svg for page in pages for name, svg in page.charts.items()}
