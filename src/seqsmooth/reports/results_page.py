"""The page of results: tables, charts, examples and commands from records alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import mean
from urllib.parse import quote

from seqsmooth.ops import checks
from seqsmooth.ops.files import text_written_whole
from seqsmooth.reports import record, shares
from seqsmooth.reports import results_tables as tables
from seqsmooth.reports.chapters import CHAPTERS, Chapter
from seqsmooth.reports.charts import COLOURS, Interval, forest
from seqsmooth.reports.figures import draw_charts
from seqsmooth.reports.paper import paper_source
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import BASELINE, RESAMPLES, SEED, Group, Line, Results, read_results
from seqsmooth.reports.table import NAMES

MARK = "<!-- written by `seqsmooth results` from records; change nothing by hand -->"
NOTHING = "No records are committed yet."
SHOWN = 4
"""Losses whose examples stand side by side."""
METHOD = f"""\
Each row is a loss; the runs of a row differ in their seed alone, and its score is their mean ± standard deviation. The
paper's numbers are from its tables ({paper_source()}); a row of the paper
without a record here says "{tables.NOT_RUN}". Each difference from {BASELINE} has two 95 % intervals. **Items**: the
paired bootstrap over the test items, {RESAMPLES:,} resamples of seed {SEED}, with these trained models as they are.
**Items and trainings**: what other seeds would give, too, where both sides have three seeds or more. The variance of
the difference is that over seeds, plus that over items, less what both of them saw, and the interval takes Student's t
with Welch's degrees of freedom; `seqsmooth.metrics.trainings` has the formula, and its test simulates how often such
intervals hold the truth. A difference is **bold** where its interval over items and trainings excludes 0, and *italic*
where there is only the one over items and that excludes 0: another seed may say otherwise."""
BEHAVIOUR = """\
NLL: nats a token of the test references, unsmoothed whatever the loss. Calibration error: the mean distance between the
probability of the most likely next word and how often it is right. Rare words: the least frequent ones, which together
make 5 % of the training text; recall: the share of those in the references of an item that its hypothesis has. Prefix
corrupted: each word before the one to predict was replaced with a probability of 30 % by another, drawn from the
unigram law of the training text; all models read the same prefixes."""

SHARES = f"""\
Where does smoothing pay? The same losses on a share of the training items, which are the same for all losses at a seed,
and on all of them. First the differences from {BASELINE} at the same share, with the interval over items and trainings
where there are seeds enough, else the one over items; then the scores, with their seeds. The band around a line of the
last chart reaches from the least to the greatest score of the seeds."""


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
    page.say(_totals(results) if results.records else NOTHING, results.discussion.strip())
    page.say(*(["## How to read the tables", METHOD] if results.records else []))
    groups = {(group.table, group.split): group for group in results.groups}
    known = {chapter.table for chapter in CHAPTERS}
    new = dict.fromkeys(table for table, _ in groups if table not in known)
    left_out = []
    for chapter in [*CHAPTERS, *(Chapter(table, table or "Runs") for table in new)]:
        there = [group for (table, _), group in groups.items() if table == chapter.table]
        left_out += [] if there else [f"- {chapter.title}"]
        for group in there:
            _chapter(page, group, chapter)
    _more(page, results)
    page.say(*(["## Not run", "\n".join(left_out)] if left_out else []))
    return page


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
        with text_written_whole(out.parent / out.stem / name) as file:
            file.write(svg)
    with text_written_whole(out) as file:
        file.write(text(page))
    return page


def text(page: Page) -> str:
    """The page as its file holds it."""
    return "\n\n".join(page.parts) + "\n"


def _chapter(page: Page, group: Group, chapter: Chapter) -> None:
    told = "" if group.split == "test" else f" ({group.split})"
    name = page.slug(f"{chapter.title}{told}")
    page.say(f"## {chapter.title}{told}", chapter.note)
    records = _trained([one for line in group.lines for one in line.records])
    main = tables.MAIN[group.task]
    page.say(f"**{NAMES[main]}**, by loss:", tables.scores(group, chapter), tables.yardstick(group))
    page.say(f"Training: {_time(records)}.", tables.signatures(group))
    lines = [line for _, line in tables.ordered(group, chapter) if line is not None]
    made = group.differences(main)
    intervals = []
    for number, line in enumerate(lines):
        against = made.get(line.label)
        if against is not None:
            ends = against.trainings or against.items
            spoken = f"{line.label}: {against.value:+.2f} [{ends[0]:+.2f}, {ends[1]:+.2f}]"
            intervals.append(Interval(line.label, against.value, *ends, number, spoken))
    if intervals:
        title = f"{NAMES[main]}: difference from {BASELINE}"
        svg = forest(title, "difference, 95 % interval", intervals, left=220, alone=True)
        page.say(page.draw(f"{name}-differences", title, svg))
    pairs = tables.pairs(group)
    page.say(*(["### Other differences", pairs] if pairs else []))
    page.say("### Other metrics, and time", tables.others(group, chapter))
    _behaviour(page, group, chapter, name)
    shown = _main(lines)[:SHOWN]
    if shown and shown[0].records[0].examples:
        number = len(shown[0].records[0].examples)
        drawn = (
            f"{number} items drawn at random (seed {record.SEED}), none picked; each loss by the run of its first seed."
        )
        page.say("### Examples", drawn, tables.examples(shown))
    page.say("### Commands", "Each row again, at its first seed:", tables.commands(group, chapter))


def _behaviour(page: Page, group: Group, chapter: Chapter, name: str) -> None:
    seen = tables.behaviours(group, chapter)
    if not seen:
        return
    page.say("### How the models behave", seen, BEHAVIOUR)
    lines = _main([line for _, line in tables.ordered(group, chapter) if line is not None and line.seen])[:COLOURS]
    charts = draw_charts(lines, {line.label: line.seen for line in lines}, group.task)
    drawn = [page.draw(f"{name}-{chart.name}", chart.title, chart.svg(alone=True)) for chart in charts]
    page.say("\n".join(drawn))


def _main(lines: Sequence[Line]) -> list[Line]:
    """Those to look at: MLE, then those of most seeds, the best first."""

    def rank(line: Line) -> tuple[bool, int, float]:
        metric = tables.MAIN[str(line.records[0].facts["task"])]
        return line.label != BASELINE, -len(line.records), -mean(line.values(metric) or [0.0])

    return sorted(lines, key=rank)


def _more(page: Page, results: Results) -> None:
    for number, part in enumerate(results.fractions):
        page.say(*([] if number else ["## Learning curves: less training data", SHARES]))
        less = [one for share, group in part.items() if share < 1 for line in group.lines for one in line.records]
        page.say(f"Trained on {shares.lengths(part)} On less than all: {_time(less)}.")
        page.say(tables.share_gains(part), tables.share_scores(part))
        name = f"shares-{number + 1}" if number else "shares"
        drawn = [page.draw(f"{name}-{what}", *chart) for what, chart in shares.draw_curves(part).items()]
        page.say("\n".join(drawn))
    if results.variants:
        page.say("## Beams and ensembles", tables.variants(results))
    if results.choices:
        page.say("## Grids", "Values that were tried, and what they reached on validation data; bold: chosen.")
        for name, held in results.choices.items():
            page.say(f"### `{name}`", tables.choice(held))


def _totals(results: Results) -> str:
    """How many runs, and how long they took, by device."""
    devices: dict[str, list[Record]] = defaultdict(list)
    for one in _trained(results.records):
        devices[str(one.facts["device"])].append(one)
    told = [f"{_time(several)} on {device}" for device, several in sorted(devices.items())]
    return (
        f"Training, validation included: {'; '.join(told)}. Times of runs that went on at the same moment are counted "
        "once in the time of the device. What a batch costs with each loss, measured alone, is in "
        "[benchmarks](benchmarks.md), beside the paper's own table of times."
    )


def _trained(records: Sequence[Record]) -> list[Record]:
    """One record of each training, whatever was decoded with it."""
    found = {(one.facts["name"], one.facts["seed"], one.facts["started"]): one for one in records if not one.variant}
    return list(found.values())


def _time(records: Sequence[Record]) -> str:
    total = sum(float(one.facts["seconds"]) for one in records)
    return f"{len(records)} runs, {_hours(total)} of run time in {_hours(busy(records))}"


def busy(records: Sequence[Record]) -> float:
    """For how many seconds at least one of the runs went on."""
    starts = [datetime.fromisoformat(str(one.facts["started"])).timestamp() for one in records]
    spans = sorted(zip(starts, (float(one.facts["seconds"]) for one in records), strict=True))
    total, until = 0.0, 0.0
    for start, seconds in spans:
        total += max(0.0, start + seconds - max(start, until))
        until = max(until, start + seconds)
    return total


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
