"""Segments of parallel text: from the files of evaluations, and where two files part."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from html import unescape

from seqsmooth import checks
from seqsmooth.files.reading import read_text

_SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>", re.DOTALL | re.IGNORECASE)


def read_segments(path: str | os.PathLike[str], name: str = "text") -> list[str]:
    """Read the segments of an .sgm or .xml file of the WMT or IWSLT evaluations."""
    segments = [" ".join(unescape(text).split()) for text in _SEGMENT.findall(read_text(path, name))]
    checks.must(len(segments) > 0, name, "a file with <seg> elements", f"{path}, which has none")
    return segments


def suspicious_line(ours: Sequence[str], theirs: Sequence[str], window: int = 5, farthest: int = 20) -> int:
    """Return the line, counted from 1, where two files that should have as many lines probably part.

    Lines are missing from the shorter file. They part at its first line that fits a line further down in the longer
    file better than its own, as the lines after it do; without such a line, at the first that has no partner.
    """
    shorter, longer = sorted(([set(line.lower().split()) for line in lines] for lines in (ours, theirs)), key=len)
    common = Counter(word for words in longer for word in words)

    def fits(first: int, last: int, shift: int) -> float:
        pairs = zip(shorter[first:last], longer[first + shift : last + shift], strict=False)
        return sum(1 / common[word] for one, other in pairs for word in one & other)

    for line in range(len(shorter)):
        for shift in range(1, min(len(longer) - len(shorter), farthest) + 1):
            if all(fits(line, last, shift) > fits(line, last, 0) for last in (line + 1, line + window)):
                return line + 1
    return len(shorter) + 1
