"""The dotted keys of a config, for whoever wrote only the end of one, as in `--lr` for `--optimizer.lr`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args, get_type_hints

from seqsmooth.cli.parser import did_you_mean, nearest

MOST = 8
"""How many keys a sentence lists."""


def explain_key(word: str, options: Iterable[str]) -> str:
    """The sentence for an option that does not exist: the options and keys that it may stand for.

    Args:
        word: the option without its dashes, as in "lr".
        options: the options of the command, as in "--seed".
    """
    ends = {option.lstrip("-"): [option] for option in options}
    for key in sorted({*known_keys()}, key=lambda key: (key.count("."), key)):
        ends.setdefault(key.rpartition(".")[2], []).append(f"--{key}")
    candidates = list(dict.fromkeys(name for end in nearest(word, ends) for name in ends[end]))
    dotted = any("." in name for name in candidates) or not candidates
    rule = " Keys of a config are dotted; `seqsmooth train BASE --loss NAME --print_config` lists them."
    return f"There is no option --{word}{did_you_mean(candidates[:MOST])}{rule if dotted else ''}"


def known_keys() -> Iterator[str]:
    """The dotted keys of all sections, whatever their `kind`."""
    from seqsmooth.training.config import Config

    yield from _below(Config, "")


def _below(kind: Any, prefix: str) -> Iterator[str]:
    from seqsmooth.training.sections import choices

    hints: Mapping[str, Any] = get_type_hints(kind)
    for item in dataclasses.fields(kind):
        alternatives = (hints[item.name], *get_args(hints[item.name]), *(choices(item) or {}).values())
        sections = [each for each in alternatives if dataclasses.is_dataclass(each)]
        if not sections:
            yield prefix + item.name
        for section in sections:
            yield from _below(section, f"{prefix}{item.name}.")
