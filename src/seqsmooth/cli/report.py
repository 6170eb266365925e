"""`seqsmooth report`: what runs, records and grids say, as tables, plots and pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seqsmooth.cli.train import TOP, check_packages

WAYS = {
    "runs": "compare runs: tables, plots, a page (what `report RUN...` does)",
    "record": "keep what runs leave behind for good, a small file each",
    "results": "make pages of Markdown from records",
    "choose": "show the validation scores of a grid, the best marked",
}
DESCRIPTION = f"""\
Report on trained runs, in one of four ways.

{chr(10).join(f"  {name:<9} {summary}" for name, summary in WAYS.items())}

`seqsmooth report RUN...` is `seqsmooth report runs RUN...`. `seqsmooth report WAY --help` explains a way.

examples:
  seqsmooth report runs/demo --out report
  seqsmooth report record runs/demo --out results
  seqsmooth report results results --out results.md
  seqsmooth report choose coco/restval/hamming_refs"""
RUNS = """\
Compare trained runs: a table in the paper's form with mean and spread over seeds, differences from the baseline with
intervals over items and over trainings, every key outside the objective in which the runs differ, learning curves,
lengths, rare words, calibration, and examples side by side.

RUN is the folder of a run or a folder with runs below it, or else a record (`seqsmooth report record`) or a folder of
records. Runs that differ in nothing but their seed are one row; runs of several tables (`table` in their configs) make
several tables.

