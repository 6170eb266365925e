"""The report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import mean, stdev

from seqsmooth.reports.behaviour import Behaviour
from seqsmooth.reports.charts import COLOURS, Chart, Interval, forest
from seqsmooth.reports.examples import Example
from seqsmooth.reports.rows import Row
from seqsmooth.reports.style import SCRIPT, STYLE
from seqsmooth.reports.table import NAMES, Cell, Table


@dataclass(frozen=True)
class Section:
    """One table with all that belongs to it."""

    table: Table
    rows: Sequence[Row]
    seen: Mapping[str, Sequence[Behaviour]]
    charts: Sequence[Chart]
    examples: Sequence[Example]


@dataclass(frozen=True)
class Page:
    """What a page says.

    Attributes:
        title: above all.
        lead: below it, a sentence or two; HTML.
        facts: short names and values.
        sections: one for each table.
        seed: the examples are drawn with it.
        commands: how to make it again.
    """

    title: str
    lead: str
    facts: Mapping[str, str]
    sections: Sequence[Section]
    seed: int
    commands: Sequence[str]

    def html(self) -> str:
        """The file."""
        facts = "".join(f"<li>{escape(name)} <b>{escape(value)}</b></li>" for name, value in self.facts.items())
        body = "".join(_section(section, self) for section in self.sections)
        commands = escape("\n".join(self.commands))
        made = f"<h2>Made with</h2><pre><code>{commands}</code></pre>" if self.commands else ""
        made += '<p class="soft small"><a href="index.html">All runs, one line each</a></p>'
        return document(
            self.title,
            f'<h1>{escape(self.title)}</h1><p class="soft">{self.lead}</p><ul class="facts">{facts}</ul>{body}{made}',
        )


def document(title: str, body: str) -> str:
    """A page around its body."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main><script>{SCRIPT}</script></body></html>\n"
    )


def _section(section: Section, page: Page) -> str:
    table = section.table
    parts = [f"<h2>{escape(table.title or 'Scores')}</h2>", _table(section), _differences(section)]
    parts += ["<h2>How they behave</h2>", _behaviour(section)]
    parts += ["<h2>Curves</h2>", _legend(section.rows), '<div class="charts">']
    for chart in section.charts:
        note = f'<p class="soft small">{escape(chart.note)}</p>' if chart.note else ""
        parts.append(f'<div class="card"><h3>{escape(chart.title)}</h3>{chart.svg()}{note}</div>')
    parts.append("</div>")
    if section.examples:
        what = f"{len(section.examples)} items drawn at random (seed {page.seed}), none chosen by hand."
        more = "Underlined: a word that none of the references has. Right: the score of the item alone."
        parts.append(f'<h2>Side by side</h2><p class="soft">{what} {more}</p><div class="examples">')
        parts += [_example(example, section.rows) for example in section.examples]
        parts.append("</div>")
    parts.append(_signatures(section))
    return "".join(parts)


def _table(section: Section) -> str:
    table = section.table
    seeds = max(len(seeds) for seeds in table.seeds.values()) > 1
    head = ["Loss", "Reward", "V<sub>sub</sub>", *map(escape, table.headings), *(["seeds"] if seeds else [])]
    lines = ["<tr>" + "".join(f"<th{_left(n)}>{name}</th>" for n, name in enumerate(head)) + "</tr>"]
    for number, ((label, _, cells), loss) in enumerate(zip(table.rows, table.losses, strict=True)):
        # On a phone the label stands for the first three columns.
        name = f'<span class="wide">{escape(loss.loss)}</span><span class="narrow">{escape(label)}</span>'
        told = [_chip(number) + name, escape(loss.reward), _pool(loss.pool), *map(_cell, cells)]
        told += [str(len(table.seeds[label]))] if seeds else []
        tds = "".join(f"<td{_left(n)}>{text}</td>" for n, text in enumerate(told))
        lines.append(f'<tr data-row="{number}" title="{escape(label, quote=True)}">{tds}</tr>')
    note = f'<p class="soft small">{escape(table.note())}</p>'
    return f'<div class="card scroll"><table>{"".join(lines)}</table></div>{note}'


def _differences(section: Section) -> str:
    """The differences from the baseline as intervals, a card for each of the last metrics."""
    table = section.table
    if table.baseline is None or len(table.rows) < 2:
        return ""
    cards = []
    for place in range(len(table.metrics))[-3:]:
        intervals = []
        for number, (label, _, cells) in enumerate(table.rows):
            made = cells[place].against
            if made is not None:
                told = f"{label}: {made.difference:+.2f} [{made.low:+.2f}, {made.high:+.2f}], p = {made.p_value:.3f}"
                intervals.append(Interval(_short(label), made.difference, made.low, made.high, number, told))
        name = NAMES[table.metrics[place]]
        drawn = forest(f"{name} against {table.baseline}", "difference, 95 % interval", intervals)
        cards.append(f'<div class="card"><h3>{name}: difference from {escape(table.baseline)}</h3>{drawn}</div>')
    return f'<div class="charts">{"".join(cards)}</div>'


