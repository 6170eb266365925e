"""Write docs/paper.md: every row of the paper's tables, the command that trains it, and whether we have measured it.

python docs/making/paper.py
"""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seqsmooth.reports.paper import PaperRow, paper_tables
from seqsmooth.training.bases import Base, packaged_bases
from seqsmooth.training.sweep import plan_sweep

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "paper.md"
PAPER = (
    *("coco/show_tell", "coco/top_down", "coco/stage_two/show_tell", "coco/stage_two/top_down"),
    *("iwslt14", "wmt14"),
)
"""Bases that train as the paper does."""
Row = tuple[str, str | None]
"""A base and a loss."""

HEAD = """\
<!-- Written by docs/making/paper.py; change that file. -->
# Every row of the paper's tables

Each row of the paper's tables is a loss of a base: `seqsmooth train BASE --loss NAME` trains it. The
[index](#the-index) names both beside the number that the paper prints, and says which rows have a record of ours. The
numbers in it are the paper's; ours are in [results](results.md).

## Train a row

Prepare the data once, train, decode. In an empty folder, for the row "Seq, CIDEr, V_refs" of captioning without
attention:

```sh
seqsmooth prepare captions dataset_coco.json data/coco --train-splits train,restval --features resnet152.npy
seqsmooth train coco/show_tell --loss seq_cider_refs
seqsmooth decode runs/coco/show_tell/seq_cider_refs/0
```

The last command prints the scores of the test images. `dataset_coco.json` is Karpathy's file; `resnet152.npy` has a row
of features for each image, and `resnet152.ids.txt` beside it the images' numbers, one on each line.
`seqsmooth prepare features` makes features of pictures, and `--missing drop` leaves out images that have none. The
bases come with the package, so these commands work in any folder; `seqsmooth train --list` lists them.

Translation needs no features. Rows called Tok need word vectors beside the corpus:

```sh
seqsmooth prepare iwslt14 data/iwslt14
seqsmooth glove data/iwslt14 --dim 300 --out data/iwslt14/glove.txt
seqsmooth train iwslt14 --loss tok_seq_bleu_batch
seqsmooth decode runs/iwslt14/tok_seq_bleu_batch/0
```

A whole table is a sweep: `seqsmooth train iwslt14 --sweep table --decode test`. Then
`seqsmooth report runs --out report` compares its rows. To try a row in a minute on a CPU, add
`--trainer.max_epochs 1 --model.units 32 --run FOLDER`.

## The bases

"Records" counts the trained rows of the base with a file under `results/`.

"""

INDEX = """
## The index

Rows have the name that they have in a report. The values of a loss are in `configs/losses`, and a comment says whether
they are the paper's, the authors' code's or chosen by us; [differences](differences.md) lists where the first two
disagree. The paper's numbers are copied by a program from its LaTeX source (Elbayad, Besacier, Verbeek, ACL 2018;
arXiv:1805.05062), in points times 100: one number for each row, no seeds, no intervals.

"Measured" lists our bases with a record of the same loss, and the number of seeds. Their recipe, corpus or values
differ from the paper's. **{unmeasured}**
"""


@dataclass(frozen=True)
class Section:
    """A table of the index.

    Attributes:
        title: its heading.
        text: what stands above it.
        tables: the tables of the paper whose numbers it has, side by side.
        trained_by: the bases that train its rows as the paper does.
        ours: our bases with the same losses.
        only: the rows that it has; all by default.
    """

    title: str
    text: str
    tables: tuple[str, ...]
    trained_by: tuple[str, ...]
    ours: tuple[str, ...]
    only: str = ""