examples:
  seqsmooth report runs/demo --baseline MLE --out report
  seqsmooth report runs/mle/* runs/tok_seq/* --out report --pictures val2014

The folder holds report.html (one file, pictures inside), index.html (all runs), tables.md, tables.tex (booktabs),
report.json and plots/*.svg."""
RECORD = """\
Write a record of each run: one file of JSON with its config, its validation curve, its scores with the statistics of
every item (so that tests between runs can be repeated from records alone), how the model behaves, its output for twenty
items drawn at random, and the commands that repeat it. No weights and no references are in it, and the weights need not
be there any more.

RUN is the folder of a run, or a folder with runs below it; of these, those without scores of the split are left out.

examples:
  seqsmooth report record runs/coco --split test --out results
  seqsmooth report record runs/mle/0 runs/mle/1 --hypotheses both.jsonl --out results"""
RESULTS = """\
Make pages of Markdown from records: a first page with every set in one table, and a page for each table with scores
over seeds, differences from MLE with intervals over items and over trainings, how the models behave, examples, the
commands that repeat each row, and the time it all took.

The folder may also hold what `seqsmooth report choose` wrote, pages.yaml (titles, order and notes of the pages),
summary.md (the text of the first page) and discussion.md (a page of its own). Pages and charts go to a folder beside
the first page.

examples:
  seqsmooth report results results --out docs/results.md"""
CHOOSE = """\
Print the best validation score of every run of a sweep, mean over seeds, and mark the best point of each config. Scores
of a test split are not looked at. Values that `train --sweep` was given on the command line are given here, too: runs
of other values are refused, not taken for those of the sweep.

examples:
  seqsmooth report choose coco/restval/hamming_refs
  seqsmooth report choose multi30k/tok --out results/grids/multi30k_tok.json"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the four ways."""
    parser.description, parser.epilog = _split(DESCRIPTION)
    parser.usage = "seqsmooth report [--help] [WAY] ..."
    ways = parser.add_subparsers(
        prog="seqsmooth report", metavar="WAY", required=True, dest="way", help=argparse.SUPPRESS
    )

    def way(name: str, text: str, run: Callable[[argparse.Namespace], int], **defaults: Any) -> argparse.ArgumentParser:
        description, epilog = _split(text)
        child: argparse.ArgumentParser = ways.add_parser(name, description=description, epilog=epilog)
        child.set_defaults(run=run, **defaults)
        return child

    runs = way("runs", RUNS, report_runs)
    rule = "folders of runs, or records (default runs)"
    runs.add_argument("runs", nargs="*", type=Path, default=[Path("runs")], metavar="RUN", help=rule)
    runs.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder of the report")
    runs.add_argument("--baseline", default="MLE", metavar="NAME", help="the row to compare with (default MLE)")
    runs.add_argument("--split", default="test", help="the split that was decoded (default test)")
    runs.add_argument(
        "--metrics", metavar="NAMES", help="the columns, as in bleu-4,cider (default: those that all runs have)"
    )
    runs.add_argument(
        "--examples", type=int, default=12, help="the number of items shown, drawn at random (default 12)"
    )
    runs.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="the folder of images, named by their ids or as COCO does"
    )
    runs.add_argument("--resamples", type=int, default=1000, help="the number of resampled corpora (default 1000)")
    runs.add_argument("--seed", type=int, default=0, help="the seed of intervals and examples (default 0)")
    runs.add_argument("--device", default="auto", help="cuda, cpu or auto (default)")
    runs.add_argument("--title", default="Loss smoothing", help="the title of the page")

    record = way("record", RECORD, record_runs)
    record.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run, or of many")
    record.add_argument("--split", default="test", help="the split that was decoded (default test)")
    record.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder of the records")
    rule = "a file of `seqsmooth decode RUN... --out FILE`, as one record: an ensemble, another beam"
    record.add_argument("--hypotheses", type=Path, metavar="FILE", help=rule)
    record.add_argument("--overwrite", action="store_true", help="replace the record of another run of the same name")

    results = way("results", RESULTS, report_results)
    rule = "the folder of records, which may be below it (default results)"
    results.add_argument("results", nargs="?", type=Path, default=Path("results"), metavar="FOLDER", help=rule)
    results.add_argument("--out", type=Path, required=True, metavar="FILE", help="the first page")

    choose = way("choose", CHOOSE, choose_point, takes_keys=True)
    choose.add_argument("sweep", metavar="SWEEP", help="the sweep that made the runs: BASE/NAME, or a YAML file")
    choose.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of the runs (default runs)")
    choose.add_argument("--out", type=Path, metavar="FILE", help="a file for the same as JSON")
    choose.add_argument("--seed", help="the only seed to look at (default: all of the sweep)")


def _split(text: str) -> tuple[str, str]:
    """The part of a help page before the options, and the examples behind them."""
    description, examples, below = text.partition("examples:")
    return description, examples + below


def start(given: argparse.Namespace) -> int:
    """Report in the way that was asked for."""
    status: int = given.run(given)
    return status


def report_runs(given: argparse.Namespace) -> int:
    """Write the report and print its tables."""
    from seqsmooth import checks
    from seqsmooth.metrics.tasks import check_names

    checks.one_of("device", given.device, ("auto", "cuda", "cpu"))
    found = _check_there(find_runs(given.runs, records=True))
    names = None
    if given.metrics is not None:
        names = [name.strip() for name in given.metrics.split(",") if name.strip()]
        checks.must(len(names) > 0, "metrics", "at least one name", repr(given.metrics))
        check_names(names)
    import torch

    from seqsmooth.cli.devices import keep_memory_on
    from seqsmooth.reports import write_report

    keep_memory_on(given.device)
    there = torch.cuda.is_available()
    checks.must(given.device != "cuda" or there, "device", "cpu where there is no GPU", "cuda")
    sections = write_report(
        found,
        given.out,
        baseline=given.baseline,
        split=given.split,
        metrics=names,
        examples=given.examples,
        pictures=given.pictures,
        resamples=given.resamples,
        seed=given.seed,
        device="cuda" if there and given.device != "cpu" else "cpu",
        title=given.title,
        progress=say,
    )
    print("\n\n".join(section.text() for section in sections), flush=True)
    say(f"wrote {given.out / 'report.html'}")
    return 0


def record_runs(given: argparse.Namespace) -> int:
    """Write the records, all or none of those that cannot be made."""
    from seqsmooth import checks
    from seqsmooth.files.paths import inner_path

    out: Path = given.out
    checks.must(not out.exists() or out.is_dir(), "out", "a folder", f"the file {out}")
    _check_there(given.runs)
    from seqsmooth.reports.record import Record
    from seqsmooth.reports.recording import record_hypotheses, record_run

    if given.hypotheses is not None:
        records = [record_hypotheses(given.runs, given.hypotheses)]
    else:
        records = [record_run(folder, given.split) for folder in _find_scored(given.runs, given.split)]
    checks.must(len(records) > 0, "runs", f"one or more with scores of {given.split}", "none")
    names = [inner_path("name", str(record.file)) for record in records]
    for name in names:
        checks.must(names.count(name) == 1, "runs", "of different names, seeds or splits", f"two of {name}")
    for record in records:
        path = out / record.file
        if path.is_file() and not given.overwrite:
            there = Record.load(path)
            same = there.facts["started"] == record.facts["started"]
            same = same and (there.members, there.decoding) == (record.members, record.decoding)
            rule = "of the same run, or replaced with --overwrite"
            checks.must(same, str(path), rule, "of another one, or of one decoded in another way")
    for record in records:
        path = out / record.file
        path.parent.mkdir(parents=True, exist_ok=True)
        record.save(path)
        observed = record.behaviour is not None or record.variant
        more = "" if observed else ", not observed (`seqsmooth decode --observe`)"
        say(f"wrote {path}: {path.stat().st_size / 1024:.0f} KiB{more}")
    return 0


def report_results(given: argparse.Namespace) -> int:
    """Write the pages."""
    from seqsmooth import checks

    folder: Path = given.results
    checks.must(folder.is_dir(), "results", "a folder of records (`seqsmooth report record` writes them)", str(folder))
    from seqsmooth.reports.results_pages import write_results

    pages = write_results(given.results, given.out)
    say(f"wrote {given.out}, {len(pages) - 1} more pages and {sum(len(page.charts) for page in pages)} charts")
    return 0


def choose_point(given: argparse.Namespace) -> int:
    """Read the runs of a sweep, choose, print."""
    import json

    from seqsmooth import checks
    from seqsmooth.files.atomic import atomic_write_text
    from seqsmooth.files.paths import check_destination

    check_packages("seqsmooth report choose", "yaml")
    from seqsmooth.training.sweep import plan_sweep

    overrides = [(name, getattr(given, name)) for name in TOP if getattr(given, name, None) is not None]
    planned = plan_sweep(given.sweep, given.runs, [*overrides, *given.dotted])
    from seqsmooth.reports.choices import KIND, choose

    out = None if given.out is None else check_destination("out", given.out)
    if out is not None and out.exists():
        ours = f'"kind": "{KIND}"' in out.read_text(encoding="utf-8", errors="replace")
        checks.must(ours, "out", "a new file, or one of `seqsmooth report choose`", f"{out}, which is something else")
    choice = choose(planned)
    print(choice.text(), flush=True)
    if out is not None:
        with atomic_write_text(out) as file:
            file.write(json.dumps({"sweep": Path(given.sweep).name} | choice.record(), indent=1) + "\n")
    return 0


def find_runs(paths: list[Path], *, records: bool = False) -> list[Path]:
    """List the folders of runs among some paths and below them; where there is none, the records."""
    from seqsmooth.files.paths import files_below

    found: list[Path] = []
    for path in paths:
        below = [] if path.is_file() else [file.parent for file in files_below(path, "manifest.json")]
        kept = files_below(path, "*.json") if records and not below and path.is_dir() else []
        found += [path] if (path / "manifest.json").is_file() or not (below or kept) else below or kept
    return list(dict.fromkeys(found))


def _check_there(paths: list[Path]) -> list[Path]:
    """Check that what is to be read is there, before the packages that read it are imported."""
    from seqsmooth.training.runs import Run

    for path in paths:
        if not path.exists():
            Run.open(path)  # says what must be there
    return paths


def _find_scored(folders: list[Path], split: str) -> list[Path]:
    """The runs given, and those below a folder that were scored."""
    scored = []
    for folder in find_runs(folders):
        if folder in folders or (folder / "scores" / f"{split}.json").is_file():
            scored.append(folder)
        else:
            say(f"left out {folder}: no scores of {split}")
    return scored


def say(what: str) -> None:
    """Show what is being done."""
    print(what, file=sys.stderr, flush=True)
