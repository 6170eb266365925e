"""SystemOutput and references from files, as people have them.

Hypotheses: JSON Lines, one `{"id": ..., "text": ...}` or `{"id": ..., "tokens": [...]}` a line, or what `seqsmooth
decode` writes, of which the first hypothesis counts; the results format of the COCO server, `[{"image_id": ...,
"caption": ...}]`; or plain text, a sentence a line. References: Karpathy's json, COCO's own annotations, or plain text
in one file or several, parallel. All text is UTF-8, compressed where the name ends in .gz. Ids are compared as strings,
so that 42 is "42", and the id of a line of plain text is its number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqsmooth import checks
from seqsmooth.files.reading import read_json, read_json_lines, read_lines
from seqsmooth.metrics.evaluation_set import check_same_items
from seqsmooth.text.captions import read_captions
from seqsmooth.text.segments import suspicious_line


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence of a file: one item of a system's output, or one reference.

    Attributes:
        text: the sentence as it is written.
        tokens: its tokens, where the file has tokens.
    """

    text: str
    tokens: tuple[str, ...] | None = None

    def words(self) -> tuple[str, ...]:
        """The tokens that the file has, or the text split at white space."""
        return tuple(self.text.split()) if self.tokens is None else self.tokens


@dataclass(frozen=True, slots=True)
class SystemOutput:
    """The output of a system: a sentence for each id, or each line where `numbered`; by `decode` where `decoded`."""

    path: Path
    sentences: Mapping[str, Segment]
    numbered: bool
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class References:
    """References: sentences for each id, or for each line where `numbered`; not tokenised where `raw`."""

    path: Path
    sentences: Mapping[str, tuple[Segment, ...]]
    numbered: bool
    raw: bool = False


def read_hypotheses(path: str | Path) -> SystemOutput:
    """Read hypotheses in any of the formats of this module; the suffix .json or .jsonl says which.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "translations.txt"
        >>> _ = path.write_text(chr(10).join(["a dog", "two cats"]))
        >>> output = read_hypotheses(path)
        >>> output.numbered, [sentence.text for sentence in output.sentences.values()]
        (True, ['a dog', 'two cats'])
    """
    path = Path(path)
    name = "hypotheses"
    if _suffix(path) == ".jsonl":
        entries = [(f"line {number} of {path}", entry) for number, entry in read_json_lines(path, name)]
        return _entries(path, entries, "id", ("text", "tokens", "hypotheses"))
    if _suffix(path) == ".json":
        results = read_json(path, name)
        rule = 'a list of {"image_id": ..., "caption": ...}'
        checks.must(isinstance(results, list), str(path), rule, checks.describe(results))
        entries = [(f"entry {place} of {path}", entry) for place, entry in enumerate(results, 1)]
        return _entries(path, entries, "image_id", ("caption",))
    return SystemOutput(path, {str(n): Segment(line) for n, line in enumerate(_lines(path, name), 1)}, numbered=True)


def read_references(paths: str | Path | Sequence[str | Path], *, split: str = "test") -> References:
    """Read references: one json, or one or more files of plain text, parallel.

    Args:
        paths: the file or the files.
        split: the images to take where the file is Karpathy's; "all" for all.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "captions_val.json"
        >>> people = [{"image_id": 7, "caption": caption} for caption in ("A dog.", "Dogs.")]
        >>> _ = path.write_text(json.dumps({"annotations": people}))
        >>> [sentence.text for sentence in read_references(path).sentences["7"]]
        ['A dog.', 'Dogs.']
    """
    several = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    checks.must(len(several) > 0, "references", "at least one file", "none")
    first = several[0]
    if any(_suffix(path) == ".json" for path in several):
        rule = "one json or several files of plain text"
        checks.must(len(several) == 1, "references", rule, ", ".join(map(str, several)))
        return _caption_references(first, split)
    columns = [_lines(path, "references") for path in several]
    for path, column in zip(several[1:], columns[1:], strict=True):
        if len(column) != len(columns[0]):
            raise ValueError(
                f"The files must have as many lines, but {first} has {len(columns[0])} and {path} has {len(column)}: "
                f"the first suspicious line is {suspicious_line(column, columns[0])}."
            )
    rows = {str(n): tuple(map(Segment, row)) for n, row in enumerate(zip(*columns, strict=True), 1)}
    return References(first, rows, numbered=True)


