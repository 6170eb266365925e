"""The tables of the page of results, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, stdev, variance
from typing import Any

from seqsmooth.metrics.trainings import LEAST
from seqsmooth.reports import differences
from seqsmooth.reports.behaviour import Behaviour
from seqsmooth.reports.chapters import CHAPTERS, PAIRS, Chapter
from seqsmooth.reports.families import families
from seqsmooth.reports.record import Record
from seqsmooth.reports.results import BASELINE, Group, Line, Results
from seqsmooth.reports.table import NAMES
from seqsmooth.training.sweep import short_keys

NOT_RUN, NOT_SCORED = "not run", "not scored"
NO_BREAK = "\u00a0"
MAIN = {"captions": "cider", "translation": "sacrebleu"}
Column = tuple[str, Callable[[str, Line | None], str]]
SECOND = {"captions": "bleu-4", "translation": "sacrebleu-13a"}


def ordered(group: Group, chapter: Chapter) -> list[tuple[str, Line | None]]:
    """The paper's rows in the paper's order, then ours that it lacks; None for one that was not run."""
    labels = [*chapter.rows, *(line.label for line in group.lines if line.label not in chapter.rows)]
    rows = [(label, group.line(label)) for label in labels]
    return [(label, line) for label, line in rows if chapter.whole or line is not None]


def scores(group: Group, chapter: Chapter) -> str:
    """The main metric: the paper's number, ours, and the difference from MLE with its intervals."""
    metric = MAIN[group.task]
    return _table_of(group, chapter, _columns(group, metric, _paper(chapter, metric)))


def others(group: Group, chapter: Chapter) -> str:
    """Further metrics, the second with the paper's numbers and differences; and the time of a run."""
    main, second = MAIN[group.task], SECOND[group.task]
    columns: list[Column] = []
    if second in group.metrics:
        known = _columns(group, second, _paper(chapter, second))
        columns += [(f"{NAMES[second]}, {name}", tell) for name, tell in known[:-1]]
    columns += [_means(name) for name in NAMES if name in group.metrics and name not in (main, second)]
    columns.append(("seconds a run", lambda label, line: "" if line is None else f"{line.seconds:.0f}"))
    return _table_of(group, chapter, columns)


def _columns(group: Group, metric: str, paper: Mapping[str, float]) -> list[Column]:
    """Those of a metric; without numbers of the paper, those of the paper are left out."""
    made = group.differences(metric)

    def printed(label: str, line: Line | None) -> str:
        if label not in paper or BASELINE not in paper:
            return _number(paper.get(label))
        gained = "" if label == BASELINE else f" ({differences.signed(paper[label] - paper[BASELINE])})"
        return f"{_number(paper[label])}{gained}"

    def gained(label: str, line: Line | None) -> str:
        return " ".join(differences.told(made.get(label))[:2]).strip()

    known: list[Column] = [
        (f"paper (-{NO_BREAK}{BASELINE})", printed),
        ("ours (seeds)", lambda label, line: reached(line, metric)),
        (f"ours -{NO_BREAK}{BASELINE} [95{NO_BREAK}%: items]", gained),
        ("[items and trainings]", lambda label, line: differences.told(made.get(label))[2]),
    ]
    return [column for column in known if paper or not column[0].startswith("paper")]


def _means(metric: str) -> Column:
    return NAMES[metric], lambda label, line: "" if line is None else spread(line.values(metric))


def _table_of(group: Group, chapter: Chapter, columns: Sequence[Column]) -> str:
    rows = [[label, *(tell(label, line) for _, tell in columns)] for label, line in ordered(group, chapter)]
    return table(["loss", *(heading for heading, _ in columns)], rows)


def yardstick(group: Group) -> str:
    """By how much seeds of one loss differ: what a difference of single runs is to be held against."""
    pooled, number = seed_spread(group), len(_several(group))
    if pooled is None:
        return ""
    whose = f"pooled over the {number} losses" if number > 1 else "that of the only loss"
    return (
        f"Seeds of one loss differ by a standard deviation of {pooled:.2f} {NAMES[MAIN[group.task]]} ({whose} of "
        f"{LEAST} seeds or more): hold against it what a single run says."
    )


def seed_spread(group: Group) -> float | None:
    """The standard deviation over seeds of the main metric, pooled over the losses that know it."""
    several = _several(group)
    if not several:
        return None
    within = sum(variance(values) * (len(values) - 1) for values in several)
    return math.sqrt(within / sum(len(values) - 1 for values in several))


