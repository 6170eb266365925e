"""The pages of results in Markdown, from records alone: a first page, and one for each table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from urllib.parse import quote

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.metrics.tasks import TASKS
from seqsmooth.metrics.trainings import LEAST
from seqsmooth.ops import checks
from seqsmooth.reports import record, shares, times
from seqsmooth.reports import results_tables as tables
from seqsmooth.reports.behaviour import NOTE as BEHAVIOUR
from seqsmooth.reports.charts import COLOURS, forest
from seqsmooth.reports.families import TOGETHER
from seqsmooth.reports.figures import difference_interval, draw_charts
from seqsmooth.reports.formats import NAMES
from seqsmooth.reports.glance import NOTE, RULE, TITLE, Glance
from seqsmooth.reports.paper import paper_source
from seqsmooth.reports.results import Chapter, Results, read_results
from seqsmooth.reports.rows import BASELINE, Row, Table

MARK = "<!-- written by `seqsmooth report results` from records; change nothing by hand -->"
NOTHING = "No records are committed yet."
SHOWN = 4
"""Losses whose examples stand side by side."""
SCORES = f"""\
- **Rows and seeds.** Each row is a loss. Its runs differ in their seed alone; its score is their mean ± standard
  deviation, with the number of seeds in brackets. The paper's numbers are from its tables ({paper_source()}); a row of
  the paper without a record here says "{tables.NOT_RUN}".
- **Two intervals.** Each difference from {BASELINE} has a 95 % interval over **items**: the paired bootstrap over the
  test items, with these trained models as they are. Where both sides have {LEAST} seeds or more, it has one over
  **items and trainings**: what other seeds would give, too. Its variance is that over seeds plus that over items, less
  what both of them saw, and it takes Student's t with Welch's degrees of freedom; `seqsmooth.metrics.trainings` has the
  formula, and a test simulates how often such intervals hold the truth. No interval is widened for the number of rows:
  of twenty losses that change nothing, one would seem to.
- **Bold, italic, colours.** A difference is **bold**, and blue in charts, where its interval over items and trainings
  excludes 0. It is *italic*, and orange, where there is only the one over items and that excludes 0: another seed may
  say otherwise. All others are grey. Charts show the interval over items and trainings where there is one."""
EXAMPLES = f"""\
- **Examples** are of items drawn at random (seed {record.SEED}), none picked, the same for all losses; each loss by the
  run of its first seed. Neither references nor sources are there: they have licences of their own."""


@dataclass
class Page:
    """A page of Markdown and its charts.

    Attributes:
        name: of its file, without the ending.
        title: its heading.
        folder: where its charts are, seen from it: "" or a folder with a slash.
        parts: its paragraphs.
        charts: SVG, by the names of their files.
    """

    name: str
    title: str
    folder: str = ""
    parts: list[str] = field(default_factory=list)
    charts: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content of its file."""
        return "\n\n".join([f"# {self.title}", MARK, *self.parts]) + "\n"

    def say(self, *parts: str) -> None:
        """Add paragraphs; empty ones are left out."""
        self.parts += [part for part in parts if part]

    def section(self, heading: str, *parts: str) -> None:
        """Add paragraphs under a heading; nothing where the last of them is empty."""
        if parts[-1]:
            self.say(f"## {heading}", *parts)

    def draw(self, name: str, title: str, svg: str) -> str:
        """Keep a chart, and give the Markdown that shows it."""
        self.charts[f"{name}.svg"] = svg
        return f"![{title}]({quote(f'{self.folder}{name}.svg')})"

    def fold(self, name: str, summary: str, *parts: str) -> None:
        """Add paragraphs that are closed until one wants to see them; `name` is what a link leads to."""
        # Not the indented form of the site's own extension: what is in here stays plain Markdown for other readers.
        self.say(f'<details markdown="1" id="{name}">\n<summary>{summary}</summary>', *parts, "</details>")


