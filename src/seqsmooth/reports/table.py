"""Rows as a table in the paper's form: mean and spread over seeds, the difference from the baseline with its test."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

from seqsmooth.metrics.bootstrap import Comparison
from seqsmooth.reports.losses import LossName
from seqsmooth.reports.rows import Row

SIGNIFICANT = 0.05
NAMES = {
    "bleu-1": "BLEU-1",
    "bleu-2": "BLEU-2",
    "bleu-3": "BLEU-3",
    "bleu-4": "BLEU-4",
    "rouge-l": "ROUGE-L",
    "meteor": "METEOR",
    "cider": "CIDEr",
    "spice": "SPICE",
    "sacrebleu": "BLEU",
    "sacrebleu-13a": "BLEU (13a)",
}


@dataclass(frozen=True)
class Cell:
    """A score: over the seeds of a row, and against the baseline."""

    values: tuple[float, ...]
    against: Comparison | None = None
    best: bool = False

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds; None of one."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def significant(self) -> bool:
        """Whether it differs from the baseline."""
        return self.against is not None and self.against.p_value < SIGNIFICANT


@dataclass(frozen=True)
class Table:
    """Rows and columns.

    Attributes:
        title: what it is a table of.
        metrics: the columns, by their names.
        rows: label, the loss in three columns, a cell for each metric.
        baseline: the label of the row that the others are compared with; None where there is none.
        seeds: those of each row.
        resamples: behind each test.
        more: further columns: label to heading to text.

    Examples:
        >>> from seqsmooth.reports.losses import name_loss
        >>> rows = (("MLE", name_loss({}), (Cell((93.0, 94.0)),)),)
        >>> table = Table("Captions", ("cider",), rows, "MLE", {"MLE": (0, 1)}, resamples=1000)
        >>> table.headings
        ('CIDEr',)
    """

    title: str
    metrics: tuple[str, ...]
    rows: tuple[tuple[str, LossName, tuple[Cell, ...]], ...]
    baseline: str | None
    seeds: Mapping[str, tuple[int, ...]]
    resamples: int
    more: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns of metrics."""
        return tuple(NAMES[name] for name in self.metrics)

    @property
    def losses(self) -> tuple[LossName, ...]:
        """The rows in the paper's columns; those that read alike there, as points of a grid do, by their label."""
        counts = Counter(loss for _, loss, _ in self.rows)
        return tuple(loss if counts[loss] == 1 else loss._replace(loss=label) for label, loss, _ in self.rows)

    def note(self) -> str:
        """What the numbers are, in a sentence or two."""
        numbers = {len(seeds) for seeds in self.seeds.values()}
        spread = "mean ± standard deviation over the seeds of a row" if max(numbers) > 1 else "one seed a row"
        told = f"Values times 100; {spread}."
        if self.baseline is None:
            return told
        return (
            f"{told} †: differs from {self.baseline} (p < {SIGNIFICANT}, paired bootstrap over the items, "
            f"{self.resamples} resamples, each item averaged over the seeds). Bold: the best of a column."
        )


def make_table(
    title: str, rows: Sequence[Row], metrics: Sequence[str], baseline: Row | None, *, resamples: int, seed: int
) -> Table:
    """Compare the rows of a table."""
    best = {name: max(mean(row.values(name)) for row in rows) for name in metrics}
    made = []
    for row in rows:
        cells = []
        for name in metrics:
            values = tuple(row.values(name))
            apart = baseline is not None and row is not baseline
            against = row.against(baseline, name, resamples=resamples, seed=seed) if apart and baseline else None
            cells.append(Cell(values, against, len(rows) > 1 and mean(values) == best[name]))
        made.append((row.label, row.loss, tuple(cells)))
    known = None if baseline is None else baseline.label
    return Table(title, tuple(metrics), tuple(made), known, {row.label: row.seeds for row in rows}, resamples)


def markdown(table: Table) -> str:
    """The table, and the differences from the baseline, in Markdown.

    Examples:
        >>> from seqsmooth.reports.losses import name_loss
        >>> rows = (("MLE", name_loss({}), (Cell((93.0, 94.0)),)),)
        >>> table = Table("Captions", ("cider",), rows, None, {"MLE": (0, 1)}, resamples=1000)
        >>> print(*markdown(table).splitlines()[2:5], sep=chr(10))
        | Loss | Reward | V_sub | CIDEr |
        |---|---|---|---:|
        | MLE |  |  | 93.5 ± 0.7 |
    """
    head = ["Loss", "Reward", "V_sub", *table.headings]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|" + "---:|" * len(table.metrics)]
    for loss, (_, _, cells) in zip(table.losses, table.rows, strict=True):
        told = [f"**{text}**" if cell.best else text for cell in cells for text in [_value(cell, " ± ", "†")]]
        lines.append(f"| {' | '.join([*map(_cell, loss), *told])} |")
    parts = [f"### {_cell(table.title)}" if table.title else "", "\n".join(lines), table.note()]
    if table.baseline is not None:
        lines = [f"| Against {_cell(table.baseline)} | {' | '.join(table.headings)} |"]
        lines.append("|---|" + "---:|" * len(table.metrics))
        for label, _, cells in table.rows:
            if label != table.baseline:
                lines.append(f"| {_cell(label)} | {' | '.join(_difference(cell) for cell in cells)} |")
        parts += ["\n".join(lines), "Difference [95 % interval], p-value."]
    return "\n\n".join(part for part in parts if part) + "\n"


