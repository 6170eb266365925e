"""Lists of names on the command line, as in --metrics bleu-4,cider."""

from __future__ import annotations

from seqsmooth import checks


def split_names(option: str, text: str | None) -> tuple[str, ...]:
    """Split names at commas; none where the option was not given, and an error where it was given without a name."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    checks.must(text is None or len(names) > 0, option, "at least one name", repr(text))
    return names
