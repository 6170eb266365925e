"""From run folders to a folder with the report: a page, tables, plots, numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.ops import checks
from seqsmooth.reports.behaviour import Behaviour, behaviour
from seqsmooth.reports.examples import choose
from seqsmooth.reports.figures import draw_charts
from seqsmooth.reports.index import index
from seqsmooth.reports.page import Page, Section
from seqsmooth.reports.rows import Row, find_row, gather, shared_metrics
from seqsmooth.reports.table import Table, latex, make_table, markdown
from seqsmooth.training.writing import check_own
from seqsmooth.version import __version__

KIND = "seqsmooth report 1"
FILES = ("report.json", "tables.md", "tables.tex", "index.html", "report.html")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What a report should be.

    Attributes:
        runs: the folders.
        out: the folder of the report.
        baseline: the row that the others are compared with: its label, its loss or the name of a run.
        split: the items that were decoded.
        metrics: columns; those of the task that all runs have by default.
        examples: how many items are shown.
        pictures: a folder of the images, named by their ids.
        resamples: of the bootstrap.
        seed: the bootstrap and the choice of examples follow from it.
        device: where the models are observed.
        title: of the page.
        lead: below it; HTML.
        commands: how to make it again, for the page.
    """

    runs: Sequence[Path]
    out: Path
    baseline: str = "MLE"
    split: str = "test"
    metrics: Sequence[str] | None = None
    examples: int = 12
    pictures: Path | None = None
    resamples: int = 1000
    seed: int = 0
    device: str = "cpu"
    title: str = "Loss smoothing"
    lead: str = ""
    commands: Sequence[str] = field(default_factory=tuple)


def write_report(wish: Wish, progress: Progress = lambda told: None) -> list[Table]:
    """Write report.html, index.html, tables.md, tables.tex, report.json and plots/*.svg, and give the tables."""
    above = wish.out.absolute().parent
    checks.must(above.is_dir(), "out", "in a folder that is there", str(wish.out))
    checks.must(not wish.out.exists() or wish.out.is_dir(), "out", "a folder", f"the file {wish.out}")
    _check_out(wish.out)
    checks.at_least("resamples", wish.resamples, 1)
    checks.at_least("seed", wish.seed, 0)
    checks.at_least("examples", wish.examples, 0)
    if wish.pictures is not None:
        checks.must(wish.pictures.is_dir(), "pictures", "a folder that is there", str(wish.pictures))
    progress(f"{len(wish.runs)} runs")
    rows = gather(wish.runs, wish.split)
    tables = list(dict.fromkeys(row.table for row in rows))
    sections = [_section([row for row in rows if row.table == name], name, wish, progress) for name in tables]
    first = rows[0].runs[0]
    facts = _facts(rows, wish)
    page = Page(wish.title, wish.lead or _lead(rows, wish), facts, sections, wish.seed, wish.commands)
    made = [section.table for section in sections]
    progress("writing")
    _write(wish.out, page, made, {"data": first.manifest["data"], "split": wish.split})
    return made


def _check_out(out: Path) -> None:
    """Check that nothing but an older report would be replaced."""
    try:
        ours = json.loads((out / "report.json").read_text(encoding="utf-8"))["kind"] == KIND
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    others = [name for name in FILES if (out / name).exists() and not ours]
    checks.must(not others, "out", "a new folder, or one of a report", f"{out}, whose {', '.join(others)} is no report")