def align(
    hypotheses: SystemOutput, references: References, *, subset: bool = False, first: int | None = None
) -> tuple[dict[str, Segment], dict[str, tuple[Segment, ...]]]:
    """Give each hypothesis its references, in the order of the references.

    SystemOutput with ids meet plain text by the number of the line; the numbers may start from 0, as those of `decode`
    do, or from 1. SystemOutput without ids are taken in the order of the references.

    Args:
        hypotheses: what the system wrote.
        references: what people wrote.
        subset: whether references without a hypothesis are passed over.
        first: the id of the first line of plain text, 0 or 1; asked for where the ids of a subset fit both.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "ours.json").write_text('[{"image_id": 7, "caption": "a dog"}]')
        >>> _ = (folder / "people.json").write_text('{"annotations": [{"image_id": 7, "caption": "A brown dog."}]}')
        >>> ours, gold = align(read_hypotheses(folder / "ours.json"), read_references(folder / "people.json"))
        >>> ours["7"].text, gold["7"][0].text
        ('a dog', 'A brown dog.')
    """
    checks.must(first in (None, 0, 1), "first", "0 or 1", repr(first))
    ours, theirs = dict(hypotheses.sentences), dict(references.sentences)
    files = f"{hypotheses.path} has {len(ours)} sentences and {references.path} has {len(theirs)}"
    if hypotheses.numbered or references.numbered:
        if (hypotheses.numbered or not subset) and len(ours) != len(theirs):
            line = suspicious_line(
                [one.text for one in ours.values()], [several[0].text for several in theirs.values()]
            )
            raise ValueError(f"Each line must have its reference, but {files}: the first suspicious line is {line}.")
        if hypotheses.numbered:
            ours = dict(zip(theirs, ours.values(), strict=True))
        elif _from_zero(hypotheses, references, subset, first):
            theirs = {str(int(number) - 1): several for number, several in theirs.items()}
    if subset:
        theirs = {key: several for key, several in theirs.items() if key in ours}
        checks.must(len(theirs) > 0, "hypotheses", "of some items with references", "of none")
    try:
        check_same_items(ours, theirs)
    except ValueError as error:
        raise ValueError(f"{str(error).removesuffix('.')} ({files}).") from error
    return {key: ours[key] for key in theirs}, theirs


def coco_results(sentences: Mapping[str, Segment]) -> str:
    """The file that the COCO server takes: `[{"image_id": 42, "caption": "a man on a horse"}]`.

    Examples:
        >>> coco_results({"42": Segment("a man on a horse")}).strip()
        '[{"image_id": 42, "caption": "a man on a horse"}]'
    """
    entries = []
    for key, segment in sentences.items():
        checks.must(key.isdecimal(), "image_id", "a whole number, as COCO's are", repr(key))
        entries.append({"image_id": int(key), "caption": segment.text})
    return json.dumps(entries, ensure_ascii=False) + "\n"


def _from_zero(hypotheses: SystemOutput, references: References, subset: bool, first: int | None) -> bool:
    # Whether the ids of hypotheses number the lines of plain text from 0.
    ids, lines = hypotheses.sentences.keys(), references.sentences.keys()
    if "0" in ids or (subset and hypotheses.decoded):
        return True
    if not subset or not ids <= lines - {str(len(lines))}:
        return False
    if first is None:
        raise ValueError(
            f"`first` must be 0 or 1, the id of the first line of {references.path}; it is not given, and the ids of "
            f"{hypotheses.path} fit both."
        )
    return first == 0


def _entries(path: Path, entries: Sequence[tuple[str, Any]], key: str, names: Sequence[str]) -> SystemOutput:
    rule = f'an object with "{key}" and ' + " or ".join(f'"{name}"' for name in names)
    segments: dict[str, Segment] = {}
    places: dict[str, str] = {}
    decoded = True
    checks.must(len(entries) > 0, str(path), "a file with at least one hypothesis", "empty")
    # Where no line has an id, the lines are in the order of the references.
    unnamed = key == "id" and all(isinstance(entry, dict) and key not in entry for _, entry in entries)
    for number, (place, entry) in enumerate(entries, 1):
        name = next((name for name in names if isinstance(entry, dict) and name in entry), None)
        checks.must(name is not None and (unnamed or key in entry), place, rule, _abbreviate(entry))
        decoded = decoded and name == "hypotheses"
        identity = str(number) if unnamed else _identity(place, entry[key])
        if identity in segments:
            raise ValueError(f"An id must be there once, but {identity!r} is in {places[identity]} and in {place}.")
        segments[identity], places[identity] = _segment(place, entry[name]), place
    return SystemOutput(path, segments, numbered=unnamed, decoded=decoded)


def _caption_references(path: Path, split: str) -> References:
    images = read_captions(path, "references")
    splits = sorted({image.split for image in images})
    raw = splits == [""]  # COCO's annotations
    references: dict[str, tuple[Segment, ...]] = {}
    for image in images:
        if raw or split in (image.split, "all"):
            rule = "an image with sentences"
            checks.must(raw or bool(image.captions), f"image {image.id} of {path}", rule, "one without")
            if image.captions:
                references[str(image.id)] = tuple(Segment(caption.raw, caption.words) for caption in image.captions)
    checks.must(len(references) > 0, "split", f"one of {', '.join(splits)} or all", repr(split))
    return References(path, references, numbered=False, raw=raw)


def _identity(place: str, value: object) -> str:
    named = isinstance(value, (int, str)) and not isinstance(value, bool)
    checks.must(named, place, "an object whose id is a whole number or a string", _abbreviate(value))
    return str(value)


def _segment(place: str, value: object) -> Segment:
    if isinstance(value, list) and all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in value):
        return Segment(value[0]["text"] if value else "")
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return Segment(" ".join(value), tuple(value))
    rule = "an object with a sentence, a string or a list of strings"
    checks.must(isinstance(value, str), place, rule, _abbreviate(value))
    return Segment(str(value))


def _abbreviate(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _lines(path: Path, name: str) -> list[str]:
    lines = list(read_lines(path, name))
    checks.must(len(lines) > 0, str(path), "a file with a sentence a line", "empty")
    return lines
