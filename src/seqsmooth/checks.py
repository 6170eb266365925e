"""One sentence for every wrong argument: what must be, and what is. Tensors have checks of their own, in `ops.checks`.

Nothing here needs torch, so neither does a file that checks plain values alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real


def must(condition: bool, name: str, rule: str, value: object) -> None:
    """Raise `wrong` unless `condition` holds."""
    if not condition:
        raise wrong(name, rule, value)


def require(condition: bool, sentence: str) -> None:
    """Raise a ValueError that says `sentence` unless `condition` holds."""
    if not condition:
        raise ValueError(sentence)


def wrong(name: str, rule: str, value: object) -> ValueError:
    """The sentence "`name` must be <rule>; it is <value>.", where it takes time to put it together."""
    return ValueError(f"`{name}` must be {rule}; it is {value}.")


def missing(package: str, what: str, extra: str) -> ValueError:
    """The sentence for a package that is not installed, and the way out."""
    way_out = f"pip install 'seqsmooth[{extra}]'"
    return ValueError(f"`{package}` must be installed for {what} ({way_out}).")


def positive(name: str, value: float) -> float:
    """Check a number greater than 0 (infinity is one)."""
    must(_is_number(value), name, "a number", repr(value))
    must(value > 0, name, "greater than 0", value)
    return float(value)


def non_negative(name: str, value: float) -> float:
    """Check a finite number that is 0 or more."""
    must(_is_number(value), name, "a number", repr(value))
    must(0 <= value < math.inf, name, "a finite number, 0 or more", value)
    return float(value)


def fraction(name: str, value: float) -> float:
    """Check a number between 0 and 1."""
    must(_is_number(value), name, "a number", repr(value))
    must(0 <= value <= 1, name, "between 0 and 1", value)
    return float(value)


def flag(name: str, value: object) -> None:
    """Check a yes or no."""
    must(isinstance(value, bool), name, "True or False", repr(value))


def whole(name: str, value: object) -> None:
    """Check a whole number."""
    must(isinstance(value, Integral) and not isinstance(value, bool), name, "a whole number", repr(value))


def at_least(name: str, value: int, least: int) -> int:
    """Check a whole number that is `least` or more."""
    whole(name, value)
    must(value >= least, name, f"{least} or more", value)
    return int(value)


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Check a word from a short list."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise wrong(name, f"one of {listed}", repr(value))


def describe(value: object) -> str:
    """A value in words: "a GroundTruth", or "the class Hamming" where it was not called."""
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
