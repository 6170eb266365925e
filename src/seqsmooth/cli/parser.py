"""An argument parser whose help fits 80 columns and whose errors suggest the nearest word it knows."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

WIDTH = 80


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are a sentence with a suggestion, and one line that leads to the help.

    Descriptions and epilogs are filled to the width of the terminal, at most 80 columns; their indented lines are
    commands, which are broken only where they are too long, as the shell reads them.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **options})
        self.set_defaults(parser=self)  # the parser of a subcommand overrides that of its command

    def error(self, message: str) -> NoReturn:
        """Print the message and stop with status 2."""
        self.exit(2, f"{self.prog}: error: {message}\n`{self.prog} --help` explains the command.\n")

    def unknown_option(self, word: str) -> NoReturn:
        """Stop because of an option that this command does not have."""
        option = word.partition("=")[0]
        self.error(f"There is no option {option}{did_you_mean(nearest(option, self.visible_options()))}")

    def visible_options(self) -> list[str]:
        """The options that the help lists."""
        return [name for name, action in self._option_string_actions.items() if action.help != argparse.SUPPRESS]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        name = action.option_strings[-1] if action.option_strings else action.metavar
        listed = ", ".join(map(repr, known))
        suggestion = did_you_mean(nearest(str(value), known))
        self.error(f"{name} must be one of {listed}; it is {value!r}{suggestion}")


class _Formatter(argparse.HelpFormatter):
    """Fills prose, breaks commands with a backslash, and calls numbers N."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, width=min(shutil.get_terminal_size().columns, WIDTH), **options)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        for choice in self._iter_indented_subactions(action):  # whose indent argparse forgets
            length = len(self._format_action_invocation(choice)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in _fill(text, width - len(indent)))

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return "N" if action.type in (int, float) else super()._get_default_metavar_for_optional(action)


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The word most like a mistyped one; none where nothing comes near."""
    import difflib

    return difflib.get_close_matches(word, list(known), n=1)


def did_you_mean(words: Sequence[str]) -> str:
    """The end of a sentence: a question where there is something to suggest."""
    if not words:
        return "."
    *others, last = words
    return f"; did you mean {', '.join(others) + ' or ' if others else ''}{last}?"


def _fill(text: str, width: int) -> Iterator[str]:
    prose: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line and not line.startswith(" "):
            prose.append(line)
            continue
        yield from textwrap.wrap(" ".join(prose), width, break_long_words=False, break_on_hyphens=False)
        prose.clear()
        yield from _break_command(line, width)


def _break_command(line: str, width: int) -> Iterator[str]:
    """A command in several lines, broken before an option where there is one; a comment goes above it."""
    command, _, comment = line.partition("  # ")
    if comment and len(line) > width:
        yield f"  # {comment}"
        line = command
    while len(line) > width:
        end = line.rfind(" --", 8, width - 1)
        end = end if end > 0 else line.rfind(" ", 8, width - 1)
        if end < 0:
            break
        yield line[:end] + " \\"
        line = " " * 6 + line[end + 1 :]
    yield line