def _section(rows: list[Row], title: str, wish: Wish, progress: Progress) -> Section:
    baseline = find_row(rows, wish.baseline)
    if baseline is None and len(rows) > 1:
        names = ", ".join(row.label for row in rows)
        told = f"{wish.baseline!r}; the rows{f' of {title}' if title else ''} are {names}"
        raise ValueError(f"`baseline` must be the name of one row of every table, but is {told}.")
    ways = {json.dumps(check_own(row.runs[0], wish.split), sort_keys=True) for row in rows}
    rule = "decoded as their configs say in a table, or all otherwise in the same way (`seqsmooth decode --overwrite`)"
    checks.must(len(ways) == 1, "runs", rule, f"some with {' and some with '.join(sorted(ways))}")
    fingerprints = {row.runs[0].manifest["data"]["fingerprint"] for row in rows}
    checks.must(len(fingerprints) == 1, "runs", "of one corpus in a table", f"of {len(fingerprints)} corpora")
    metrics = shared_metrics(rows, wish.metrics)
    checks.must(
        len(metrics) > 0,
        "runs",
        "scored by a metric that all have (`seqsmooth decode RUN` scores by all)",
        "without one",
    )
    table = make_table(title, rows, metrics, baseline, resamples=wish.resamples, seed=wish.seed)
    seen: dict[str, list[Behaviour]] = {}
    for row in rows:
        for run in row.runs:
            progress(f"observing {run.name}, seed {run.manifest['seed']}")
            seen.setdefault(row.label, []).append(behaviour(run, wish.split, wish.device))
    more = {
        label: {
            "NLL": f"{mean(one.nll for one in several):.3f}",
            "calibration": f"{100 * mean(one.calibration_error for one in several):.1f} %",
            "words": f"{mean(one.words for one in several):.0f}",
        }
        for label, several in seen.items()
    }
    task = str(rows[0].runs[0].manifest["task"])
    corpus = rows[0].runs[0].corpus()
    examples = choose(rows, corpus, wish.split, wish.examples, wish.seed, wish.pictures)
    return Section(replace(table, more=more), rows, seen, draw_charts(rows, seen, task), examples)


def _facts(rows: Sequence[Row], wish: Wish) -> dict[str, str]:
    manifest = rows[0].runs[0].manifest
    items = len(next(iter(rows[0].scores[0].values())))
    seeds = sorted({seed for row in rows for seed in row.seeds})
    known = {
        "runs": str(sum(len(row.runs) for row in rows)),
        "seed" if len(seeds) == 1 else "seeds": ", ".join(map(str, seeds)),
        f"{wish.split} items": f"{items:,}",
        "parameters": f"{int(manifest['parameters']):,}" if manifest.get("parameters") else "",
        "corpus": str(manifest["data"]["fingerprint"])[:12],
        "device": str(manifest.get("device", "")),
        "seqsmooth": str(manifest.get("versions", {}).get("seqsmooth", __version__)),
        "torch": str(manifest.get("versions", {}).get("torch", "")),
    }
    return {name: value for name, value in known.items() if value}


def _lead(rows: Sequence[Row], wish: Wish) -> str:
    what = "captions" if rows[0].runs[0].manifest["task"] == "captions" else "translations"
    return f"{len(rows)} losses, the same model and data; {what} of the split <b>{wish.split}</b>, beam search."


def _write(out: Path, page: Page, tables: Sequence[Table], told: Mapping[str, Any]) -> None:
    plots = out / "plots"
    try:
        plots.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"`out` must be a folder that can be written, but {out} is not: {error.strerror}.") from error
    for number, section in enumerate(page.sections):
        before = "" if len(page.sections) == 1 else f"{number}-"
        for chart in section.charts:
            with atomic_write_text(plots / f"{before}{chart.name}.svg") as file:
                file.write(chart.svg(alone=True))
    rows = [row for section in page.sections for row in section.rows]
    metrics = list(dict.fromkeys(name for table in tables for name in table.metrics))
    held = {"kind": KIND, **told, "tables": [_numbers(section) for section in page.sections]}
    files = {
        "report.json": json.dumps(held, indent=1, ensure_ascii=False) + "\n",  # first: by it the folder is known
        "tables.md": "\n".join(markdown(table) for table in tables),
        "tables.tex": "% needs booktabs\n" + "\n".join(latex(table) for table in tables),
        "index.html": index(page.title, rows, metrics),
        "report.html": page.html(),
    }
    for name, text in files.items():
        with atomic_write_text(out / name) as file:
            file.write(text)


def _numbers(section: Section) -> dict[str, Any]:
    table = section.table
    rows = {}
    for label, loss, cells in table.rows:
        scores = {
            name: {"values": cell.values, "against": None if cell.against is None else asdict(cell.against)}
            for name, cell in zip(table.metrics, cells, strict=True)
        }
        seen = [asdict(one) for one in section.seen[label]]
        rows[label] = {"loss": loss._asdict(), "seeds": table.seeds[label], "scores": scores, "behaviour": seen}
    return {"title": table.title, "baseline": table.baseline, "resamples": table.resamples, "rows": rows}
