"""The `seqsmooth` command: finds the verb, reads its options, calls its function.

Help and mistakes are answered at once: only the file of the verb asked for is imported, and the files of verbs import
torch and other packages inside their functions.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from seqsmooth.cli.parser import Parser
from seqsmooth.version import __version__

DESCRIPTION = """\
Loss smoothing for anything that generates sequences.

{verbs}

`seqsmooth VERB --help` explains a verb, with examples. Begin with
`seqsmooth demo`, which needs no data; `seqsmooth doctor` checks this machine."""


@dataclass(frozen=True)
class Verb:
    """A verb as the help lists it; `seqsmooth.cli.VERB` has its functions `options` and `start`."""

    summary: str
    dotted: bool = False
    """Whether values of a config may be given by their dotted keys."""
    ways: tuple[str, ...] = ()
    """The ways of a verb that has several; the first of them where none is named."""


VERBS: dict[str, Verb] = {
    "demo": Verb("the whole chain on scenes drawn by the package itself"),
    "prepare": Verb("make a corpus ready for training"),
    "glove": Verb("train word vectors on a corpus"),
    "train": Verb("train a model as a config says, or go on with it", dotted=True),
    "decode": Verb("write and score captions or translations of trained models"),
    "score": Verb("score captions or translations against their references"),
    "report": Verb("compare trained runs; keep records of them", ways=("runs", "record", "results", "choose")),
    "conformance": Verb("hold a loss against the contract"),
    "doctor": Verb("say what runs here, and check that it is right"),
}
MOVED = {name: f"`seqsmooth report {name}`" for name in ("record", "results", "choose")}
MOVED["bench"] = "`python -m benchmarks`, in a clone of the repository"
"""Verbs of earlier versions, and what does their work now."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments: The words after `seqsmooth`; those of the process where None.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = next((word for word in words if not word.startswith("-")), None)
    parser = _parser(name)
    if not words:
        parser.print_help(sys.stderr)
        return 2
    if name in MOVED:
        parser.error(f"`seqsmooth {name}` is now {MOVED[name]}.")
    plain, dotted = _split_keys(words)
    plain = _name_way(plain)
    given, unknown = parser.parse_known_args(plain)
    given.takes_keys = VERBS[given.verb].dotted or getattr(given, "takes_keys", False)
    if unknown or (dotted and not given.takes_keys):
        _refuse(given, unknown or [f"--{dotted[0][0]}"])
    given.dotted = dotted
    try:
        status: int = _room(given.verb).start(given)
        return status
    except BrokenPipeError:  # whoever read the output has seen enough; the interpreter must not try to flush the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("\nseqsmooth: stopped", file=sys.stderr)
        return 130
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        sentence = _explain(error)
        if sentence is None:
            raise
        print(f"seqsmooth: error: {sentence}", file=sys.stderr)
        return 2


def _room(verb: str) -> Any:
    return import_module(f"seqsmooth.cli.{verb}")


def _parser(name: str | None) -> Parser:
    """The parser of the command; of the verbs only the one named has its options."""
    listed = "\n".join(f"  {verb:<12} {about.summary}" for verb, about in VERBS.items())
    parser = Parser(
        prog="seqsmooth",
        usage="seqsmooth [--help] [--version] VERB ...",
        description=DESCRIPTION.format(verbs=listed),
    )
    parser.add_argument("--version", action="version", version=f"seqsmooth {__version__}", help="print the version")
    verbs = parser.add_subparsers(prog="seqsmooth", metavar="VERB", required=True, dest="verb", help=argparse.SUPPRESS)
    for known, verb in VERBS.items():
        child = verbs.add_parser(known, description=f"{verb.summary[0].upper()}{verb.summary[1:]}.")
        if known == name:
            _room(known).options(child)
    return parser


def _refuse(given: argparse.Namespace, unknown: Sequence[str]) -> NoReturn:
    """Stop because of words that no option took."""
    parser: Parser = given.parser
    option = next((word for word in unknown if word.startswith("-")), None)
    if option is None:
        parser.error(f"There is no use for {' '.join(map(repr, unknown))} here.")
    if given.takes_keys and option.startswith("--"):
        from seqsmooth.cli.keys import explain_key

        parser.error(explain_key(option[2:].partition("=")[0], parser.visible_options()))
    parser.unknown_option(option)


def _explain(error: Exception) -> str | None:
    """The sentence for what a user can mend; None for a fault of ours, whose traceback is to be seen."""
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


def _name_way(words: Sequence[str]) -> list[str]:
    """Put the first way of a verb that has several behind its name, where none is named."""
    place = next((place for place, word in enumerate(words) if word in VERBS), len(words))
    ways = VERBS[words[place]].ways if place < len(words) else ()
    rest = words[place + 1 :]
    named = not ways or rest[:1] in ([], ["-h"], ["--help"]) or rest[0] in ways
    return list(words) if named else [*words[: place + 1], ways[0], *rest]


def _split_keys(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Take `--a.b VALUE` and `--a.b=VALUE` out of the words of a command line."""
    plain: list[str] = []
    dotted: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and "." in name:
            dotted.append((name, value if equals else next(rest, "")))
        else:
            plain.append(word)
    return plain, dotted
