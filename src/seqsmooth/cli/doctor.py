"""`seqsmooth doctor`: what is installed, what each missing thing is for, what works, and whether it is right."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

Line = TypeVar("Line")

EXAMPLES = """\
examples:
  seqsmooth doctor
  seqsmooth doctor --data corpora --full

Exit status: 0 where all is well, 1 where something is wrong. A package or a
corpus that is merely missing is no fault."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EXAMPLES
    rule = "look for data here (default $SEQSMOOTH_DATA, or ./data)"
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=rule)
    parser.add_argument("--full", action="store_true", help="run METEOR, too: ten seconds and two gigabytes")


def start(given: argparse.Namespace) -> int:
    """Print what is found and return 0 where all is well, 1 otherwise."""
    from seqsmooth.cli import self_check, surroundings

    for name, value in surroundings.versions().items():
        print(f"{name:<12} {value}")
    print("packages:", *surroundings.package_lines(), sep="\n")
    print("data:", *surroundings.data_lines(given.data), sep="\n", flush=True)
    trials = list(_show("works", surroundings.run_trials(full=given.full)))
    checks = list(_show("self-check   our losses and gradients against float64", self_check.check_losses()))
    well = all(trial.works is not False for trial in trials) and all(check.passed for check in checks)
    print("All is well." if well else "Something is wrong: please report the lines above.")
    return 0 if well else 1


def _show(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    """Print each line as soon as it is known, since some take their time, and hand it on."""
    print(f"{title}:", flush=True)
    for line in lines:
        print(line, flush=True)
        yield line
