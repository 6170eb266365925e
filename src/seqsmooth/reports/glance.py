"""All sets in one table and one chart: what each loss gains over MLE, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from seqsmooth.metrics.trainings import LEAST, Difference
from seqsmooth.reports.charts import forests
from seqsmooth.reports.figures import difference_interval
from seqsmooth.reports.formats import NAMES, difference_cells, format_interval, markdown_table, spread, widest
from seqsmooth.reports.results import Chapter
from seqsmooth.reports.results_tables import order_rows, seed_spread
from seqsmooth.reports.rows import BASELINE, Row, Table, place

TITLE = f"Difference from {BASELINE} on each set, each with an axis of its own"
RULE = f"Here is every loss that ran on more than one set, or with {LEAST} seeds or more on one."
NOTE = f"""\
The row of {BASELINE} has its score, the others the difference from it, with the number of seeds in brackets and the
95 % interval. **Bold** (blue in the chart): the interval over items and trainings excludes 0. *Italic* (orange): the
interval over items excludes 0, but there are fewer than {LEAST} seeds, and another seed may say otherwise."""


@dataclass(frozen=True, eq=False)
class Glance:
    """The sets to look at: test sets with a score of MLE, in the order of their chapters."""

    sets: tuple[tuple[Chapter, Table], ...]

    @classmethod
    def of(cls, chapters: Sequence[tuple[Chapter, Table]]) -> Glance:
        """Choose the chapters that compare with MLE on a test set."""
        seen = [(chapter, table) for chapter, table in chapters if chapter.glance and table.split == "test"]
        return cls(tuple((chapter, table) for chapter, table in seen if _baseline(table)))

    @cached_property
    def labels(self) -> list[str]:
        """The rows but MLE's: on more than one set, or of three seeds on one; by the kind of the loss."""
        seeds: dict[str, list[int]] = {}
        for chapter, table in self.sets:
            for label, row in order_rows(table, chapter):
                scored = [] if row is None else row.values(table.main)
                seeds.setdefault(label, []).extend([len(scored)] if scored else [])
        kept = [label for label, counts in seeds.items() if len(counts) > 1 or max(counts, default=0) >= LEAST]
        return sorted((label for label in kept if label != BASELINE), key=place)

    @property
    def worthwhile(self) -> bool:
        """Whether there is more to see than in one chapter."""
        return len(self.sets) > 1 and len(self.labels) > 0

    @cached_property
    def differences(self) -> list[dict[str, Difference]]:
        """The differences of each set, by label."""
        return [table.differences(table.main) for _, table in self.sets]

    def rows(self, summary: Mapping[str, Sequence[str]] | None = None) -> dict[str, list[str | None]]:
        """By the name of a row, its label on each set: that of the loss, or the first of a summary that the set has."""
        names = {label: [label] for label in self.labels} if summary is None else summary
        return {
            name: [next((label for label in labels if label in known), None) for known in self.differences]
            for name, labels in names.items()
        }

    def text(self, rows: Mapping[str, Sequence[str | None]], folder: str = "") -> str:
        """The table; its headings lead to the pages of the sets, which are in a folder."""
        head = [_heading(chapter, table, folder) for chapter, table in self.sets]
        lines = [[BASELINE, *(_score(_baseline(table)) for _, table in self.sets)]]
        for name, labels in rows.items():
            cells = zip(self.sets, labels, self.differences, strict=True)
            lines.append([name, *(_cell(table, label, known) for (_, table), label, known in cells)])
        spreads = [seed_spread(table) for _, table in self.sets]
        lines.append(["seeds of one loss, ±", *("" if each is None else f"{each:.2f}" for each in spreads)])
        return markdown_table(["loss", *head], lines)

    def chart(self, rows: Mapping[str, Sequence[str | None]]) -> str:
        """The table as intervals, a panel for each set."""
        panels = {}
        for n, ((chapter, table), known) in enumerate(zip(self.sets, self.differences, strict=True)):
            panels[f"{chapter.short or chapter.title}, {NAMES[table.main]}"] = [
                None if labels[n] is None else difference_interval(name, known[str(labels[n])])
                for name, labels in rows.items()
            ]
        return forests(TITLE, "difference, 95 % interval", list(rows), panels)


def _baseline(table: Table) -> list[float]:
    row = table.row(BASELINE)
    return [] if row is None else row.values(table.main)


def _score(values: Sequence[float]) -> str:
    level, *around = spread(values).split(" ", 1)
    return "\n".join([f"{level} ({len(values)})", *around])


def _cell(table: Table, label: str | None, differences: Mapping[str, Difference]) -> str:
    row: Row | None = None if label is None else table.row(label)
    if row is None:
        return ""
    difference = differences[row.label]
    seeds = len(row.values(table.main))
    return f"{difference_cells(difference)[0]} ({seeds})\n{format_interval(widest(difference))}"


def _heading(chapter: Chapter, table: Table, folder: str) -> str:
    """The name of the set, which leads to its page, and its metric."""
    return f"[{chapter.short or chapter.title}]({folder}{chapter.page}.md), {NAMES[table.main]}"
