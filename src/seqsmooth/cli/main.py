"""The `seqsmooth` command: finds the verb, reads its options, calls its function.

The files of the verbs import what is heavy in their functions, so that `--help` and mistakes are answered at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seqsmooth.cli import (
    choose,
    conformance,
    decode,
    demo,
    doctor,
    glove,
    prepare,
    record,
    report,
    results,
    score,
    train,
)
from seqsmooth.version import __version__


@dataclass(frozen=True)
class Verb:
    """One verb of the command line."""

    summary: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    dotted: bool = False
    """Whether values of a config may be given by their dotted keys."""


VERBS: dict[str, Verb] = {
    "demo": Verb("the whole chain on scenes drawn by the package itself", demo.options, demo.start),
    "prepare": Verb("make a corpus ready for training", prepare.options, prepare.start),
    "train": Verb("train a model as a config says, or go on with it", train.options, train.start, dotted=True),
    "choose": Verb("the validation scores of a grid, the best marked", choose.options, choose.start, dotted=True),
    "decode": Verb("write captions or translations with trained models, and score them", decode.options, decode.start),
    "score": Verb("score captions or translations against their references", score.options, score.start),
    "report": Verb("compare trained runs: tables, plots, a page", report.options, report.start),
    "record": Verb("what runs leave behind for good, a small file each", record.options, record.start),
    "results": Verb("tables, plots and a page from the records of runs", results.options, results.start),
    "glove": Verb("train word vectors on a corpus", glove.options, glove.start),
    "conformance": Verb("hold a loss against the contract", conformance.options, conformance.start),
    "doctor": Verb("say what runs here, and check that it is right", doctor.options, doctor.start),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments: The words after `seqsmooth`; those of the process where None.
    """
    plain, dotted = _dotted(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    given, unknown = parser.parse_known_args(plain)
    verb: Verb = given.verb
    if unknown:
        hint = " (a value of a config is given by its dotted key, as in --trainer.max_epochs 1)" if verb.dotted else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if dotted and not verb.dotted:
        parser.error(f"unrecognized arguments: --{dotted[0][0]}")
    given.dotted = dotted
    try:
        return verb.run(given)
    except BrokenPipeError:  # whoever read the output has seen enough; the interpreter must not try to flush the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("\nseqsmooth: stopped", file=sys.stderr)
        return 130
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        told = _told(error)
        if told is None:
            raise
        print(f"seqsmooth: error: {told}", file=sys.stderr)
        return 2


def _told(error: Exception) -> str | None:
    """The sentence for what a user can mend; None for a fault of ours, which is to be seen whole."""
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, OSError):  # a full disk, a folder that nobody may write to, a file that went away
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"The system says: {where}{error.strerror or error}."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this."
    if type(error).__name__ == "OutOfMemoryError":  # torch's, which is not imported here
        return f"There is not enough memory on the device: {str(error).splitlines()[0]}"
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="seqsmooth", description="Loss smoothing for anything that generates sequences."
    )
    parser.add_argument("--version", action="version", version=f"seqsmooth {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, verb in VERBS.items():
        child = verbs.add_parser(name, help=verb.summary, description=verb.summary)
        verb.options(child)
        child.set_defaults(verb=verb)
    return parser


def _dotted(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Take `--a.b VALUE` and `--a.b=VALUE` out of the words of a command line."""
    plain: list[str] = []
    found: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and "." in name:
            found.append((name, value if equals else next(rest, "")))
        else:
            plain.append(word)
    return plain, found
