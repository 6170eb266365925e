"""The tables of a page of results, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import variance
from typing import Any

from seqsmooth.metrics.tasks import TASKS
from seqsmooth.metrics.trainings import LEAST
from seqsmooth.reports.behaviour import COLUMNS
from seqsmooth.reports.families import families
from seqsmooth.reports.formats import NAMES, NO_BREAK, difference_cells, format_gain, markdown_table, number, spread
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import Chapter, Outline, Results
from seqsmooth.reports.rows import BASELINE, Row, Table
from seqsmooth.reports.table import list_unlike
from seqsmooth.training.bases import respell
from seqsmooth.training.sweep import short_keys

NOT_RUN, NOT_SCORED = "not run", "not scored"
Column = tuple[str, Callable[[str, Row | None], str]]
"""The heading of a column, and its text for a label and its row."""


def order_rows(table: Table, chapter: Chapter) -> list[tuple[str, Row | None]]:
    """The paper's rows in the paper's order, then ours that it lacks; None for one that was not run."""
    labels = [*chapter.rows, *(row.label for row in table.rows if row.label not in chapter.rows)]
    rows = [(label, table.row(label)) for label in labels]
    return [(label, row) for label, row in rows if chapter.whole or row is not None]


def main_scores(table: Table, chapter: Chapter) -> str:
    """The main metric: the paper's number, ours, and the difference from MLE with its intervals."""
    return _table_of(table, chapter, _columns(table, table.main, chapter.paper(table.main)))


def other_scores(table: Table, chapter: Chapter) -> str:
    """Further metrics, the second with the paper's numbers and differences; and the time of a run."""
    main, second = table.main, TASKS[table.task].second
    columns: list[Column] = []
    if second in table.metrics:
        known = _columns(table, second, chapter.paper(second))
        columns += [(f"{NAMES[second]}, {name}", text) for name, text in known[:-1]]
    columns += [_means(name) for name in NAMES if name in table.metrics and name not in (main, second)]
    columns.append(("seconds a run", lambda label, row: "" if row is None else f"{row.seconds:.0f}"))
    return _table_of(table, chapter, columns)


def _columns(table: Table, metric: str, paper: Mapping[str, float]) -> list[Column]:
    """The columns of a metric; that of the paper is left out where it has no numbers."""
    differences = table.differences(metric)

    def printed(label: str, row: Row | None) -> str:
        if label not in paper or BASELINE not in paper:
            return number(paper.get(label))
        gain = "" if label == BASELINE else f" ({format_gain(paper[label] - paper[BASELINE])})"
        return f"{number(paper[label])}{gain}"

    def gain(label: str, row: Row | None) -> str:
        return " ".join(difference_cells(differences.get(label))[:2]).strip()

    columns: list[Column] = [
        (f"paper (-{NO_BREAK}{BASELINE})", printed),
        ("ours (seeds)", lambda label, row: score(row, metric)),
        (f"ours -{NO_BREAK}{BASELINE} [95{NO_BREAK}%: items]", gain),
        ("[items and trainings]", lambda label, row: difference_cells(differences.get(label))[2]),
    ]
    return columns if paper else columns[1:]


def _means(metric: str) -> Column:
    return NAMES[metric], lambda label, row: "" if row is None else spread(row.values(metric))


def _table_of(table: Table, chapter: Chapter, columns: Sequence[Column]) -> str:
    rows = [[label, *(text(label, row) for _, text in columns)] for label, row in order_rows(table, chapter)]
    return markdown_table(["loss", *(heading for heading, _ in columns)], rows)


def score(row: Row | None, metric: str) -> str:
    """The mean over seeds, and the number of seeds."""
    values = [] if row is None else row.values(metric)
    return f"{spread(values)} ({len(values)})" if values else NOT_RUN if row is None else NOT_SCORED


def yardstick(table: Table) -> str:
    """By how much seeds of one loss differ: the measure for a difference of single runs."""
    pooled, several = seed_spread(table), len(_several(table))
    if pooled is None:
        return ""
    whose = f"pooled over the {several} losses" if several > 1 else "that of the only loss"
    return (
        f"Seeds of one loss differ by a standard deviation of {pooled:.2f} {NAMES[table.main]} ({whose} of "
        f"{LEAST} seeds or more). A difference of single runs says little beside that."
    )


def seed_spread(table: Table) -> float | None:
    """The standard deviation over seeds of the main metric, pooled over the losses that know it."""
    several = _several(table)
    if not several:
        return None
    within = sum(variance(values) * (len(values) - 1) for values in several)
    return math.sqrt(within / sum(len(values) - 1 for values in several))


def _several(table: Table) -> list[list[float]]:
    return [values for values in (row.values(table.main) for row in table.rows) if len(values) >= LEAST]


def unlike(table: Table) -> str:
    """In what the runs differ outside their objective."""
    return list_unlike(table) or (
        "Outside the objective, nothing: configs, corpus, decoding, parameters, epochs, steps, device and versions "
        "were compared."
    )


def signatures(table: Table) -> str:
    """The exact names of the metrics."""
    scores = table.rows[0].first.scores
    names = [name for name in (table.main, TASKS[table.task].second) if name in scores]
    return "Signatures: " + "; ".join(f"{NAMES[name]} `{scores[name].signature}`" for name in names) + "."


def pairs(table: Table, outline: Outline) -> str:
    """Comparisons beside those with MLE, where both rows were run."""
    found = [(ours, theirs, table.difference(table.main, ours, theirs)) for ours, theirs in outline.pairs]
    cells = [(ours, theirs, difference_cells(each)) for ours, theirs, each in found if each is not None]
    rows = [[ours, theirs, f"{value} {items}", trainings] for ours, theirs, (value, items, trainings) in cells]
    head = ["loss", "minus", f"{NAMES[table.main]} [95 %: items]", "[items and trainings]"]
    return markdown_table(head, rows) if rows else ""


