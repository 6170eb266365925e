"""From runs or records to a folder with the report: a page, tables, plots, numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from seqsmooth.files.atomic import atomic_write_text
from seqsmooth.metrics.tasks import TASKS
from seqsmooth.ops import checks
from seqsmooth.reports.alike import describe_differences
from seqsmooth.reports.behaviour import COLUMNS, NOTE, behaviour
from seqsmooth.reports.charts import COLOURS, STYLE, Chart, forest
from seqsmooth.reports.examples import Example, draw_examples
from seqsmooth.reports.figures import difference_interval, draw_charts
from seqsmooth.reports.formats import NAMES, format_gain, format_interval, interval_note
from seqsmooth.reports.record import Record
from seqsmooth.reports.recording import read_run
from seqsmooth.reports.rows import BASELINE, Row, Table, find_row, make_tables, place
from seqsmooth.reports.table import TableCell, latex, list_unlike, make_cells, markdown, note, plain, shown_metrics
from seqsmooth.training.writing import decoding_overrides

if TYPE_CHECKING:
    from jinja2 import Environment

KIND = "seqsmooth report 1"
FILES = ("report.json", "tables.md", "tables.tex", "index.html", "report.html")
Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Section:
    """A table of a report with its columns and the items that are shown below it."""

    table: Table
    metrics: tuple[str, ...]
    examples: Sequence[Example]

    @cached_property
    def cells(self) -> Mapping[str, Sequence[TableCell]]:
        """The scores of each row, by label."""
        return make_cells(self.table, self.metrics)

    @cached_property
    def charts(self) -> list[Chart]:
        """The curves of the rows."""
        return draw_charts(self.table.rows, self.table.task)

    def forest(self, metric: str) -> str:
        """Draw the differences from the baseline by a metric, each in the colour of its row."""
        known = self.table.differences(metric)
        intervals = [
            difference_interval(_short(row.label), known[row.label], number)
            for number, row in enumerate(self.table.rows)
            if row.label in known
        ]
        return forest(f"{NAMES[metric]} against {self.table.baseline}", "difference, 95 % interval", intervals)

    @property
    def has_baseline(self) -> bool:
        """Whether there are differences from a baseline."""
        return len(self.table.rows) > 1 and self.table.row(self.table.baseline) is not None

    @cached_property
    def unlike(self) -> dict[str, str]:
        """In what the runs differ outside the objective, by key."""
        return describe_differences(self.table.unlike())

    @property
    def behaviours(self) -> list[tuple[int, Row]]:
        """The rows that were observed, with their numbers."""
        return [(number, row) for number, row in enumerate(self.table.rows) if row.behaviours]

    def text(self) -> str:
        """The table for a terminal, with some columns of how the models behave."""
        more = {
            row.label: {
                "NLL": f"{mean(one.nll for one in row.behaviours):.3f}",
                "calibration": f"{100 * mean(one.calibration_error for one in row.behaviours):.1f} %",
                "words": f"{mean(one.words for one in row.behaviours):.0f}",
            }
            for _, row in self.behaviours
        }
        return plain(self.table, self.metrics, more)


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    baseline: str = BASELINE,
    split: str = "test",
    metrics: Sequence[str] | None = None,
    examples: int = 12,
    pictures: Path | None = None,
    resamples: int = 1000,
    seed: int = 0,
    device: str = "cpu",
    title: str = "Loss smoothing",
    lead: str = "",
    commands: Sequence[str] = (),
    progress: Progress = lambda what: None,
) -> list[Section]:
    """Write report.html, index.html, tables.md, tables.tex, report.json and plots/*.svg, and give the tables.

    Args:
        runs: folders of runs, or records.
        out: the folder of the report.
        baseline: the row that the others are compared with: its label, its loss or the name of a run.
        split: the items that were decoded.
        metrics: the columns; by default those of the task that all runs have.
        examples: the number of items that are shown.
        pictures: a folder of images, named by the ids of the items.
        resamples: the number of resampled corpora behind each interval.
        seed: the resampled corpora and the items that are shown follow from it.
        device: where models are observed.
        title: the heading of the page.
        lead: the paragraph below it.
        commands: how to make the report again, for the page.
        progress: called with what is being done.
    """
    checks.must(out.absolute().parent.is_dir(), "out", "in a folder that is there", str(out))
    checks.must(not out.exists() or out.is_dir(), "out", "a folder", f"the file {out}")
    _check_out(out)
    checks.at_least("resamples", resamples, 1)
    checks.at_least("seed", seed, 0)
    checks.at_least("examples", examples, 0)
    if pictures is not None:
        checks.must(pictures.is_dir(), "pictures", "a folder that is there", str(pictures))
    progress(f"{len(runs)} runs")
    sections = []
    for table in gather(runs, split):
        compared = replace(_with_baseline(table, baseline), resamples=resamples, seed=seed)
        columns = shown_metrics(compared, metrics)
        rule = "scored by a metric that all have (`seqsmooth decode RUN` scores by all)"
        checks.must(len(columns) > 0, "runs", rule, "without one")
        observed = replace(compared, rows=tuple(_observe(row, split, device, progress) for row in compared.rows))
        sections.append(Section(observed, columns, draw_examples(observed.rows, examples, seed, pictures)))
    progress("writing")
    content = {
        "heading": title,
        "lead": lead or _lead(sections, split),
        "facts": _facts(sections, split),
        "sections": sections,
        "seed": seed,
        "commands": commands,
    }
    _write(out, sections, content, split)
    return sections


def gather(runs: Sequence[Path], split: str) -> list[Table]:
    """Open runs and records as tables of rows, in the order of the paper; what is not scored yet is scored."""
    checks.must(len(runs) > 0, "runs", "one or more", "none")
    records = [Record.load(path) if path.is_file() else read_run(path, split) for path in runs]
    for record in records:
        checks.must(record.split == split, str(record.file), f"of the split {split}", f"of {record.split}")
    tasks = sorted({str(record.facts["task"]) for record in records})
    checks.must(len(tasks) == 1, "runs", "all of one task", " and ".join(tasks))
    tables = make_tables(records)
    for table in tables:
        rows = [row.first for row in table.rows]
        ways = {
            json.dumps(decoding_overrides(row.run, row.decoding), sort_keys=True) for row in rows if row.run is not None
        }
        rule = "decoded as their configs say in a table, or all in the same other way (`seqsmooth decode --overwrite`)"
        checks.must(len(ways) <= 1, "runs", rule, f"some with {' and some with '.join(sorted(ways))}")
        corpora = {row.data for row in rows}
        checks.must(len(corpora) == 1, "runs", "of one corpus in a table", f"of {len(corpora)} corpora")
    return [replace(table, rows=tuple(sorted(table.rows, key=lambda row: place(row.loss.loss)))) for table in tables]


def _check_out(out: Path) -> None:
    """Check that nothing but an older report would be replaced."""
    try:
        ours = json.loads((out / "report.json").read_text(encoding="utf-8"))["kind"] == KIND
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    others = [name for name in FILES if (out / name).exists() and not ours]
    checks.must(not others, "out", "a new folder, or one of a report", f"{out}, whose {', '.join(others)} is no report")


def _with_baseline(table: Table, name: str) -> Table:
    row = find_row(table.rows, name)
    if row is None and len(table.rows) > 1:
        names = ", ".join(row.label for row in table.rows)
        of = f" of {table.name}" if table.name else ""
        raise ValueError(
            f"`baseline` must be the name of one row of every table; it is {name!r}; the rows{of} are {names}."
        )
    return table if row is None else replace(table, baseline=row.label)


def _observe(row: Row, split: str, device: str, progress: Progress) -> Row:
    """The row with the behaviour of each of its runs; that of records is what they hold."""
    records = []
    for record in row.records:
        if record.run is not None:
            progress(f"observing {record.run.name}, seed {record.seed}")
            record = replace(record, behaviour=behaviour(record.run, split, device))
        records.append(record)
    return replace(row, records=tuple(records))


def _records(sections: Sequence[Section]) -> list[Record]:
    return [record for section in sections for row in section.table.rows for record in row.records]


def _facts(sections: Sequence[Section], split: str) -> dict[str, str]:
    """Facts that are true of all runs of the page: a value in which any two differ is left out."""
    records = _records(sections)
    seeds = sorted({record.seed for record in records})
    known: dict[str, Callable[[Record], str]] = {
        f"{split} items": lambda record: f"{len(next(iter(record.scores.values())).statistics):,}",
        "parameters": lambda record: f"{int(record.facts['parameters'] or 0):,}",
        "corpus": lambda record: record.data[:12],
        "device": lambda record: str(record.facts["device"] or ""),
        "seqsmooth": lambda record: str((record.facts["versions"] or {}).get("seqsmooth", "")),
        "torch": lambda record: str((record.facts["versions"] or {}).get("torch", "")),
    }
    values = {name: {read(record) for record in records} for name, read in known.items()}
    shared = {name: found.pop() for name, found in values.items() if len(found) == 1}
    facts = {"runs": str(len(records)), "seed" if len(seeds) == 1 else "seeds": ", ".join(map(str, seeds)), **shared}
    return {name: value for name, value in facts.items() if value not in ("", "0")}


def _lead(sections: Sequence[Section], split: str) -> str:
    rows, what = sum(len(section.table.rows) for section in sections), TASKS[sections[0].table.task].output
    return f"{rows} {'losses' if rows > 1 else 'loss'}, compared by their {what} of the split {split}."


def environment() -> Environment:
    """The templates of pages; whatever they show is escaped."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise checks.missing("jinja2", "pages", "toolkit") from error
    folder = FileSystemLoader(Path(__file__).with_name("templates"))
    return Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _write(out: Path, sections: Sequence[Section], content: Mapping[str, Any], split: str) -> None:
    plots = out / "plots"
    try:
        plots.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"`out` must be a folder that can be written, but {out} is not: {error.strerror}.") from error
    for number, section in enumerate(sections):
        before = "" if len(sections) == 1 else f"{number}-"
        for chart in section.charts:
            with atomic_write_text(plots / f"{before}{chart.name}.svg") as file:
                file.write(chart.svg(alone=True))
    data = {"fingerprint": _records(sections)[0].data}
    numbers = {"kind": KIND, "data": data, "split": split, "tables": [_numbers(section) for section in sections]}
    templates, shared = environment(), {"chart_style": STYLE, "heading": content["heading"]}
    shown = {"names": NAMES, "colours": COLOURS, "format_gain": format_gain, "format_interval": format_interval}
    shown |= {"note": note, "interval_note": interval_note, "behaviour_columns": COLUMNS, "behaviour_note": NOTE}
    columns, runs = _runs(sections)
    listed = {"heading": f"{content['heading']}: runs", "columns": columns, "runs": runs}
    files = {
        "report.json": json.dumps(numbers, indent=1, ensure_ascii=False) + "\n",  # first: by it the folder is known
        "tables.md": "\n".join(_markdown(section) for section in sections),
        "tables.tex": "% needs booktabs\n" + "\n".join(latex(section.table, section.metrics) for section in sections),
        "index.html": templates.get_template("runs.html").render(shared | listed),
        "report.html": templates.get_template("report.html").render(shared | shown | dict(content)),
    }
    for name, text in files.items():
        with atomic_write_text(out / name) as file:
            file.write(text)


def _markdown(section: Section) -> str:
    unlike = list_unlike(section.table)
    more = f"\nOutside the objective, these runs differ in\n\n{unlike}\n" if unlike else ""
    return markdown(section.table, section.metrics) + more


def _runs(sections: Sequence[Section]) -> tuple[list[str], list[list[str]]]:
    """All runs, one line each: what they are, how long they took, how good they became."""
    metrics = list(dict.fromkeys(name for section in sections for name in section.metrics))
    columns = ["run", "row", "table", "seed", "epochs", "steps", "seconds", "best in validation", "device"]
    lines = []
    for record in _records(sections):
        facts, best = record.facts, record.facts["best"]
        line = [str(facts["name"]), record.label, record.table, str(record.seed), str(facts["epochs"])]
        line += [str(facts["steps"]), f"{float(facts['seconds']):.0f}"]
        line.append("" if best is None else f"{best['value']:.2f} ({best['metric']}, epoch {best['epoch']})")
        line.append(str(facts["device"] or ""))
        line += [f"{record.scores[name].value:.2f}" if name in record.scores else "" for name in metrics]
        lines.append(line)
    return [*columns, *(NAMES[name] for name in metrics)], lines


def _numbers(section: Section) -> dict[str, Any]:
    """All numbers of a table, for report.json."""
    table, rows = section.table, {}
    for row in table.rows:
        scores = {
            name: {"values": cell.values, "against": None if cell.difference is None else asdict(cell.difference)}
            for name, cell in zip(section.metrics, section.cells[row.label], strict=True)
        }
        behaviours = [asdict(one) for one in row.behaviours]
        loss = table.losses[row.label]._asdict()
        rows[row.label] = {"loss": loss, "seeds": row.seeds, "scores": scores, "behaviour": behaviours}
    baseline = None if table.row(table.baseline) is None else table.baseline
    shared = {"title": table.name, "baseline": baseline, "resamples": table.resamples}
    return shared | {"differs outside the objective": table.unlike(), "rows": rows}


def _short(label: str, most: int = 26) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