SECTIONS = (
    Section(
        "Captioning without attention",
        "Table 1, left: Show and Tell, ResNet-152, COCO's test images of Karpathy's split, beam 3. The paper prints "
        "stage two, `coco/stage_two/show_tell`; stage one, `coco/show_tell`, is in columns that its source hides. "
        "Ours are `coco/stage_one` and, below it, `fifteen`, `wide` and `authors`.",
        ("captioning without attention",),
        ("coco/show_tell", "coco/stage_two/show_tell"),
        ("coco/stage_one", "coco/stage_one/fifteen", "coco/stage_one/wide", "coco/stage_one/authors"),
    ),
    Section(
        "Captioning with attention",
        "Table 1, right: Top-Down attention. Stage two is `coco/stage_two/top_down`, stage one `coco/top_down`; ours "
        "is `coco/restval_top_down`.",
        ("captioning with attention",),
        ("coco/top_down", "coco/stage_two/top_down"),
        ("coco/restval_top_down",),
    ),
    Section(
        "Translation",
        "Table 3: tokenised BLEU, beam 5; WMT'14 English-French on newstest2014 (`wmt14`), IWSLT'14 German-English "
        "without case (`iwslt14`).",
        ("translation, WMT'14 English-French", "translation, IWSLT'14 German-English"),
        ("wmt14", "iwslt14"),
        ("multi30k", "iwslt14_21k", "tatoeba_de_en", "tatoeba_en_fr"),
    ),
    Section(
        "Captioning with BLEU as the reward",
        'Table 4, in the appendix: BLEU-4 against one reference ("single") and against all. Its other rows are those '
        "of Table 1. The paper prints stage two, `coco/stage_two/show_tell` and `coco/stage_two/top_down`.",
        ("captioning appendix, without attention", "captioning appendix, with attention"),
        ("coco/show_tell", "coco/top_down", "coco/stage_two/show_tell", "coco/stage_two/top_down"),
        ("coco/stage_one", "coco/stage_one/authors"),
        only="BLEU",
    ),
)

SERVER = """
### COCO's server

Table 2, the rows of the paper's own models: `server` of `coco/top_down`. An ensemble is `seqsmooth decode` with five
runs.

| row | loss | BLEU-4 c5 | c40 | METEOR c5 | c40 | CIDEr c5 | c40 | measured |
|---|---|---:|---:|---:|---:|---:|---:|---|
| Tok-Seq, CIDEr | `server`, one model | 30.2 | 58.3 | 25.5 | 34.0 | 96.4 | 99.4 | **not measured** |
| Tok-Seq, CIDEr | `server`, five models together | 34.3 | 64.7 | 26.5 | 36.1 | 103.9 | 104.2 | **not measured** |
"""


def page() -> str:
    """The text of the page."""
    bases = {base.name: base for base in packaged_bases()}
    seeds = measured(bases)
    own = [row for row in seeds if row[0] in PAPER]
    unmeasured = (
        "No row has a record with the paper's own recipe and corpus."
        if not own
        else f"With the paper's own recipe and corpus, {len(own)} rows have a record."
    )
    assert not any(loss == "server" for _, loss in seeds), "the table of the server says that nothing is measured"
    sections = [_section(bases, seeds, section) for section in SECTIONS]
    parts = [HEAD, _bases(bases, seeds), INDEX.format(unmeasured=unmeasured), *sections[:2], SERVER, *sections[2:]]
    return "".join([*parts, _others(bases, seeds)])