def make_pages(results: Results, name: str = "results") -> list[Page]:
    """Make the first page, whose name is given, and the others, which belong into a folder of that name."""
    first = Page(name, "Results", quote(f"{name}/"))
    chapters = results.chapters
    seen = Glance.of(chapters)
    pages = [_glance(seen)] if seen.worthwhile else []
    pages += [_chapter(results, chapter, table) for chapter, table in chapters]
    pages += [_shares(results)] if results.shares else []
    pages += [_variants(results)] if results.variants else []
    pages += [_grids(results)] if results.choices else []
    pages += [_discussion(results)] if "discussion.md" in results.texts else []
    pages += [_reading(results)] if results.records else []
    first.say(results.texts.get("summary.md", "").strip() or ("" if results.records else NOTHING))
    if seen.worthwhile:
        rows = seen.rows(results.outline.summary or None)
        first.say(seen.text(rows, first.folder), NOTE, first.draw("summary", TITLE, seen.chart(rows)))
    first.section("All tables", "\n".join(f"- [{page.title}]({first.folder}{page.name}.md)" for page in pages))
    return [first, *pages]


def write_results(folder: Path, out: Path) -> list[Page]:
    """Read records and write the first page and, in a folder of its name beside it, the other pages and the charts."""
    checks.must(out.suffix == ".md", "out", "a file of Markdown (.md)", str(out))
    checks.must(out.absolute().parent.is_dir(), "out", "in a folder that is there", str(out))
    pages = make_pages(read_results(folder), out.stem)
    beside = out.parent / out.stem
    files = {out if number == 0 else beside / f"{page.name}.md": page.text for number, page in enumerate(pages)}
    for path in files:
        ours = not path.exists() or _is_ours(path)
        checks.must(ours, "out", "new, or pages of `seqsmooth report results`", f"{path}, which is something else")
    files |= {beside / name: svg for page in pages for name, svg in page.charts.items()}
    if len(files) > 1:
        beside.mkdir(exist_ok=True)
    for path in beside.glob("*.md"):  # a page that an earlier time made and this one does not
        if path not in files and _is_ours(path):
            path.unlink()
    for path, text in files.items():
        with atomic_write_text(path) as file:
            file.write(text)
    return pages