def _several(group: Group) -> list[list[float]]:
    return [values for values in (line.values(MAIN[group.task]) for line in group.lines) if len(values) >= LEAST]


def signatures(group: Group) -> str:
    """What the numbers are, exactly."""
    held = group.lines[0].records[0].scores
    names = [name for name in (MAIN[group.task], SECOND[group.task]) if name in held]
    return "Signatures: " + "; ".join(f"{NAMES[name]} `{held[name].signature}`" for name in names) + "."


def pairs(group: Group) -> str:
    """What is compared beside MLE, where both were run."""
    metric = MAIN[group.task]
    made = [(ours, theirs, group.difference(metric, ours, theirs)) for ours, theirs in PAIRS]
    told = [(ours, theirs, differences.told(held)) for ours, theirs, held in made if held is not None]
    rows = [[ours, theirs, f"{value} {items}", trainings] for ours, theirs, (value, items, trainings) in told]
    head = ["loss", "minus", f"{NAMES[metric]} [95 %: items]", "[items and trainings]"]
    return table(head, rows) if rows else ""


def together(group: Group, chapter: Chapter) -> str:
    """What rows that have something in common gain, beside the same rows of the paper."""
    metric = MAIN[group.task]
    paper = _paper(chapter, metric)
    rows = []
    for family in families(group, metric, chapter.rows, paper):
        value, items, trainings = differences.told(family.ours)
        printed = "" if family.paper is None else differences.signed(family.paper)
        rows.append([family.name, family.minus, str(family.rows), printed, f"{value} {items}", trainings])
    head = ["rows", "minus", "how many", "paper", f"{NAMES[metric]} [95 %: items]", "[items and trainings]"]
    return table(head, rows) if rows else ""


_BEHAVIOUR: Mapping[str, tuple[Callable[[Behaviour], float], str]] = {
    "NLL": (lambda one: one.nll, ".3f"),
    "calibration error, %": (lambda one: 100 * one.calibration_error, ".1f"),
    "rare-word recall, %": (lambda one: 100 * one.rare.found / max(one.rare.of, 1), ".1f"),
    "different words": (lambda one: float(one.words), ".0f"),
    "mean length": (lambda one: one.mean_length, ".2f"),
    "NLL, prefix corrupted": (lambda one: one.corrupted[-1].nll, ".3f"),
    "rise": (lambda one: one.corrupted[-1].nll - one.nll, "+.3f"),
    "accuracy, true prefix, %": (lambda one: 100 * one.corrupted[0].accuracy, ".1f"),
    "accuracy, corrupted, %": (lambda one: 100 * one.corrupted[-1].accuracy, ".1f"),
}


def behaviours(group: Group, chapter: Chapter) -> str:
    """What the models do beyond scores."""
    lines = [(label, line) for label, line in ordered(group, chapter) if line is not None and line.seen]
    rows = [
        [label, *(spread([read(one) for one in line.seen], form) for read, form in _BEHAVIOUR.values())]
        for label, line in lines
    ]
    return table(["loss", *_BEHAVIOUR], rows) if rows else ""


def examples(lines: Sequence[Line]) -> str:
    """What some losses wrote for the same items, side by side."""
    texts = [{one.item: one.text for one in line.records[0].examples} for line in lines]
    rows = [[item, *(_cell(held.get(item, "")) for held in texts)] for item in texts[0]]
    return table(["item", *(line.label for line in lines)], rows, numbers=False)


def commands(group: Group, chapter: Chapter) -> str:
    """What repeats each row, at its first seed."""
    lines = [line for _, line in ordered(group, chapter) if line is not None]
    told = [f"- {line.label}: `{' && '.join(line.records[0].commands)}`" for line in lines]
    return "\n".join(told)


def variants(results: Results) -> str:
    """Other beams and ensembles, and beside them the same single models decoded as their configs say."""

    def of(one: Record) -> tuple[str, str, str, tuple[int, ...]]:
        return str(one.facts["table"]), str(one.facts["row"]), one.split, one.members

    known_as = {chapter.table: chapter.short for chapter in CHAPTERS if chapter.short}
    known = {of(one) for one in results.variants}
    own = [line for group in results.groups for line in group.lines]
    found = results.variants + [one for line in own for one in line.records if of(one) in known]
    found.sort(key=lambda one: (*of(one)[:3], len(one.members), one.members, one.decoding.get("beam", 0), one.variant))
    metrics = [name for name in NAMES if any(name in one.scores for one in found)]
    rows = []
    for one in found:
        table_name, row, split, members = of(one)
        told = f"{len(members)} models" if len(members) > 1 else f"seed {members[0]}"
        numbers = (_number(one.scores[name].value) if name in one.scores else "" for name in metrics)
        theirs = next((other for other in found if _baseline_of(one, other)), None)
        rows.append([row, known_as.get(table_name, table_name), split, told, _way(one), *numbers, _gain(one, theirs)])
    main = " or ".join(NAMES[name] for name in metrics if name in {MAIN[str(one.facts["task"])] for one in found})
    head = ["loss", "set", "split", "of", "beam", *(NAMES[name] for name in metrics)]
    return table([*head, f"{main} -{NO_BREAK}{BASELINE} [95{NO_BREAK}%: items]"], rows)