def latex(table: Table) -> str:
    """The table in LaTeX, with the rules of booktabs.

    Examples:
        >>> from seqsmooth.reports.losses import name_loss
        >>> rows = (("MLE", name_loss({}), (Cell((93.0, 94.0)),)),)
        >>> table = Table("Captions", ("cider",), rows, None, {"MLE": (0, 1)}, resamples=1000)
        >>> "93.5" in latex(table), "toprule" in latex(table)
        (True, True)
    """
    columns = "lll" + "r" * len(table.metrics)
    head = [r"Loss", r"Reward", r"$\mathcal{V}_{sub}$", *table.headings]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
    kind = None
    for loss, (_, _, cells) in zip(table.losses, table.rows, strict=True):
        family = loss.loss.split(",")[0].split(" +")[0]
        if kind is not None and family != kind:
            lines.append(r"\midrule")
        kind = family
        told = [_tex_cell(cell) for cell in cells]
        lines.append(" & ".join([*map(_tex, loss), *told]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    note = _tex(table.note()).replace("±", r"$\pm$").replace("†", r"$^\dagger$")
    note = note.replace(f"p < {SIGNIFICANT}", f"$p < {SIGNIFICANT}$")
    caption = f"{_tex(table.title)}. {note}" if table.title else note
    body = "\n".join(lines)
    return f"\\begin{{table}}\n\\centering\n{body}\n\\caption{{{caption}}}\n\\end{{table}}\n"


def plain(table: Table) -> str:
    """The table for a terminal."""
    head = ["", *table.headings]
    lines = [head]
    for label, _, cells in table.rows:
        lines.append([label, *(_value(cell, " ± ", "†") + ("*" if cell.best else "") for cell in cells)])
    for label, extra in table.more.items():
        place = next(n for n, row in enumerate(table.rows, 1) if row[0] == label)
        lines[place] += extra.values()
        head += [name for name in extra if name not in head]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    rows = []
    for line in lines:
        first, *rest = zip(line, widths, strict=True)
        rows.append("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]))
    rows.insert(1, "-" * len(rows[0]))
    note = table.note().replace(" Bold: the best of a column.", " *: the best of a column.")
    return "\n".join([*([table.title] if table.title else []), *rows, note])


def _value(cell: Cell, between: str, mark: str) -> str:
    spread = "" if cell.spread is None else f"{between}{cell.spread:.1f}"
    return f"{cell.mean:.1f}{spread}{mark if cell.significant else ''}"


def _difference(cell: Cell) -> str:
    made = cell.against
    if made is None:
        return ""
    p_value = "p < 0.001" if made.p_value < 0.001 else f"p = {made.p_value:.3f}"
    return f"{made.difference:+.1f} [{made.low:+.1f}, {made.high:+.1f}], {p_value}"


def _tex_cell(cell: Cell) -> str:
    spread = "" if cell.spread is None else rf" {{\scriptsize$\pm${cell.spread:.1f}}}"
    mark = r"$^\dagger$" if cell.significant else ""
    value = rf"\textbf{{{cell.mean:.1f}}}" if cell.best else f"{cell.mean:.1f}"
    return f"{value}{mark}{spread}"


def _tex(text: str) -> str:
    special = {"V_batch": r"$\mathcal{V}_{batch}$", "V_refs": r"$\mathcal{V}_{refs}$", "V": r"$\mathcal{V}$"}
    if text in special:
        return special[text]
    parts = re.split(r"(gamma H|r\^freq)", text)
    return "".join(_MATHS[part] if part in _MATHS else part.translate(_ESCAPES) for part in parts)


def _cell(text: str) -> str:
    """Text in a table of Markdown, whatever it holds."""
    return text.replace("|", r"\|").replace("<", "&lt;")


_MATHS = {"gamma H": r"$\gamma H$", "r^freq": r"$r^{freq}$"}
_ESCAPES = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)
