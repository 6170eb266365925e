"""A folder of results: the records of runs, the choices of grids, and what its authors say about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

from seqsmooth.files.paths import files_below
from seqsmooth.files.reading import read_record, read_text
from seqsmooth.ops import checks
from seqsmooth.reports import choices, record
from seqsmooth.reports.paper import PaperRow, paper_tables
from seqsmooth.reports.record import Record
from seqsmooth.reports.rows import BASELINE, Row, Table, make_tables
from seqsmooth.training.yaml_files import load_yaml


@dataclass(frozen=True)
class Chapter:
    """A page about one table.

    Attributes:
        table: what the configs of its runs call their table.
        title: the heading of the page.
        page: the name of its file; made of the title by default.
        papers: the tables of the paper whose rows it has, in their order.
        beside: which numbers of the paper stand beside ours: "stage one", "printed", or "" for none.
        note: what a reader must know to compare.
        short: its name above a column.
        whole: whether rows of the paper that have no record are listed as not run.
        glance: whether it is a column of the table of all sets.
        baseline: the table whose MLE is this one's, too, and is not trained again; None for its own.
    """

    table: str
    title: str
    page: str = ""
    papers: tuple[str, ...] = ()
    beside: str = ""
    note: str = ""
    short: str = ""
    whole: bool = True
    glance: bool = True
    baseline: str | None = None

    @property
    def rows(self) -> dict[str, PaperRow]:
        """The paper's rows, by label; of those that it has twice the first."""
        rows: dict[str, PaperRow] = {}
        for name in self.papers:
            for row in paper_tables()[name]:
                rows.setdefault(row.label, row)
        return rows

    def paper(self, metric: str) -> dict[str, float]:
        """The paper's numbers that stand beside ours, by label."""
        values = {
            label: row.stage_one if self.beside == "stage one" else row.printed for label, row in self.rows.items()
        }
        return {label: value[metric] for label, value in values.items() if self.beside and metric in value}

    def of_split(self, split: str, note: str) -> Chapter:
        """The chapter for another split than "test", which no number of the paper is of."""
        page = f"{self.page}-{split}" if self.page else ""
        return replace(self, title=f"{self.title} ({split})", page=page, beside="", note=note, whole=False)