def _is_ours(path: Path) -> bool:
    """Whether this or an earlier version wrote a page."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return MARK in text or MARK.replace("report results", "results") in text


def _glance(seen: Glance) -> Page:
    page = Page("glance", "All losses on all sets")
    rows = seen.rows()
    page.say(f"{NOTE} {RULE}", seen.text(rows), page.draw("glance", TITLE, seen.chart(rows)))
    return page


def _chapter(results: Results, chapter: Chapter, table: Table) -> Page:
    page, main, outline = Page(chapter.page, chapter.title), table.main, results.outline
    page.say(chapter.note.strip(), f"**{NAMES[main]}**, by loss:", tables.main_scores(table, chapter))
    page.say(tables.yardstick(table))
    rows = [row for _, row in tables.order_rows(table, chapter) if row is not None]
    differences = table.differences(main)
    intervals = [difference_interval(row.label, differences[row.label]) for row in rows if row.label in differences]
    if intervals:
        title = f"{NAMES[main]}: difference from {BASELINE}"
        svg = forest(title, "difference, 95 % interval", intervals, alone=True)
        page.say(page.draw(f"{page.name}-differences", title, svg))
    page.say(f"Training: {times.summary(times.trainings(table.own))}.", tables.signatures(table))
    page.section("What else differs", tables.unlike(table) if len(rows) > 1 else "")
    page.section("Other differences", tables.pairs(table, outline))
    together = tables.together(table, chapter, outline)
    page.section("Rows taken together", TOGETHER.format(baseline=BASELINE), together)
    behaviours = tables.behaviours(table, chapter)
    if behaviours:
        shown = _main([row for row in rows if row.behaviours])[:COLOURS]
        charts = draw_charts(shown, table.task)
        drawn = [page.draw(f"{page.name}-{chart.name}", chart.title, chart.svg(alone=True)) for chart in charts]
        page.section("How the models behave", "\n".join(drawn))
        page.fold(f"{page.name}-behaviour", "The same in numbers, for every loss", behaviours)
    page.fold(f"{page.name}-metrics", "Other metrics, and time", tables.other_scores(table, chapter))
    shown = _main(rows)[:SHOWN]
    if shown and shown[0].first.examples:
        number = len(shown[0].first.examples)
        page.fold(f"{page.name}-examples", f"Examples: {number} items", tables.examples(shown))
    again = "Commands: each row again, at its first seed"
    page.fold(f"{page.name}-commands", again, tables.commands(table, chapter))
    return page


def _main(rows: Sequence[Row]) -> list[Row]:
    """The rows to look at: MLE, then those of most seeds, the best first."""

    def rank(row: Row) -> tuple[bool, int, float]:
        metric = TASKS[str(row.first.facts["task"])].main
        return row.label != BASELINE, -len(row.records), -mean(row.values(metric) or [0.0])

    return sorted(rows, key=rank)


def _shares(results: Results) -> Page:
    page = Page("shares", "Learning curves: less training data")
    page.say(shares.NOTE)
    for number, part in enumerate(results.shares):
        less = [record for share, table in part.items() if share < 1 for row in table.rows for record in row.records]
        page.say(f"Trained on {shares.lengths(part)} On less than all: {times.summary(less)}.")
        page.say(shares.gain_table(part), shares.score_table(part))
        name = f"shares-{number + 1}" if number else "shares"
        page.say("\n".join(page.draw(f"{name}-{what}", *chart) for what, chart in shares.draw_curves(part).items()))
    return page


def _variants(results: Results) -> Page:
    page = Page("beams", "Beams and ensembles")
    page.say(tables.variants(results))
    return page


def _grids(results: Results) -> Page:
    page = Page("grids", "Grids")
    page.say("The values that validation data chose; below, all that were tried.", tables.best_points(results.choices))
    points = (part for name, choice in results.choices.items() for part in (f"`{name}`:", tables.points(choice)))
    page.fold("grids-points", "All values that were tried; bold: chosen", *points)
    return page


def _discussion(results: Results) -> Page:
    page = Page("discussion", "Discussion")
    page.say(results.texts["discussion.md"].strip())
    return page


def _reading(results: Results) -> Page:
    """The page of what is true of all pages; nothing about what no record has."""
    page = Page("reading", "How to read the tables")
    own = [one for one in results.records if not one.variant]
    parts = [SCORES, _seconds(results)]
    parts += (
        [f"- **How the models behave.** {BEHAVIOUR}".replace("\n", "\n  ")] if any(o.behaviour for o in own) else []
    )
    parts += [EXAMPLES] if any(one.examples for one in own) else []
    page.say("\n".join(parts), _totals(results))
    there = {table.name for _, table in results.chapters}
    left_out = [f"- {chapter.title}" for chapter in results.outline.chapters if chapter.table not in there]
    page.section("Not run", "\n".join(left_out))
    return page


def _seconds(results: Results) -> str:
    most = max((times.at_once(runs) for runs in times.by_device(results.records).values()), default=1)
    others = "another" if most == 2 else f"up to {most - 1} others"
    shared = f", while {others} shared the device" if most > 1 else ""
    return f"- **Seconds a run** are the wall time of a run{shared}: they do not compare losses."


def _totals(results: Results) -> str:
    """The number of runs and their time, by device."""
    parts = [f"{times.summary(runs)} on {device}" for device, runs in times.by_device(results.records).items()]
    return (
        f"Training, validation included: {'; '.join(parts)}. Times of runs that went on at the same moment are counted "
        "once in the time of the device."
    )
