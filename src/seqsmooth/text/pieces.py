"""From the pieces of a subword tokeniser back to words.

The mark of where words begin or end is part of a tokeniser's signature, `...|join:##`, so that text can be put together
without the tokeniser that split it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from seqsmooth import checks

MARKS: Mapping[str, str] = {
    "##": "begins a piece that goes on with the word before it (WordPiece)",
    "@@": "ends a piece that the next one goes on with (subword-nmt, fastBPE)",
    "</w>": "ends the last piece of a word (BPE)",
    "▁": "begins the first piece of a word (SentencePiece)",
    "Ġ": "is a blank among bytes that are written as letters (GPT-2)",
}
UNKNOWN = "<unk>"
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")


def mark_of(signature: str) -> str:
    """Return the mark that a tokeniser's signature names, empty where its tokens are words."""
    marks = [part.removeprefix("join:") for part in signature.split("|")[1:] if part.startswith("join:")]
    mark = marks[-1] if marks else ""
    checks.must(mark == "" or mark in MARKS, "join", f"one of {' '.join(MARKS)}", mark)
    return mark


def join(pieces: Sequence[str], mark: str) -> list[str]:
    """Put the pieces of a sentence together; they may come from a model and break the rules.

    Examples:
        >>> join(["a", "snow", "##board", "##er"], "##")
        ['a', 'snowboarder']
    """
    if mark == "":
        return list(pieces)
    if mark == "##":
        return " ".join(pieces).removeprefix(mark).replace(f" {mark}", "").split()
    if mark == "@@":
        return f"{' '.join(pieces)} ".replace(f"{mark} ", "").split()
    if mark == "</w>":
        # What is not known has lost its end, too; the word after it must not suffer.
        return "".join(f"{piece}{mark}" if piece == UNKNOWN else piece for piece in pieces).replace(mark, " ").split()
    if mark == "▁":
        return _BYTES.sub(_read_bytes, "".join(pieces)).replace(mark, " ").split()
    letters = _bytes_of_letters()
    text = b"".join(letters.get(letter) or letter.encode() for letter in "".join(pieces))
    return text.decode(errors="replace").split()


def _read_bytes(match: re.Match[str]) -> str:
    """Decode bytes that SentencePiece falls back on, as in <0xC3><0xA9>."""
    return bytes.fromhex(match[0].replace("<0x", "").replace(">", "")).decode(errors="replace")


@cache
def _bytes_of_letters() -> dict[str, bytes]:
    """Map the letters that GPT-2 writes bytes as: visible ones are themselves, others come from U+0100 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in seen]
    letters = {chr(byte): bytes([byte]) for byte in seen}
    return letters | {chr(256 + place): bytes([byte]) for place, byte in enumerate(others)}
