"""The `seqsmooth` command: finds the verb, reads its options, calls its function.

Nothing heavy is imported here, so that `--help` and mistakes are answered at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seqsmooth.version import __version__


@dataclass(frozen=True)
class Verb:
    """One verb of the command line."""

    summary: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    dotted: bool = False
    """Whether values of a config may be given by their dotted keys."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments: The words after `seqsmooth`; those of the process where None.
    """
    plain, dotted = _dotted(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    given = parser.parse_args(plain)
    verb: Verb = given.verb
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


def _demo_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import demo

    demo.options(parser)


def _demo(given: argparse.Namespace) -> int:
    from seqsmooth.cli import demo

    return demo.start(given)


def _report_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import report

    report.options(parser)


def _report(given: argparse.Namespace) -> int:
    from seqsmooth.cli import report

    return report.start(given)


def _record_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import record

    record.options(parser)


def _record(given: argparse.Namespace) -> int:
    from seqsmooth.cli import record

    return record.start(given)


def _results_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import results

    results.options(parser)


def _results(given: argparse.Namespace) -> int:
    from seqsmooth.cli import results

    return results.start(given)


def _bench_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import bench

    bench.options(parser)


def _bench(given: argparse.Namespace) -> int:
    from seqsmooth.cli import bench

    return bench.start(given)


def _prepare_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import prepare

    prepare.options(parser)


def _prepare(given: argparse.Namespace) -> int:
    from seqsmooth.cli import prepare

    return prepare.run(given)


def _score_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import score

    score.options(parser)


def _score(given: argparse.Namespace) -> int:
    from seqsmooth.cli import score

    return score.run(given)


def _glove_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import glove

    glove.options(parser)


def _glove(given: argparse.Namespace) -> int:
    from seqsmooth.cli import glove

    return glove.start(given)


def _train_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import train

    train.options(parser)


def _train(given: argparse.Namespace) -> int:
    from seqsmooth.cli import train

    return train.start(given, given.dotted)


def _choose_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import choose

    choose.options(parser)


def _choose(given: argparse.Namespace) -> int:
    from seqsmooth.cli import choose

    return choose.start(given, given.dotted)


def _decode_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import decode

    decode.options(parser)


def _decode(given: argparse.Namespace) -> int:
    from seqsmooth.cli import decode

    return decode.start(given)


def _doctor_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import doctor

    doctor.options(parser)


def _doctor(given: argparse.Namespace) -> int:
    from seqsmooth.cli import doctor

    return doctor.start(given)


def _conformance_options(parser: argparse.ArgumentParser) -> None:
    from seqsmooth.cli import conformance

    conformance.options(parser)


def _conformance(given: argparse.Namespace) -> int:
    from seqsmooth.cli import conformance

    return conformance.start(given)


VERBS: dict[str, Verb] = {
    "demo": Verb("the whole chain on scenes drawn by the package itself", _demo_options, _demo),
    "prepare": Verb("make a corpus ready for training", _prepare_options, _prepare),
    "train": Verb("train a model as a config says, or go on with it", _train_options, _train, dotted=True),
    "choose": Verb("the validation scores of a grid, the best marked", _choose_options, _choose, dotted=True),
    "decode": Verb("write captions or translations with trained models, and score them", _decode_options, _decode),
    "score": Verb("score captions or translations against their references", _score_options, _score),
    "report": Verb("compare trained runs: tables, plots, a page", _report_options, _report),
    "record": Verb("what runs leave behind for good, a small file each", _record_options, _record),
    "results": Verb("tables, plots and a page from the records of runs", _results_options, _results),
    "glove": Verb("train word vectors on a corpus", _glove_options, _glove),
    "bench": Verb("time every loss beside its peers", _bench_options, _bench),
    "conformance": Verb("hold a loss against the contract", _conformance_options, _conformance),
    "doctor": Verb("say what runs here, and check that it is right", _doctor_options, _doctor),
}


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
