"""`seqsmooth choose`: what the runs of a grid reached in validation, and which point is the best."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqsmooth.cli.train import TOP, check_packages

DESCRIPTION = """\
Print the best validation score of every run of a sweep, mean over seeds, and mark the best point of each config. What
a test split would say is not looked at. Values that `train --sweep` was given on the command line are given here, too:
runs of other values are refused, not taken for those of the sweep."""

EXAMPLES = """\
examples:
  seqsmooth choose coco/restval/hamming_refs
  seqsmooth choose multi30k/tok --runs runs --out results/grids/multi30k_tok.json"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sweep", metavar="SWEEP", help="the sweep that made the runs: BASE/NAME, or a YAML file")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs are (default runs)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the same as JSON, too")
    parser.add_argument("--seed", help="look at the runs of this seed alone")


def start(given: argparse.Namespace) -> int:
    """Read, choose, print."""
    import json

    from seqsmooth.files.atomic import atomic_write_text
    from seqsmooth.files.paths import check_destination
    from seqsmooth.ops import checks

    check_packages("seqsmooth choose", "yaml")
    from seqsmooth.reports.choices import KIND, choose
    from seqsmooth.training.sweep import plan_sweep

    out = None if given.out is None else check_destination("out", given.out)
    if out is not None and out.exists():
        ours = f'"kind": "{KIND}"' in out.read_text(encoding="utf-8", errors="replace")
        checks.must(ours, "out", "a new file, or one of `seqsmooth choose`", f"{out}, which is something else,")
    overrides = [(name, getattr(given, name)) for name in TOP if getattr(given, name, None) is not None]
    choice = choose(plan_sweep(given.sweep, given.runs, [*overrides, *given.dotted]))
    print(choice.text(), flush=True)
    if out is not None:
        with atomic_write_text(out) as file:
            file.write(json.dumps({"sweep": Path(given.sweep).name} | choice.record(), indent=1) + "\n")
    return 0
