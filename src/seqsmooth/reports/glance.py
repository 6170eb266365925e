"""All sets in one table and one chart: what each loss gains over MLE, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from seqsmooth.metrics.trainings import LEAST, Difference
from seqsmooth.reports import differences
from seqsmooth.reports.chapters import Chapter
from seqsmooth.reports.charts import forests
from seqsmooth.reports.results import BASELINE, Group
from seqsmooth.reports.results_tables import MAIN, ordered, seed_spread, spread, table
from seqsmooth.reports.rows import place
from seqsmooth.reports.table import NAMES

TITLE = f"Difference from {BASELINE} on each set, each with an axis of its own"
NOTE = f"""\
What each loss gains over {BASELINE} in the main metric of each set, with the number of seeds in brackets and a 95 %
interval. Where the loss and {BASELINE} have {LEAST} seeds or more, the interval is over items and trainings, and
**bold** (blue in the chart) says that it excludes 0. Elsewhere it is over items alone; *italic* (orange) says that it
excludes 0, and another seed may say otherwise: the last row tells how much seeds of one loss differ. The row of
{BASELINE} has its own score. Here is every loss that ran on more than one set, or with {LEAST} seeds or more on one;
the headings lead to the chapters, which have the others."""


@dataclass(frozen=True, eq=False)
class Glance:
    """The sets to look at: test sets with a score of MLE, in the order of their chapters."""

    sets: tuple[tuple[Chapter, Group], ...]

    @classmethod
    def of(cls, chapters: Sequence[tuple[Chapter, Group]]) -> Glance:
        """Those of the chapters that compare with MLE on a test set."""
        seen = [(chapter, group) for chapter, group in chapters if chapter.glance and group.split == "test"]
        return cls(tuple((chapter, group) for chapter, group in seen if _base(group)))

    @cached_property
    def labels(self) -> list[str]:
        """Of the rows but MLE's: on more than one set, or of three seeds on one; by the kind of the loss."""
        seeds: dict[str, list[int]] = {}
        for chapter, group in self.sets:
            for label, line in ordered(group, chapter):
                scored = [] if line is None else line.values(MAIN[group.task])
                seeds.setdefault(label, []).extend([len(scored)] if scored else [])
        kept = [label for label, held in seeds.items() if len(held) > 1 or max(held, default=0) >= LEAST]
        return sorted((label for label in kept if label != BASELINE), key=place)

    @property
    def worthwhile(self) -> bool:
        """One set alone is its own chapter."""
        return len(self.sets) > 1 and len(self.labels) > 0

    @cached_property
    def made(self) -> list[dict[str, Difference]]:
        """The differences of each set, by label."""
        return [group.differences(MAIN[group.task]) for _, group in self.sets]

    def text(self) -> str:
        """The table."""
        head = [_heading(chapter, group) for chapter, group in self.sets]
        rows = [[BASELINE, *(_score(_base(group)) for _, group in self.sets)]]
        for label in self.labels:
            cells = zip(self.sets, self.made, strict=True)
            rows.append([label, *(_cell(group, label, made.get(label)) for (_, group), made in cells)])
        apart = [seed_spread(group) for _, group in self.sets]
        rows.append(["seeds of one loss, ±", *("" if held is None else f"{held:.2f}" for held in apart)])
        return table(["loss", *head], rows)

    def chart(self) -> str:
        """The same as intervals, a panel for each set."""
        panels = {}
        for (chapter, group), made in zip(self.sets, self.made, strict=True):
            found = [(label, made.get(label)) for label in self.labels]
            panels[f"{_name(chapter)}, {NAMES[MAIN[group.task]]}"] = [
                None if held is None else differences.drawn(label, held) for label, held in found
            ]
        return forests(TITLE, "difference, 95 % interval", self.labels, panels)


def _base(group: Group) -> list[float]:
    line = group.line(BASELINE)
    return [] if line is None else line.values(MAIN[group.task])


def _score(values: Sequence[float]) -> str:
    level, *around = spread(values).split(" ", 1)
    return "\n".join([f"{level} ({len(values)})", *around])


def _cell(group: Group, label: str, made: Difference | None) -> str:
    line = group.line(label)
    if made is None or line is None:
        return ""
    seeds = len(line.values(MAIN[group.task]))
    return f"{differences.told(made)[0]} ({seeds})\n{differences.bracketed(differences.wider(made))}"


def _name(chapter: Chapter) -> str:
    return chapter.short or chapter.title


def _heading(chapter: Chapter, group: Group) -> str:
    """The name of the set, which leads to its chapter where the chapter is one of ours, and its metric."""
    anchor = re.sub(r"[^a-z0-9]+", "-", re.sub(r"[^\w\s-]", "", chapter.title.lower())).strip("-")
    name = f"[{chapter.short}](#{anchor})" if chapter.short else chapter.title
    return f"{name}, {NAMES[MAIN[group.task]]}"
