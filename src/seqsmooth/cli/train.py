"""`seqsmooth train`: a config becomes a run, or a sweep of configs becomes many."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

DESCRIPTION = """\
Train a model as a config says, and keep everything in the folder of the run: resolved config, manifest, log.csv,
checkpoints. The same command again goes on where the run stopped, exactly; a finished run is left as it is.

CONFIG is a YAML file, here or among those that come with the package. Any of its values can be given on the command
line by its dotted key, as in --trainer.max_epochs 1 or --objective.sequence.alpha 0.4."""

EXAMPLES = """\
examples:
  seqsmooth train configs/demo/tok_seq.yaml --data.folder data/demo --trainer.max_epochs 1
  seqsmooth train configs/coco/show_tell/mle.yaml --data.folder data/coco --seed 1 --run runs/mle/1
  seqsmooth train --sweep configs/coco/show_tell/table.sweep.yaml --data.folder data/coco
  seqsmooth train configs/multi30k/mle.yaml --print_config"""

SECTIONS = ("data", "model", "objective", "optimizer", "schedule", "trainer", "validation", "decoding")
TOP = ("name", "row", "table", *SECTIONS, "seed")


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="a YAML file")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="the folder of the run (default runs/NAME/SEED)")
    rule = "train every config that this file lists, for every seed; finished runs are passed over"
    parser.add_argument("--sweep", metavar="FILE", help=rule)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs without --run go (default runs)")
    parser.add_argument("--print_config", action="store_true", help="print the resolved config and do nothing")
    parser.add_argument("--seed", help="weights, order of the data and samples follow from it (default: the config's)")
    for name in TOP[:-1]:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)


def check_packages(what: str, *packages: str) -> None:
    """Check that packages of the toolkit are installed."""
    from seqsmooth.ops import checks

    for package in packages:
        if find_spec(package) is None:
            raise checks.missing(package, what, "toolkit")


def start(given: argparse.Namespace, dotted: Sequence[tuple[str, str]]) -> int:
    """Train."""
    from seqsmooth.ops import checks

    check_packages("seqsmooth train", "yaml", "pytorch_lightning", "safetensors", "tqdm")
    from seqsmooth.training.reader import read_config, text_of

    overrides = [(name, getattr(given, name)) for name in TOP if getattr(given, name) is not None] + list(dotted)
    one = (given.config is None) != (given.sweep is None)
    checks.must(one, "CONFIG", "given, or else --sweep, and not both", given.config)
    if given.sweep is not None:
        from seqsmooth.training.sweep import run_sweep

        checks.must(given.run is None, "run", "left out with --sweep, which makes many", given.run)
        return run_sweep(given.sweep, given.runs, overrides)
    config = read_config(given.config, overrides)
    if given.print_config:
        print(text_of(config), end="", flush=True)
        return 0
    folder = given.run or given.runs / config.name / str(config.seed)
    from seqsmooth.training.runs import Run
    from seqsmooth.training.trainer import local_rank, train

    before = folder.is_dir() and (folder / "manifest.json").is_file() and Run.open(folder).finished
    try:
        run = train(config, folder)
    except KeyboardInterrupt:
        print(f"\nseqsmooth: stopped; the same command goes on with {folder}", file=sys.stderr, flush=True)
        return 130
    if local_rank() > 0:
        return 0
    best = run.manifest["best"]
    told = "" if best is None else f", best {best['metric']} {best['value']:.2f} after epoch {best['epoch']}"
    seconds = run.manifest["seconds"]
    done = "finished before, left as it is: " if before else ""
    print(f"{folder}: {done}{run.manifest['steps']} steps in {seconds:.0f} s{told}", file=sys.stderr, flush=True)
    return 0