def measured(bases: Mapping[str, Base]) -> dict[Row, set[int]]:
    """The seeds of every base and loss with a record of the test split, decoded as the config says."""
    rows = {(name if loss is None else f"{name}/{loss}"): (name, loss) for name, loss in _rows(bases)}
    seeds: dict[Row, set[int]] = defaultdict(set)
    for file in sorted((ROOT / "results").rglob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        name = record.get("run", {}).get("name")
        if name in rows and record["split"] == "test" and not record["variant"]:
            seeds[rows[name]].add(int(record["run"]["seed"]))
    return dict(seeds)


def _rows(bases: Mapping[str, Base]) -> list[Row]:
    return [(name, loss) for name, base in bases.items() for loss in base.losses or [None]]


def _bases(bases: Mapping[str, Base], seeds: Mapping[Row, set[int]]) -> str:
    lines = ["| base | what | corpus | sweeps | records |", "|---|---|---|---|---:|"]
    for name, base in bases.items():
        grids = [sweep for sweep, entry in base.sweeps.items() if "grid" in entry and "table" not in _titles(entry)]
        sweeps = [f"`{sweep}`" for sweep in base.sweeps if sweep not in grids]
        sweeps += [f"{len(grids)} grids"] if grids else []
        count = sum(len(found) for (other, _), found in seeds.items() if other == name)
        corpus = base.values["data"]["folder"]
        lines.append(f"| `{name}` | {base.summary} | `{corpus}` | {', '.join(sweeps)} | {count or 'none'} |")
    return "\n".join(lines) + "\n"


def _titles(entry: Mapping[str, object]) -> Mapping[str, object]:
    overrides = entry.get("overrides")
    return overrides if isinstance(overrides, Mapping) else {}


def _section(bases: Mapping[str, Base], seeds: Mapping[Row, set[int]], section: Section) -> str:
    tables = [paper_tables()[name] for name in section.tables]
    columns = [_columns(table) for table in tables]
    heads = [head for name, column in zip(section.tables, columns, strict=True) for head in _named(name, column)]
    heads = heads if len(tables) > 1 else columns[0]
    lines = [f"| row | loss | {' | '.join(heads)} | measured |", f"|---|---|{'---:|' * len(heads)}---|"]
    for row in tables[0]:
        if section.only not in row.label:
            continue
        loss = _loss(bases[section.trained_by[0]], row.label)
        assert all(bases[base].run(loss)["row"] == row.label for base in section.trained_by)
        cells = []
        for table, column in zip(tables, columns, strict=True):
            (same,) = [other for other in table if other.label == row.label]
            cells += [f"{values[metric]:.2f}" for values, metric in (_cell(same, head) for head in column)]
        ours = _ours(seeds, loss, (*section.trained_by, *section.ours))
        lines.append(f"| {row.label} | `{loss}` | {' | '.join(cells)} | {ours} |")
    return f"\n### {section.title}\n\n{textwrap.fill(section.text, 120)}\n\n" + "\n".join(lines) + "\n"


NAMES = {"bleu-1": "BLEU-1", "bleu-4": "BLEU-4", "cider": "CIDEr", "sacrebleu": "BLEU"}


def _columns(rows: Sequence[PaperRow]) -> list[str]:
    """The heads of a table's columns; those of stage one begin with it."""
    heads = [NAMES[metric] for metric in rows[0].printed]
    return heads + [f"stage one: {NAMES[metric]}" for metric in rows[0].stage_one]


def _named(table: str, heads: Sequence[str]) -> list[str]:
    """The heads of one of two tables side by side."""
    if heads == ["BLEU"]:
        return [table.split(", ")[1].split(" ")[0]]
    return [f"{'without' if 'without' in table else 'with'}: {head}" for head in heads]


def _cell(row: PaperRow, head: str) -> tuple[Mapping[str, float], str]:
    values = row.stage_one if head.startswith("stage one: ") else row.printed
    name = head.removeprefix("stage one: ")
    return values, next(metric for metric, other in NAMES.items() if other == name)


def _loss(base: Base, label: str) -> str:
    """The loss of a base by the name of its row."""
    (loss,) = [loss for loss in base.losses if base.run(loss)["row"] == label and loss != "server"]
    return loss


def _ours(seeds: Mapping[Row, set[int]], loss: str | None, bases: Iterable[str]) -> str:
    counts = {base.rpartition("/")[2]: len(seeds[base, loss]) for base in bases if (base, loss) in seeds}
    return ", ".join(f"{base}\N{NO-BREAK SPACE}{count}" for base, count in counts.items()) or "**not measured**"


def _others(bases: Mapping[str, Base], seeds: Mapping[Row, set[int]]) -> str:
    """Rows that the paper does not have: what its bases add, rows of a sweep, and rows with a record."""
    papers = {row.label for rows in paper_tables().values() for row in rows}
    planned = {
        (name, run.loss)
        for name, base in bases.items()
        for sweep in base.sweeps
        for run in plan_sweep(f"{name}/{sweep}", Path("runs"))
        if not run.point
    }
    rows: dict[tuple[str, str | None], list[Row]] = defaultdict(list)
    for name, loss in _rows(bases):
        label = str(bases[name].run(loss)["row"])
        planned_here = name in PAPER or loss is None or (name, loss) in planned or (name, loss) in seeds
        if planned_here and name != "demo" and label not in papers and loss != "server":
            rows[label, loss].append((name, loss))
    text = (
        "\nTable 5, the time of a batch, needs no training: [benchmarks](benchmarks.md) times our steps.\n"
        "\n### Not in the paper\n\nAfter a base is the number of seeds with a record.\n\n"
        "| row | loss | measured | not measured |\n|---|---|---|---|\n"
    )
    lines = []
    for (label, loss), places in rows.items():
        done = [f"`{place[0]}` {len(seeds[place])}" for place in places if place in seeds]
        left = [f"`{place[0]}`" for place in places if place not in seeds]
        name = "" if loss is None else f"`{loss}`"
        lines.append(f"| {label} | {name} | {', '.join(done)} | {', '.join(left)} |")
    return text + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
