"""The page of results: tables, charts, examples and commands from records alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from urllib.parse import quote

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.ops import checks
from seqsmooth.reports import differences, shares, times
from seqsmooth.reports import results_tables as tables
from seqsmooth.reports.chapters import CHAPTERS, Chapter
from seqsmooth.reports.charts import COLOURS, forest, room_for
from seqsmooth.reports.families import TOGETHER
from seqsmooth.reports.figures import draw_charts
from seqsmooth.reports.glance import NOTE, TITLE, Glance
from seqsmooth.reports.reading import how_to_read
from seqsmooth.reports.results import BASELINE, Group, Line, Results, read_results
from seqsmooth.reports.table import NAMES

MARK = "<!-- written by `seqsmooth results` from records; change nothing by hand -->"
NOTHING = "No records are committed yet."
SHOWN = 4
"""Losses whose examples stand side by side."""


@dataclass
class Page:
    """What is written: the text, and the charts by the names of their files."""

    parts: list[str] = field(default_factory=list)
    charts: dict[str, str] = field(default_factory=dict)
    folder: str = "results"
    slugs: dict[str, list[str]] = field(default_factory=dict)

    def say(self, *parts: str) -> None:
        """Add paragraphs; empty ones are left out."""
        self.parts += [part for part in parts if part]

    def draw(self, name: str, title: str, svg: str) -> str:
        """Keep a chart, and give the Markdown that shows it."""
        self.charts[f"{name}.svg"] = svg
        return f"![{title}]({quote(f'{self.folder}/{name}.svg')})"

    def fold(self, name: str, summary: str, *parts: str) -> None:
        """Add paragraphs that are closed until one wants to see them; `name` is what a link leads to."""
        # Not the indented form of the site's own extension: what is in here stays plain Markdown for other readers.
        self.say(f'<details markdown="1" id="{name}">\n<summary>{summary}</summary>', *parts, "</details>")

    def slug(self, title: str) -> str:
        """A title as part of the names of files, different from those of other titles."""
        plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "table"
        taken = self.slugs.setdefault(plain, [])
        taken += [] if title in taken else [title]
        number = taken.index(title)
        return f"{plain}-{number + 1}" if number else plain


def make_page(results: Results, folder: str = "results") -> Page:
    """Make the page; `folder` is where its charts are, seen from it."""
    page = Page(folder=folder)
    page.say("# Results", MARK)
    page.say(_totals(results) if results.records else NOTHING)
    chapters = _chapters(results)
    _glance(page, Glance.of(chapters))
    page.say(results.discussion.strip())
    page.say(*(["## How to read the tables", how_to_read(results)] if results.records else []))
    for chapter, group in chapters:
        _chapter(page, group, chapter)
    _more(page, results)
    there = {chapter.table for chapter, _ in chapters}
    left_out = [f"- {chapter.title}" for chapter in CHAPTERS if chapter.table not in there]
    page.say(*(["## Not run", "\n".join(left_out)] if left_out else []))
    return page


def _chapters(results: Results) -> list[tuple[Chapter, Group]]:
    """Those that have records, in order: what we know, then other tables; of a table test first, then other splits."""
    groups = sorted(results.groups, key=lambda group: (group.split != "test", group.split))
    known = {chapter.table for chapter in CHAPTERS}
    new = dict.fromkeys(group.table for group in results.groups if group.table not in known)
    every = [*CHAPTERS, *(Chapter(table, table or "Runs") for table in new)]
    return [
        (chapter if group.split == "test" else chapter.on(group.split), _with_baseline(group, chapter, groups))
        for chapter in every
        for group in groups
        if group.table == chapter.table
    ]


def _with_baseline(group: Group, chapter: Chapter, groups: Sequence[Group]) -> Group:
    """The same with the MLE that its chapter shares with another table, where it has none and that one has."""
    of = (chapter.baseline, group.split)
    line = next((held.line(BASELINE) for held in groups if (held.table, held.split) == of), None)
    return group if line is None or group.line(BASELINE) else group.sharing(line)


def write_results(folder: Path, out: Path) -> Page:
    """Read records and write the page and, in a folder of its name beside it, the charts."""
    checks.must(out.suffix == ".md", "out", "a file of Markdown (.md)", str(out))
    checks.must(out.absolute().parent.is_dir(), "out", "in a folder that is there", str(out))
    ours = not out.exists() or MARK in out.read_text(encoding="utf-8", errors="replace")
    checks.must(ours, "out", "new, or a page of `seqsmooth results`", f"{out}, which is something else,")
    page = make_page(read_results(folder), out.stem)
    if page.charts:
        (out.parent / out.stem).mkdir(exist_ok=True)
    for name, svg in page.charts.items():
        with atomic_write_text(out.parent / out.stem / name) as file:
            file.write(svg)
    with atomic_write_text(out) as file:
        file.write(text(page))
    return page


def text(page: Page) -> str:
    """The page as its file holds it."""
    return "\n\n".join(page.parts) + "\n"


def _glance(page: Page, seen: Glance) -> None:
    if seen.worthwhile:
        page.say("## At a glance", NOTE, seen.text(), page.draw("glance", TITLE, seen.chart()))


def _chapter(page: Page, group: Group, chapter: Chapter) -> None:
    name = page.slug(chapter.title)
    page.say(f"## {chapter.title}", chapter.note)
    main = tables.MAIN[group.task]
    page.say(f"**{NAMES[main]}**, by loss:", tables.scores(group, chapter), tables.yardstick(group))
    lines = [line for _, line in tables.ordered(group, chapter) if line is not None]
    made = group.differences(main)
    intervals = [differences.drawn(line.label, made[line.label]) for line in lines if line.label in made]
    if intervals:
        title = f"{NAMES[main]}: difference from {BASELINE}"
        left = room_for(each.name for each in intervals)
        svg = forest(title, "difference, 95 % interval", intervals, left=left, alone=True)
        page.say(page.draw(f"{name}-differences", title, svg))
    page.say(f"Training: {times.told(times.trainings(group.own))}.", tables.signatures(group))
    pairs = tables.pairs(group)
    page.say(*(["### Other differences", pairs] if pairs else []))
    together = tables.together(group, chapter)
    page.say(*(["### Rows taken together", TOGETHER, together] if together else []))
    _behaviour(page, group, chapter, name)
    page.fold(f"{name}-metrics", "Other metrics, and time", tables.others(group, chapter))
    shown = _main(lines)[:SHOWN]
    if shown and shown[0].records[0].examples:
        number = len(shown[0].records[0].examples)
        page.fold(f"{name}-examples", f"Examples: {number} items", tables.examples(shown))
    again = "Commands: each row again, at its first seed"
    page.fold(f"{name}-commands", again, tables.commands(group, chapter))


def _behaviour(page: Page, group: Group, chapter: Chapter, name: str) -> None:
    seen = tables.behaviours(group, chapter)
    if not seen:
        return
    lines = _main([line for _, line in tables.ordered(group, chapter) if line is not None and line.seen])[:COLOURS]
    charts = draw_charts(lines, {line.label: line.seen for line in lines}, group.task)
    drawn = [page.draw(f"{name}-{chart.name}", chart.title, chart.svg(alone=True)) for chart in charts]
    page.say("### How the models behave", "\n".join(drawn))
    page.fold(f"{name}-behaviour", "The same in numbers, for every loss", seen)


def _main(lines: Sequence[Line]) -> list[Line]:
    """Those to look at: MLE, then those of most seeds, the best first."""

    def rank(line: Line) -> tuple[bool, int, float]:
        metric = tables.MAIN[str(line.records[0].facts["task"])]
        return line.label != BASELINE, -len(line.records), -mean(line.values(metric) or [0.0])

    return sorted(lines, key=rank)


def _more(page: Page, results: Results) -> None:
    for number, part in enumerate(results.fractions):
        page.say(*([] if number else ["## Learning curves: less training data", shares.NOTE]))
        less = [one for share, group in part.items() if share < 1 for line in group.lines for one in line.records]
        page.say(f"Trained on {shares.lengths(part)} On less than all: {times.told(less)}.")
        page.say(shares.gain_table(part), shares.score_table(part))
        name = f"shares-{number + 1}" if number else "shares"
        drawn = [page.draw(f"{name}-{what}", *chart) for what, chart in shares.draw_curves(part).items()]
        page.say("\n".join(drawn))
    if results.variants:
        page.say("## Beams and ensembles", tables.variants(results))
    if results.choices:
        page.say("## Grids", "What validation data chose; below, all that was tried.", tables.chosen(results.choices))
        points = (part for name, held in results.choices.items() for part in (f"`{name}`:", tables.choice(held)))
        page.fold("grids-points", "All values that were tried; bold: chosen", *points)


def _totals(results: Results) -> str:
    """How many runs, and how long they took, by device."""
    told = [f"{times.told(runs)} on {device}" for device, runs in times.by_device(results.records).items()]
    return (
        f"Training, validation included: {'; '.join(told)}. Times of runs that went on at the same moment are counted "
        "once in the time of the device."
    )
