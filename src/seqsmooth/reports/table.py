"""A table in the paper's form: mean and spread over seeds, and marks at what differs from the baseline."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from seqsmooth.metrics.tasks import TASKS, check_names
from seqsmooth.metrics.trainings import LEAST, Difference
from seqsmooth.ops import checks
from seqsmooth.reports.alike import describe_differences
from seqsmooth.reports.formats import (
    BY_ITEMS,
    BY_TRAININGS,
    NAMES,
    difference_cells,
    escape_cell,
    interval_note,
    markdown_table,
    sureness,
)
from seqsmooth.reports.rows import Table


@dataclass(frozen=True)
class TableCell:
    """The scores of a row by one metric, and their difference from the baseline."""

    values: tuple[float, ...]
    difference: Difference | None = None
    best: bool = False

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds; None of one."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def mark(self) -> str:
        """The sign of a difference whose interval excludes 0: over items and trainings, or over items alone."""
        if self.difference is None:
            return ""
        return {BY_TRAININGS: "†", BY_ITEMS: "‡"}.get(sureness(self.difference), "")

    def text(self) -> str:
        """Mean, spread and mark."""
        around = "" if self.spread is None else f" ± {self.spread:.1f}"
        return f"{self.mean:.1f}{around}{self.mark}"


def shown_metrics(table: Table, wanted: Sequence[str] | None = None) -> tuple[str, ...]:
    """The columns of a table: the metrics that are wanted, or those of the task that all of its runs have."""
    records = [(row.label, record) for row in table.rows for record in row.records]
    check_names(wanted or ())
    for name in wanted or ():
        for label, record in records:
            rule = f"one that all runs are scored by (`seqsmooth decode RUN --metrics {name}`)"
            checks.must(name in record.scores, "metrics", rule, f"{name}, which {label} lacks")
    names = TASKS[table.task].table if wanted is None else tuple(wanted)
    return tuple(name for name in names if all(name in record.scores for _, record in records))


def make_cells(table: Table, metrics: Sequence[str]) -> dict[str, list[TableCell]]:
    """The cells of each row, by label, in the order of the metrics."""
    cells: dict[str, list[TableCell]] = {row.label: [] for row in table.rows}
    for name in metrics:
        best = max(mean(row.values(name)) for row in table.rows)
        differences = table.differences(name)
        for row in table.rows:
            values = tuple(row.values(name))
            ahead = len(table.rows) > 1 and mean(values) == best
            cells[row.label].append(TableCell(values, differences.get(row.label), ahead))
    return cells


def note(table: Table) -> str:
    """Explain the numbers of a table."""
    several = max(len(row.records) for row in table.rows) > 1
    text = f"Scores in points; {'mean ± standard deviation over the seeds of a row' if several else 'one seed a row'}."
    if table.row(table.baseline) is None or len(table.rows) < 2:
        return text
    return (
        f"{text} †: the 95 % interval of the difference from {table.baseline}, over items and trainings, excludes 0. "
        f"‡: the one over items does, and with fewer than {LEAST} seeds on a side there is no other: another seed may "
        f"say otherwise. {table.resamples} resamples. Bold: the best of a column."
    )


def markdown(table: Table, metrics: Sequence[str]) -> str:
    """The table, and the differences from the baseline, in Markdown."""
    cells, headings = make_cells(table, metrics), [NAMES[name] for name in metrics]
    lines = [f"| {' | '.join(['Loss', 'Reward', 'V_sub', *headings])} |", "|---|---|---|" + "---:|" * len(metrics)]
    for label, loss in table.losses.items():
        texts = [f"**{cell.text()}**" if cell.best else cell.text() for cell in cells[label]]
        lines.append(f"| {' | '.join([*map(escape_cell, loss), *texts])} |")
    parts = [f"### {escape_cell(table.name)}" if table.name else "", "\n".join(lines), note(table)]
    if any(cell.difference for several in cells.values() for cell in several):
        head = [f"Against {table.baseline}"]
        for heading in headings:
            head += [f"{heading} [items]", "[items and trainings]"]
        rows = [[label, *difference_columns(cells[label])] for label in cells if label != table.baseline]
        parts += [markdown_table(head, rows), interval_note(table.baseline)]
    return "\n\n".join(part for part in parts if part) + "\n"


def difference_columns(cells: Sequence[TableCell]) -> list[str]:
    """Two columns for each cell: the difference with its interval over items, and the interval over trainings, too."""
    columns = []
    for cell in cells:
        value, items, trainings = difference_cells(cell.difference)
        columns += [f"{value} {items}".strip(), trainings]
    return columns


def list_unlike(table: Table) -> str:
    """List in Markdown what differs outside the objective; nothing where nothing does."""
    return "\n".join(f"- `{key}`: {text}" for key, text in describe_differences(table.unlike()).items())


def latex(table: Table, metrics: Sequence[str]) -> str:
    """The table in LaTeX, with the rules of booktabs."""
    cells, headings = make_cells(table, metrics), [NAMES[name] for name in metrics]
    columns = "lll" + "r" * len(metrics)
    head = [r"Loss", r"Reward", r"$\mathcal{V}_{sub}$", *headings]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
    kind = None
    for label, loss in table.losses.items():
        family = loss.loss.split(",")[0].split(" +")[0]
        lines += [r"\midrule"] if kind not in (None, family) else []
        kind = family
        lines.append(" & ".join([*map(_tex, loss), *map(_tex_cell, cells[label])]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    text = _tex(note(table)).replace("±", r"$\pm$").replace("†", r"$^\dagger$").replace("‡", r"$^\ddagger$")
    caption = f"{_tex(table.name)}. {text}" if table.name else text
    body = "\n".join(lines)
    return f"\\begin{{table}}\n\\centering\n{body}\n\\caption{{{caption}}}\n\\end{{table}}\n"


def plain(table: Table, metrics: Sequence[str], more: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """The table for a terminal; `more` has further columns, by label and heading."""
    more = more or {}
    extra = list(dict.fromkeys(heading for columns in more.values() for heading in columns))
    lines = [["", *(NAMES[name] for name in metrics), *extra]]
    for label, cells in make_cells(table, metrics).items():
        texts = [cell.text() + ("*" if cell.best else "") for cell in cells]
        lines.append([label, *texts, *(more.get(label, {}).get(heading, "") for heading in extra)])
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    rows = []
    for line in lines:
        first, *rest = zip(line, widths, strict=True)
        rows.append("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]))
    rows.insert(1, "-" * len(rows[0]))
    below = textwrap.fill(note(table).replace(" Bold: the best", " *: the best"), max(80, len(rows[0])))
    return "\n".join([*([table.name] if table.name else []), *rows, below])


def _tex_cell(cell: TableCell) -> str:
    around = "" if cell.spread is None else rf" {{\scriptsize$\pm${cell.spread:.1f}}}"
    mark = cell.mark.replace("†", r"$^\dagger$").replace("‡", r"$^\ddagger$")
    value = rf"\textbf{{{cell.mean:.1f}}}" if cell.best else f"{cell.mean:.1f}"
    return f"{value}{mark}{around}"


def _tex(text: str) -> str:
    special = {"V_batch": r"$\mathcal{V}_{batch}$", "V_refs": r"$\mathcal{V}_{refs}$", "V": r"$\mathcal{V}$"}
    if text in special:
        return special[text]
    parts = re.split(r"(gamma H|r\^freq)", text)
    return "".join(_MATHS[part] if part in _MATHS else part.translate(_ESCAPES) for part in parts)


_MATHS = {"gamma H": r"$\gamma H$", "r^freq": r"$r^{freq}$"}
_ESCAPES = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)