def _baseline_of(one: Record, other: Record) -> bool:
    """Whether the other is MLE, as many models of the same seeds, decoded in the same way."""
    ours, theirs = ((held.facts["table"], held.split, held.items, held.members, held.decoding) for held in (one, other))
    return one.facts["row"] != BASELINE and other.facts["row"] == BASELINE and ours == theirs


def _gain(one: Record, baseline: Record | None) -> str:
    if baseline is None:
        return ""
    pair = Group("", one.split, (Line("", (one,)), Line(BASELINE, (baseline,))))
    return " ".join(differences.told(pair.difference(MAIN[pair.task], "", BASELINE))[:2]).strip()


def _way(one: Record) -> str:
    """The width of the beam, and what else is not as usual."""
    usual = {"length": one.facts["config"].get("decoding", {}).get("length"), "mean": "probabilities"}
    told = [f"{key} {one.decoding[key]}" for key in usual if one.decoding.get(key) not in (None, usual[key])]
    told += ["last weights"] if one.decoding.get("which") == "last" else []
    return ", ".join([str(one.decoding.get("beam", "")), *told])


def chosen(choices: Mapping[str, Mapping[str, Any]]) -> str:
    """The best point of each config, of all grids."""
    rows = []
    for name, held in choices.items():
        short = short_keys(_keys(held))
        for point in held["points"]:
            if point["best"]:
                values = ", ".join(f"{short[key]} {value}" for key, value in point["values"].items())
                rows.append([name, point["config"], values, f"{point['score']:.2f} {_validated(held)}"])
    return table(["grid", "config", "chosen", "on validation"], rows, numbers=False) if rows else ""


def choice(held: Mapping[str, Any]) -> str:
    """The points of a grid, the best in bold."""
    keys = _keys(held)
    rows = []
    for point in held["points"]:
        score = point["score"]
        told = "unfinished" if score is None else f"**{score:.2f}**" if point["best"] else f"{score:.2f}"
        rows.append([point["config"], *(str(point["values"].get(key, "")) for key in keys), told])
    return table(["config", *(f"`{key}`" for key in keys), f"{_validated(held)} on validation"], rows)


def _keys(held: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(key for point in held["points"] for key in point["values"]))


def _validated(held: Mapping[str, Any]) -> str:
    return NAMES.get(held["metric"], str(held["metric"]))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """A table in Markdown; columns are numbers, which break over lines where they have a line break only, or texts."""
    rule = "---:" if numbers else "---"
    lines = [f"| {' | '.join(map(_escaped, head))} |", "|---|" + f"{rule}|" * (len(head) - 1)]
    for row in rows:
        cells = [_escaped(cell).replace(" ", NO_BREAK) if numbers else _escaped(cell) for cell in row]
        lines.append(f"| {' | '.join(cells)} |".replace("\n", "<br>"))
    return "\n".join(lines)


def reached(line: Line | None, metric: str) -> str:
    """The mean over seeds, and how many they are."""
    values = [] if line is None else line.values(metric)
    return f"{spread(values)} ({len(values)})" if values else NOT_RUN if line is None else NOT_SCORED


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """The mean, and the standard deviation where there are several."""
    if not values:
        return ""
    told = f"{mean(values):{form}}"
    return told if len(values) == 1 else f"{told} ± {stdev(values):{form.lstrip('+')}}"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("<", "&lt;")  # names and texts may hold anything


def _paper(chapter: Chapter, metric: str) -> dict[str, float]:
    found = {}
    for label, row in chapter.rows.items():
        values = {"stage one": row.stage_one, "printed": row.printed, "": {}}[chapter.beside]
        if metric in values:
            found[label] = values[metric]
    return found


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _cell(text: str) -> str:
    return text or "*nothing*"
