"""`seqsmooth train`: a base and a loss become a run, a sweep becomes many."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqsmooth.data import Corpus
    from seqsmooth.training.config import Config
    from seqsmooth.training.runs import Run
    from seqsmooth.training.sweep import Planned

DESCRIPTION = """\
Train a model and keep everything in the folder of the run: resolved config, manifest, log.csv, checkpoints. The same
command again goes on where the run stopped, exactly; a finished run is left as it is.

BASE is what the runs of a table share, corpus, model and recipe: one of the package, which --list lists, or a YAML file
of your own. --loss takes one of its losses. Any value can be given by its dotted key, as in --trainer.max_epochs 1;
--print_config prints all keys with their values, and docs/running.md explains them.

A sweep trains several losses of a base for several seeds, or every point of a grid. Each run is a process of its own,
whose output goes to console.log in the folder of the run; one that fails takes no other with it."""

EXAMPLES = """\
examples:
  seqsmooth train --list
  seqsmooth train coco/show_tell --list
  seqsmooth train coco/show_tell --loss tok_seq_cider_refs --print_config
  seqsmooth train coco/show_tell --loss mle --seed 1 --run runs/mle/1
  seqsmooth train demo --loss tok_seq --trainer.max_epochs 1
  seqsmooth train multi30k --loss mle --decode val,test --observe
  seqsmooth train coco/stage_one --sweep main --jobs 8 --decode test
  seqsmooth train mine.yaml"""

SECTIONS = ("data", "model", "objective", "optimizer", "schedule", "trainer", "validation", "decoding")
TOP = ("name", "row", "table", *SECTIONS, "seed")


@dataclass(frozen=True)
class EvaluationOptions:
    """What follows training: the splits to decode and score, the metrics, and whether to observe."""

    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    observe: bool

    def __post_init__(self) -> None:
        from seqsmooth import checks
        from seqsmooth.metrics.tasks import check_names

        for name, given in (("observe", self.observe), ("metrics", self.metrics)):
            checks.must(bool(self.splits) or not given, name, "given with --decode, whose output it looks at", "alone")
        check_names(self.metrics)  # now, and not when all is learned

    def words(self) -> list[str]:
        """Write the options as words of a command line."""
        lists = {"--decode": self.splits, "--metrics": self.metrics}
        given = [word for name, listed in lists.items() if listed for word in (name, ",".join(listed))]
        return given + ["--observe"] * self.observe

    def is_done(self, planned: Planned) -> bool:
        """Whether a run has ended, and all of this is done; one that is refused is not, and will say why itself."""
        from seqsmooth.training.runs import Run

        try:
            run = Run.open(planned.folder)
            ended = run.finished and not run.differing_keys(planned.config)
            return ended and all(self._has(run, split) for split in self.splits)
        except ValueError:
            return False

    def _has(self, run: Run, split: str) -> bool:
        from seqsmooth.metrics.scorecard import Scorecard
        from seqsmooth.metrics.tasks import TASKS
        from seqsmooth.reports.behaviour import load_behaviour
        from seqsmooth.training.writing import check_own

        if not run.scores(split).is_file():
            return False
        check_own(run, split)
        report = Scorecard.load(run.scores(split))
        asked = self.metrics or TASKS[run.manifest["task"]].metrics
        return {*asked} <= {*report.scores, *report.absent} and (
            not self.observe or load_behaviour(run, split) is not None
        )


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    rule = "what the runs share: a base of the package, as coco/stage_one, or a YAML file"
    parser.add_argument("base", nargs="?", metavar="BASE", help=rule)
    parser.add_argument("--loss", metavar="NAME", help="the loss, by its name in BASE")
    parser.add_argument("--list", action="store_true", help="list the bases; with BASE, its losses and sweeps")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="the folder of the run (default runs/NAME/SEED)")
    rule = "train all runs of these sweeps of BASE (or BASE/NAME, or YAML files); what is done is passed over"
    parser.add_argument("--sweep", nargs="+", action="extend", metavar="NAME", help=rule)
    parser.add_argument("--jobs", type=int, metavar="N", help="with --sweep: so many runs at once (default 1)")
    rule = "afterwards write and score these splits with the best weights, as in val,test"
    parser.add_argument("--decode", metavar="SPLITS", help=rule)
    parser.add_argument(
        "--metrics", metavar="NAMES", help="with --decode: as in bleu-4,cider (default: all of the task)"
    )
    rule = "with --decode: then observe lengths, words and calibration, for `seqsmooth report`"
    parser.add_argument("--observe", action="store_true", help=rule)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs without --run go (default runs)")
    parser.add_argument("--print_config", action="store_true", help="print the resolved config and do nothing")
    parser.add_argument("--seed", help="weights, order of the data and samples follow from it (default: the config's)")
    for name in TOP[:-1]:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)


def check_packages(what: str, *packages: str) -> None:
    """Check that packages of the toolkit are installed."""
    from seqsmooth import checks

    for package in packages:
        if find_spec(package) is None:
            raise checks.missing(package, what, "toolkit")


def start(given: argparse.Namespace) -> int:
    """Train."""
    from seqsmooth import checks
    from seqsmooth.cli.names import split_names

    check_packages("seqsmooth train", "yaml", "pytorch_lightning", "safetensors", "tqdm")
    from seqsmooth.training.reader import read_config, text_of

    overrides = [(name, getattr(given, name)) for name in TOP if getattr(given, name) is not None] + given.dotted
    if given.list:
        from seqsmooth.cli.bases import listing

        print(listing(given.base))
        return 0
    after = EvaluationOptions(split_names("decode", given.decode), split_names("metrics", given.metrics), given.observe)
    if given.sweep is not None:
        return _sweep(given, overrides, after)
    if given.base is None:
        raise ValueError("There is nothing to train: give a BASE and a --loss, or --list to list the bases.")
    checks.must(given.jobs is None, "jobs", "left out without --sweep", given.jobs)
    config = read_config(given.base, overrides, loss=given.loss)
    if given.print_config:
        print(text_of(config), end="", flush=True)
        return 0
    folder = given.run or given.runs / config.name / str(config.seed)
    try:
        return _one(config, folder, after)
    except KeyboardInterrupt:
        print(f"\nseqsmooth: stopped; the same command goes on with {folder}", file=sys.stderr, flush=True)
        return 130


def _one(config: Config, folder: Path, after: EvaluationOptions) -> int:
    from seqsmooth import checks
    from seqsmooth.training.places import find_corpus
    from seqsmooth.training.runs import Run

    home = find_corpus(config.data.folder)  # what can be wrong up to here is said before the seconds of imports
    before = folder.is_dir() and (folder / "manifest.json").is_file() and Run.open(folder).finished
    from seqsmooth.cli.devices import keep_memory_on
    from seqsmooth.data import open_corpus

    keep_memory_on(config.trainer.device)
    corpus = open_corpus(home)
    for split in after.splits:  # now, and not when all is learned
        checks.one_of("decode", split, tuple(corpus.splits))
    from seqsmooth.training.trainer import local_rank, train

    run = train(config, folder, corpus)
    if local_rank() > 0:
        return 0
    best = run.manifest["best"]
    score = "" if best is None else f", best {best['metric']} {best['value']:.2f} after epoch {best['epoch']}"
    seconds = run.manifest["seconds"]
    done = "finished before, left as it is: " if before else ""
    print(f"{folder}: {done}{run.manifest['steps']} steps in {seconds:.0f} s{score}", file=sys.stderr, flush=True)
    for split in after.splits:
        _decode(run, config, corpus, split, after.metrics or None)
        if after.observe:
            _observe(run, config, corpus, split)
    return 0


def _decode(run: Run, config: Config, corpus: Corpus, split: str, metrics: tuple[str, ...] | None) -> None:
    from seqsmooth.training.writing import DecodingOptions, write_split

    options = DecodingOptions((run.folder,), split, device=config.trainer.device, metrics=metrics)
    report = write_split(options, corpus=corpus)
    if report is not None:
        print(f"{split}:\n{report.text()}", flush=True)


def _observe(run: Run, config: Config, corpus: Corpus, split: str) -> None:
    import torch

    from seqsmooth.reports.behaviour import behaviour

    device = "cuda" if torch.cuda.is_available() and config.trainer.device != "cpu" else "cpu"
    behaviour(run, split, device, corpus)


def _sweep(given: argparse.Namespace, overrides: Sequence[tuple[str, str]], after: EvaluationOptions) -> int:
    from seqsmooth import checks
    from seqsmooth.training.fleet import FleetJob, run_fleet
    from seqsmooth.training.sweep import check_files, each_once, plan_sweep

    for name in ("run", "loss"):
        value = getattr(given, name)
        checks.must(value is None, name, "left out with --sweep, which trains several", value)
    sweeps = given.sweep if given.base is None else [f"{given.base}/{name}" for name in given.sweep]
    jobs = 1 if given.jobs is None else checks.at_least("jobs", given.jobs, 1)
    planned = each_once(each for sweep in sweeps for each in plan_sweep(sweep, given.runs, overrides))
    if given.print_config:
        for each in planned:
            print(shlex.join(["seqsmooth", *each.words(), *after.words()]))
        return 0
    left = [each for each in planned if not after.is_done(each)]
    check_files(left)
    if len(left) < len(planned):
        print(f"{len(planned) - len(left)} of {len(planned)} runs were done before", file=sys.stderr, flush=True)
    try:
        failed = run_fleet([FleetJob(each.folder, (*each.words(), *after.words())) for each in left], jobs)
    except KeyboardInterrupt:
        print("\nseqsmooth: stopped; the same command goes on", file=sys.stderr, flush=True)
        return 130
    if failed:
        names = ", ".join(str(job.folder) for job in failed)
        print(f"{len(failed)} of {len(planned)} runs failed: {names}", file=sys.stderr, flush=True)
    return 1 if failed else 0