@dataclass(frozen=True)
class Outline:
    """The file pages.yaml of a folder of results: what its authors say about the tables.

    Attributes:
        chapters: the tables, in the order of their pages.
        notes: by split, the note of a chapter of that split.
        summary: the rows of the first page: by their name the labels, of which a set has one.
        pairs: rows that are compared with each other, beside their baseline.
        pools: the last part of labels such as "Seq, CIDEr, V_refs".
        contrasts: parts of such labels whose rows are taken together: kind, reward or pool, and two values of it.
    """

    chapters: tuple[Chapter, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()
    pools: tuple[str, ...] = ()
    contrasts: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def load(cls, path: Path) -> Outline:
        """Read a YAML file with a key for each attribute; all may be left out."""
        content = load_yaml(path)
        for name in content:
            checks.one_of(f"key of {path}", name, tuple(each.name for each in fields(cls)))
        chapters = tuple(_chapter(path, values) for values in content.get("chapters", ()))
        return cls(
            chapters=chapters,
            notes=content.get("notes", {}),
            summary={name: tuple(labels) for name, labels in content.get("summary", {}).items()},
            pairs=tuple((ours, theirs) for ours, theirs in content.get("pairs", ())),
            pools=tuple(content.get("pools", ())),
            contrasts=tuple((axis, ours, theirs) for axis, ours, theirs in content.get("contrasts", ())),
        )


def _chapter(path: Path, values: Mapping[str, Any]) -> Chapter:
    known = tuple(each.name for each in fields(Chapter))
    for name in values:
        checks.one_of(f"key of a chapter of {path}", name, known)
    chapter = Chapter(**{**values, "papers": tuple(values.get("papers", ()))})
    checks.one_of(f"beside of {chapter.title!r}", chapter.beside, ("", "printed", "stage one"))
    for name in chapter.papers:
        checks.one_of(f"papers of {chapter.title!r}", name, tuple(paper_tables()))
    return chapter


@dataclass(frozen=True, eq=False)
class Results:
    """The content of a folder of results.

    Attributes:
        records: in the order of their files.
        choices: by the name of their files, what `seqsmooth report choose` wrote of a grid.
        outline: which tables have pages, and in which order.
        texts: Markdown of the authors, by the name of its file: summary.md and discussion.md.
    """

    records: tuple[Record, ...]
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    outline: Outline = field(default_factory=Outline)
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> list[Table]:
        """The tables, of runs on all of their data that were decoded as their config says."""
        return make_tables(one for one in self.records if not one.variant and one.share is None)

    @property
    def variants(self) -> list[Record]:
        """Hypotheses that were decoded in another way: other beams, ensembles."""
        return [one for one in self.records if one.variant]

    @property
    def chapters(self) -> list[tuple[Chapter, Table]]:
        """The tables that have records, each with a page: in the order of the outline, a test split before others."""
        tables = sorted(self.tables, key=lambda table: (table.split != "test", table.split))
        known = {chapter.table for chapter in self.outline.chapters}
        new = dict.fromkeys(table.name for table in tables if table.name not in known)
        chapters: list[tuple[Chapter, Table]] = []
        pages = {""}
        for chapter in (*self.outline.chapters, *(Chapter(name, name or "Runs") for name in new)):
            for table in (table for table in tables if table.name == chapter.table):
                note = self.outline.notes.get(table.split, chapter.note)
                own = chapter if table.split == "test" else chapter.of_split(table.split, note)
                page = own.page or re.sub(r"[^a-z0-9]+", "-", own.title.lower()).strip("-") or "table"
                while page in pages:
                    page += "-again"
                pages.add(page)
                chapters.append((replace(own, page=page), _with_baseline(table, chapter, tables)))
        return chapters

    @property
    def shares(self) -> list[dict[float, Table]]:
        """Runs on a share of the training data, and those of the same losses on all of it, by the share.

        One mapping for each corpus and split.
        """
        part = [one for one in self.records if not one.variant and one.share is not None]
        labels = {_base(one): without_share(one.label, " ", "()") for one in part}
        found: dict[tuple[str, str], dict[float, dict[str, list[Record]]]] = {(one.data, one.split): {} for one in part}
        own = [one for one in self.records if not one.variant and _base(one) in labels]
        points = {_base(one) for one in own if one.share is None and _base(one) != one.facts["name"]}
        for one in own:
            shares = found.get((one.data, one.split))
            # Where the whole is a point of the grid of shares, it alone is that, and not the row of the main table.
            if shares is not None and (one.share or one.facts["name"] not in points):
                rows = shares.setdefault(one.share or 1.0, {})
                rows.setdefault(labels[_base(one)], []).append(one)
        return [
            {
                share: Table("", split, tuple(Row.of(label, several) for label, several in rows.items()))
                for share, rows in sorted(shares.items())
            }
            for (_, split), shares in found.items()
        ]


def read_results(folder: Path) -> Results:
    """Read the records, choices, pages.yaml and texts of a folder; records and choices may be below it."""
    checks.must(folder.is_dir(), "results", "a folder of records (`seqsmooth report record` writes them)", str(folder))
    records: list[Record] = []
    places: dict[PurePosixPath, Path] = {}
    grids = {}
    rule = "a file of `seqsmooth report record` or `report choose`, as all JSON in a folder of results"
    for path in files_below(folder, "*.json"):
        kind = read_record(path, lambda content: str(content["kind"]), rule)
        checks.one_of(f"kind of {path}", kind, (record.KIND, choices.KIND))
        if kind == choices.KIND:
            name = path.relative_to(folder).with_suffix("").as_posix()
            grids[name] = read_record(path, choices.check_choice, rule)
        else:
            records.append(Record.load(path))
            twice = places.setdefault(records[-1].file, path)
            once = f"there once (remove {twice} or {path})"
            checks.must(twice == path, str(records[-1].file), once, "there twice")
    outline = folder / "pages.yaml"
    texts = {name: folder / name for name in ("summary.md", "discussion.md")}
    return Results(
        tuple(records),
        grids,
        Outline.load(outline) if outline.is_file() else Outline(),
        {name: read_text(path, name) for name, path in texts.items() if path.is_file()},
    )


def _with_baseline(table: Table, chapter: Chapter, tables: list[Table]) -> Table:
    """The table with the MLE that its chapter shares with another one, where it has none and that one has."""
    of = (chapter.baseline, table.split)
    row = next((other.row(BASELINE) for other in tables if (other.name, other.split) == of), None)
    return table if row is None or table.row(BASELINE) else table.sharing(row)


def _base(one: Record) -> str:
    """The name of the run on all data: a point of a grid has its values behind it."""
    name = str(one.facts["name"])
    head, slash, last = name.rpartition("/")
    if "=" not in last:
        return name
    left = without_share(last, "=", "")
    return head if slash and not left else f"{head}{slash}{left}"


def without_share(text: str, between: str, around: str) -> str:
    """Remove the share of the data from the values of a point of a grid, as its name or its row lists them.

    >>> without_share("tau=0.2,fraction=0.1", "=", ""), without_share("fraction=0.1", "=", "")
    ('tau=0.2', '')
    >>> without_share("Seq (lazy) (tau 0.2, fraction 0.1)", " ", "()"), without_share("MLE (fraction 0.1)", " ", "()")
    ('Seq (lazy) (tau 0.2)', 'MLE')
    >>> without_share("Seq (lazy)", " ", "()")
    'Seq (lazy)'
    """
    before, values = "", text
    if around:
        found = re.fullmatch(r"(.*?) ?\(([^()]*)\)", text)
        if found is None:
            return text
        before, values = found.groups()
    kept = [part for part in re.split(", ?", values) if not re.match(rf"(\w+\.)*fraction{between}", part)]
    listed = (", " if around else ",").join(kept)
    return " ".join(filter(None, [before, f"({listed})" if around and listed else listed]))