def _behaviour(section: Section) -> str:
    head = ["", "NLL", "calibration error", "rare-word recall", "different words", "mean length"]
    head += ["corrupted prefix", "train time"]
    lines = ["<tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>"]
    for number, row in enumerate(section.rows):
        seen = section.seen[row.label]
        cells = [
            _spread([one.nll for one in seen], 3),
            _spread([100 * one.calibration_error for one in seen], 1) + " %",
            _spread([100 * one.rare.found / max(one.rare.of, 1) for one in seen], 1) + " %",
            _spread([float(one.words) for one in seen], 0),
            _spread([one.mean_length for one in seen], 2),
            "+" + _spread([one.corrupted[-1].nll - one.nll for one in seen], 3),
            _spread([float(run.manifest["seconds"]) for run in row.runs], 0) + " s",
        ]
        tds = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f'<tr data-row="{number}"><td>{_chip(number)}{escape(row.label)}</td>{tds}</tr>')
    theirs = next(iter(section.seen.values()))[0].reference_lengths
    length = sum(n * count for n, count in enumerate(theirs)) / sum(theirs)
    worst = next(iter(section.seen.values()))[0].corrupted[-1].share
    note = (
        "NLL: nats a token of the test references, unsmoothed. Calibration error: the mean distance between "
        "confidence and accuracy of the next word. Rare words: the least frequent, together 5 % of the training text; "
        "recall: the share of those in the references of an item that were written for it. "
        f"Corrupted prefix: how much the NLL rises when {worst:.0%} of the words before are random ones. "
        f"References have {length:.2f} words on average."
    )
    return f'<div class="card scroll"><table>{"".join(lines)}</table></div><p class="soft small">{note}</p>'


def _example(example: Example, rows: Sequence[Row]) -> str:
    known = {word for text in example.references for word in text.split()}
    picture = f'<img src="{example.picture}" alt="item {escape(example.name)}">'
    items = []
    for number, (row, (text, score)) in enumerate(zip(rows, example.written, strict=True)):
        words = " ".join(
            escape(word) if word in known else f'<span class="odd">{escape(word)}</span>' for word in text.split()
        )
        right = "" if score is None else f"<span>{score:.0f}</span>"
        who = f'<div class="who"><span>{_chip(number)}{escape(row.label)}</span>{right}</div>'
        items.append(f'<li data-row="{number}">{who}{words or "<i>nothing</i>"}</li>')
    theirs = "".join(f"<li>{escape(text)}</li>" for text in example.references)
    source = f"<p>{escape(example.source)}</p>" if example.source else ""
    several = "references" if len(example.references) > 1 else "reference"
    return (
        f'<div class="card example">{picture if example.picture else ""}<div class="body">{source}'
        f"<ol>{''.join(items)}</ol><details><summary>{len(example.references)} {several} (item "
        f"{escape(example.name)})</summary><ul>{theirs}</ul></details></div></div>"
    )


def _signatures(section: Section) -> str:
    scores = section.rows[0].scores[0]
    metrics = "".join(f"<li><code>{escape(scores[name].signature)}</code></li>" for name in section.table.metrics)
    losses = "".join(
        f"<li>{escape(row.label)}: <code>{escape(str(row.runs[0].manifest.get('objective', '')))}</code></li>"
        for row in section.rows
    )
    return (
        '<h2>Exactly</h2><div class="split"><div class="card"><h3>The losses</h3>'
        f'<ul class="small">{losses}</ul></div><div class="card"><h3>The metrics</h3>'
        f'<ul class="small">{metrics}</ul></div></div>'
    )


def _legend(rows: Sequence[Row]) -> str:
    items = "".join(f'<li data-row="{n}">{_chip(n)}{escape(row.label)}</li>' for n, row in enumerate(rows))
    return f'<ul class="legend">{items}</ul>'


def _cell(cell: Cell) -> str:
    value = f"<b>{cell.mean:.1f}</b>" if cell.best else f"{cell.mean:.1f}"
    spread = "" if cell.spread is None else f' <span class="sd">± {cell.spread:.1f}</span>'
    if not cell.significant or cell.against is None:
        return value + spread
    kind = "up" if cell.against.difference > 0 else "down"
    return f'{value}{spread}<span class="{kind}" title="p = {cell.against.p_value:.3f}">†</span>'


def _spread(values: Sequence[float], digits: int) -> str:
    told = f"{mean(values):.{digits}f}"
    return told if len(values) == 1 else f'{told} <span class="sd">± {stdev(values):.{digits}f}</span>'


def _chip(number: int) -> str:
    return f'<span class="chip" style="background:var(--c{number % COLOURS})"></span>'


def _pool(pool: str) -> str:
    base, _, below = pool.partition("_")
    return f"<i>{base}</i><sub>{below}</sub>" if below else f"<i>{escape(base)}</i>"


def _left(place: int) -> str:
    return ' class="left wide"' if place in (1, 2) else ""


def _short(label: str, most: int = 22) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