def together(table: Table, chapter: Chapter, outline: Outline) -> str:
    """The gains of rows that have something in common, beside the same rows of the paper."""
    rows = []
    for family in families(table, chapter.rows, chapter.paper(table.main), outline.pools, outline.contrasts):
        value, items, trainings = difference_cells(family.ours)
        printed = "" if family.paper is None else format_gain(family.paper)
        rows.append([family.name, family.minus, str(family.rows), printed, f"{value} {items}", trainings])
    head = ["rows", "minus", "how many", "paper", f"{NAMES[table.main]} [95 %: items]", "[items and trainings]"]
    return markdown_table(head, rows) if rows else ""


def behaviours(table: Table, chapter: Chapter) -> str:
    """The behaviour of the models beyond scores."""
    rows = [
        [label, *row.describe_behaviours()]
        for label, row in order_rows(table, chapter)
        if row is not None and row.behaviours
    ]
    return markdown_table(["loss", *COLUMNS], rows) if rows else ""


def examples(rows: Sequence[Row]) -> str:
    """The texts of some losses for the same items, side by side."""
    texts = [{output.item: output.text for output in row.first.examples} for row in rows]
    lines = [[item, *(known.get(item, "") or "*nothing*" for known in texts)] for item in texts[0]]
    return markdown_table(["item", *(row.label for row in rows)], lines, numbers=False)


def commands(table: Table, chapter: Chapter) -> str:
    """The commands that repeat each row, at its first seed."""
    rows = [row for _, row in order_rows(table, chapter) if row is not None]
    return "\n".join(f"- {row.label}: `{' && '.join(map(respell, row.first.commands))}`" for row in rows)


def variants(results: Results) -> str:
    """Other beams and ensembles, and beside them the same single models decoded as their configs say."""

    def key(one: Record) -> tuple[str, str, str, tuple[int, ...]]:
        return one.table, one.label, one.split, one.members

    short = {chapter.table: chapter.short for chapter in results.outline.chapters if chapter.short}
    known = {key(one) for one in results.variants}
    own = [row for table in results.tables for row in table.rows]
    shown = results.variants + [one for row in own for one in row.records if key(one) in known]
    shown.sort(key=lambda one: (*key(one)[:3], len(one.members), one.members, one.decoding.get("beam", 0), one.variant))
    metrics = [name for name in NAMES if any(name in one.scores for one in shown)]
    rows = []
    for one in shown:
        models = f"{len(one.members)} models" if len(one.members) > 1 else f"seed {one.members[0]}"
        numbers = (number(one.scores[name].value) if name in one.scores else "" for name in metrics)
        theirs = next((other for other in shown if _is_baseline_of(one, other)), None)
        name = short.get(one.table, one.table)
        rows.append([one.label, name, one.split, models, _way(one), *numbers, _gain(one, theirs)])
    main = " or ".join(NAMES[name] for name in metrics if name in {TASKS[str(one.facts["task"])].main for one in shown})
    head = ["loss", "set", "split", "of", "beam", *(NAMES[name] for name in metrics)]
    return markdown_table([*head, f"{main} -{NO_BREAK}{BASELINE} [95{NO_BREAK}%: items]"], rows)


def _is_baseline_of(one: Record, other: Record) -> bool:
    """Whether the other is MLE, as many models of the same seeds, decoded in the same way."""
    ours, theirs = ((each.table, each.split, each.items, each.members, each.decoding) for each in (one, other))
    return one.label != BASELINE and other.label == BASELINE and ours == theirs


def _gain(one: Record, baseline: Record | None) -> str:
    if baseline is None:
        return ""
    pair = Table("", one.split, (Row("", (one,)), Row(BASELINE, (baseline,))))
    return " ".join(difference_cells(pair.difference(pair.main, ""))[:2]).strip()


def _way(one: Record) -> str:
    """The width of the beam, and whatever else is not as usual."""
    usual = {"length": one.facts["config"].get("decoding", {}).get("length"), "mean": "probabilities"}
    other = [f"{key} {one.decoding[key]}" for key in usual if one.decoding.get(key) not in (None, usual[key])]
    other += ["last weights"] if one.decoding.get("which") == "last" else []
    return ", ".join([str(one.decoding.get("beam", "")), *other])


def best_points(choices: Mapping[str, Mapping[str, Any]]) -> str:
    """The best point of each config, of all grids."""
    rows = []
    for name, choice in choices.items():
        short = short_keys(_keys(choice))
        for point in choice["points"]:
            if point["best"]:
                values = ", ".join(f"{short[key]} {value}" for key, value in point["values"].items())
                rows.append([name, point["config"], values, f"{point['score']:.2f} {_metric_name(choice)}"])
    return markdown_table(["grid", "config", "chosen", "on validation"], rows, numbers=False) if rows else ""


def points(choice: Mapping[str, Any]) -> str:
    """The points of a grid, the best in bold."""
    keys = _keys(choice)
    rows = []
    for point in choice["points"]:
        value = point["score"]
        text = "unfinished" if value is None else f"**{value:.2f}**" if point["best"] else f"{value:.2f}"
        rows.append([point["config"], *(str(point["values"].get(key, "")) for key in keys), text])
    return markdown_table(["config", *(f"`{key}`" for key in keys), f"{_metric_name(choice)} on validation"], rows)


def _keys(choice: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(key for point in choice["points"] for key in point["values"]))


def _metric_name(choice: Mapping[str, Any]) -> str:
    return NAMES.get(choice["metric"], str(choice["metric"]))
