"""`seqsmooth report`: from the folders of runs to a table in the paper's form, plots and a page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = """\
Compare trained runs: a table in the paper's form with mean and spread over seeds and a paired bootstrap test against
the baseline, learning curves, lengths, rare words, calibration, and examples side by side.

RUN is the folder of a run, or a folder with runs below it. Runs that differ in nothing but their seed are one row;
runs of several tables (`table` in their configs) make several tables."""

EXAMPLES = """\
examples:
  seqsmooth report runs/demo --baseline MLE --out report
  seqsmooth report runs/mle/* runs/tok_seq/* --out report --pictures val2014 --examples 24

The folder holds report.html (one file, pictures inside), index.html (all runs), tables.md, tables.tex (booktabs),
report.json and plots/*.svg."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run, or of many")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the report goes")
    parser.add_argument("--baseline", default="MLE", metavar="NAME", help="compare with this row (default MLE)")
    parser.add_argument("--split", default="test", help="what was decoded (default test)")
    parser.add_argument("--metrics", metavar="NAMES", help="as in bleu-4,cider (default: those that all runs have)")
    parser.add_argument("--examples", type=int, default=12, help="items shown, drawn at random (default 12)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="images named by their ids, or as COCO does")
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of bootstrap and examples (default 0)")
    parser.add_argument("--device", default="auto", help="cuda, cpu, or auto (default)")
    parser.add_argument("--title", default="Loss smoothing", help="of the page")


def start(given: argparse.Namespace) -> int:
    """Write the report and print its tables."""
    import torch

    from seqsmooth.ops import checks
    from seqsmooth.reports import Wish, write_report
    from seqsmooth.reports.table import plain

    checks.one_of("device", given.device, ("auto", "cuda", "cpu"))
    there = torch.cuda.is_available()
    checks.must(given.device != "cuda" or there, "device", "cpu where there is no GPU", "cuda")
    names = None
    if given.metrics is not None:
        names = [name.strip() for name in given.metrics.split(",") if name.strip()]
        checks.must(len(names) > 0, "metrics", "at least one name", repr(given.metrics))
    wish = Wish(
        runs=find_runs(given.runs),
        out=given.out,
        baseline=given.baseline,
        split=given.split,
        metrics=names,
        examples=given.examples,
        pictures=given.pictures,
        resamples=given.resamples,
        seed=given.seed,
        device="cuda" if there and given.device != "cpu" else "cpu",
        title=given.title,
    )
    tables = write_report(wish, say)
    print("\n\n".join(plain(table) for table in tables), flush=True)
    say(f"wrote {given.out / 'report.html'}")
    return 0


def find_runs(folders: list[Path]) -> list[Path]:
    """The folders of runs: those given, and those below a given folder that is none."""
    from seqsmooth.files.paths import files_below

    found: list[Path] = []
    for folder in folders:
        below = [path.parent for path in files_below(folder, "manifest.json")]
        found += [folder] if (folder / "manifest.json").is_file() or not below else below
    return list(dict.fromkeys(found))


def say(told: str) -> None:
    """Show what is being done."""
    print(told, file=sys.stderr, flush=True)
