"""Files of hypotheses and references: read as they are, and refused in one sentence where they are wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from seqsmooth.decoding import Hypothesis, HypothesisFile
from seqsmooth.metrics import align, coco_results, read_hypotheses, read_references
from seqsmooth.metrics.sentences import Segment

KARPATHY = {
    "images": [
        {"cocoid": 42, "imgid": 0, "split": "test", "sentences": [{"raw": "A man.", "tokens": ["a", "man"]}]},
        {"cocoid": 7, "imgid": 1, "split": "val", "sentences": [{"raw": "A dog.", "tokens": ["a", "dog"]}]},
        {"cocoid": 9, "imgid": 2, "split": "test", "sentences": [{"tokens": ["a", "cat"]}, {"tokens": ["cats"]}]},
    ]
}


def write(path: Path, held: Any) -> Path:
    if isinstance(held, bytes):
        path.write_bytes(held)
    else:
        path.write_text(held if isinstance(held, str) else json.dumps(held), encoding="utf-8")
    return path


def test_json_lines(tmp_path: Path) -> None:
    text = '{"id": 42, "text": "A man."}\n\n{"id": "x", "tokens": ["a", "cat"], "score": -1.5}\n'
    read = read_hypotheses(write(tmp_path / "h.jsonl", text))
    assert read.sentences == {"42": Segment("A man."), "x": Segment("a cat", ("a", "cat"))}
    assert not read.numbered
    assert [written.words() for written in read.sentences.values()] == [("A", "man."), ("a", "cat")]


def test_what_decode_writes_and_gzip(tmp_path: Path) -> None:
    first, second = Hypothesis((4, 5), -1.5, -0.5, True), Hypothesis((5,), -2.5, -0.9, True)
    with HypothesisFile(tmp_path / "d.jsonl", [7, 8], text=lambda tokens: " ".join(map(str, tokens))) as file:
        file.add(7, [first, second])
        file.add(8, [])
    assert read_hypotheses(tmp_path / "d.jsonl").sentences == {"7": Segment("4 5"), "8": Segment("")}
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress((tmp_path / "d.jsonl").read_bytes()))
    assert read_hypotheses(tmp_path / "d.jsonl.gz").sentences == read_hypotheses(tmp_path / "d.jsonl").sentences


def test_the_coco_servers_format_there_and_back(tmp_path: Path) -> None:
    entries = [{"image_id": 42, "caption": "a man"}, {"image_id": 9, "caption": "caf\u00e9"}]
    path = write(tmp_path / "h.json", entries)
    read = read_hypotheses(path)
    assert json.loads(coco_results(read.sentences)) == entries
    with pytest.raises(ValueError, match="`image_id` must be a whole number, as COCO's are; it is 'x'"):
        coco_results({"x": Segment("a")})


def test_plain_text_keeps_its_lines(tmp_path: Path) -> None:
    # A byte-order mark, ends of lines from Windows, a separator inside a sentence, an empty line, no end at the end.
    held = "\ufeffa man\r\nin\u2028side\r\n\r\nlast".encode()
    read = read_hypotheses(write(tmp_path / "h.txt", held))
    assert [written.text for written in read.sentences.values()] == ["a man", "in\u2028side", "", "last"]
    assert list(read.sentences) == ["1", "2", "3", "4"]


def test_karpathys_json(tmp_path: Path) -> None:
    path = write(tmp_path / "k.json", KARPATHY)
    read = read_references(path)
    assert {key: [one.words() for one in several] for key, several in read.sentences.items()} == {
        "42": [("a", "man")],
        "9": [("a", "cat"), ("cats",)],
    }
    assert read.sentences["42"][0].text == "A man."
    assert list(read_references(path, split="val").sentences) == ["7"]
    assert len(read_references(path, split="all").sentences) == 3
    with pytest.raises(ValueError, match="`split` must be one of test, val or all; it is 'tset'"):
        read_references(path, split="tset")


def test_flickrs_images_go_by_their_place(tmp_path: Path) -> None:
    images = [{name: value for name, value in image.items() if name != "cocoid"} for image in KARPATHY["images"]]
    assert list(read_references(write(tmp_path / "k.json", {"images": images})).sentences) == ["0", "2"]


def test_cocos_annotations(tmp_path: Path) -> None:
    held = {
        "images": [{"id": 42}, {"id": 9}],
        "annotations": [
            {"image_id": 42, "id": 1, "caption": "A man."},
            {"image_id": 9, "id": 2, "caption": "A cat."},
            {"image_id": 42, "id": 3, "caption": "One man."},
        ],
    }
    read = read_references(write(tmp_path / "a.json", held))
    texts = {key: [one.text for one in several] for key, several in read.sentences.items()}
    assert texts == {"42": ["A man.", "One man."], "9": ["A cat."]}


def test_parallel_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / "r0", "a b\nc d\n"), write(tmp_path / "r1", "e\nf\n")]
    read = read_references(paths)
    assert [[one.text for one in several] for several in read.sentences.values()] == [["a b", "e"], ["c d", "f"]]


@pytest.mark.parametrize("first", [0, 1])
def test_numbered_json_lines_meet_plain_text(tmp_path: Path, first: int) -> None:
    lines = [json.dumps({"id": first + place, "text": text}) for place, text in ((1, "two"), (0, "one"))]
    hypotheses = read_hypotheses(write(tmp_path / "h.jsonl", "\n".join(lines)))
    references = read_references(write(tmp_path / "r.txt", "ONE\nTWO\n"))
    ours, theirs = align(hypotheses, references)
    assert [(ours[key].text, theirs[key][0].text) for key in theirs] == [("one", "ONE"), ("two", "TWO")]


def test_lines_without_ids_are_in_order(tmp_path: Path) -> None:
    references = read_references(write(tmp_path / "k.json", KARPATHY))
    for name, held in (("h.txt", "one\ntwo\n"), ("h.jsonl", '{"text": "one"}\n{"text": "two"}\n')):
        ours, _ = align(read_hypotheses(write(tmp_path / name, held)), references)
        assert {key: written.text for key, written in ours.items()} == {"42": "one", "9": "two"}


def test_a_subset_on_demand(tmp_path: Path) -> None:
    references = read_references(write(tmp_path / "k.json", KARPATHY))
    hypotheses = read_hypotheses(write(tmp_path / "h.json", [{"image_id": 9, "caption": "a cat"}]))
    ours, theirs = align(hypotheses, references, subset=True)
    assert list(ours) == list(theirs) == ["9"]
    lines = read_references(write(tmp_path / "r.txt", "x\n" * 12))
    assert list(align(hypotheses, lines, subset=True, first=1)[1]) == ["9"]
    other = read_hypotheses(write(tmp_path / "o.json", [{"image_id": 5, "caption": "a cat"}]))
    with pytest.raises(ValueError, match="`hypotheses` must be of some items with references; it is of none"):
        align(other, references, subset=True)


def test_a_subset_of_what_decode_wrote_counts_from_0(tmp_path: Path) -> None:
    with HypothesisFile(tmp_path / "d.jsonl", [1, 2], text=lambda tokens: f"line {tokens[0]}") as file:
        for name in (1, 2):
            file.add(name, [Hypothesis((name,), -1.5, -0.5, True)])
    references = read_references(write(tmp_path / "r.txt", "line 0\nline 1\nline 2\nline 3\n"))
    for first in (None, 0, 1):
        ours, theirs = align(read_hypotheses(tmp_path / "d.jsonl"), references, subset=True, first=first)
        assert [(ours[key].text, theirs[key][0].text) for key in theirs] == [("line 1",) * 2, ("line 2",) * 2]


@pytest.mark.parametrize(
    ("ids", "first", "lines"),
    [
        ((0, 2), None, "02"),  # one of the ids says it: 0 is there only from 0,
        ((0, 2), 1, "02"),
        ((1, 4), None, "03"),  # and 4 of 4 lines only from 1
        ((1, 4), 0, "03"),
        ((1, 3), 0, "13"),
        ((1, 3), 1, "02"),
    ],
)
def test_where_the_ids_of_a_subset_count_from(
    ids: tuple[int, ...], first: int | None, lines: str, tmp_path: Path
) -> None:
    held = "".join(json.dumps({"id": name, "text": "x"}) + "\n" for name in ids)
    references = read_references(write(tmp_path / "r.txt", "0\n1\n2\n3\n"))
    _, theirs = align(read_hypotheses(write(tmp_path / "h.jsonl", held)), references, subset=True, first=first)
    assert [several[0].text for several in theirs.values()] == list(lines)


def test_a_subset_whose_ids_fit_both_is_refused(tmp_path: Path) -> None:
    hypotheses = read_hypotheses(write(tmp_path / "h.jsonl", '{"id": 1, "text": "x"}\n{"id": 3, "text": "y"}\n'))
    references = read_references(write(tmp_path / "r.txt", "0\n1\n2\n3\n"))
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        align(hypotheses, references, subset=True)
    assert str(raised.value) == (
        f"`first` must be 0 or 1, the id of the first line of {tmp_path / 'r.txt'}; it is not given, and the ids of "
        f"{tmp_path / 'h.jsonl'} fit both."
    )
    with pytest.raises(ValueError, match="`first` must be 0 or 1; it is 2"):
        align(hypotheses, references, subset=True, first=2)


def test_ids_that_do_not_meet(tmp_path: Path) -> None:
    references = read_references(write(tmp_path / "k.json", KARPATHY))
    missing = read_hypotheses(write(tmp_path / "h.json", [{"image_id": 42, "caption": "a"}]))
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        align(missing, references)
    assert str(raised.value) == (
        "There must be a hypothesis for each item, but 1 hypotheses and 2 items with references are given: "
        f"id '9' has none ({tmp_path / 'h.json'} has 1 sentences and {tmp_path / 'k.json'} has 2)."
    )


@pytest.mark.parametrize("lost", [0, 3, 17, 39])
@pytest.mark.parametrize("side", ["hypotheses", "references"])
def test_a_lost_line_is_found(tmp_path: Path, lost: int, side: str) -> None:
    whole = [f"word{place} and other{place} things" for place in range(40)]
    short = "\n".join(line for place, line in enumerate(whole) if place != lost)
    texts = [short, "\n".join(whole)] if side == "hypotheses" else ["\n".join(whole), short]
    hypotheses = read_hypotheses(write(tmp_path / "h.txt", texts[0]))
    references = read_references(write(tmp_path / "r.txt", texts[1]))
    counts = (39, 40) if side == "hypotheses" else (40, 39)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        align(hypotheses, references)
    assert str(raised.value) == (
        f"Each line must have its reference, but {tmp_path / 'h.txt'} has {counts[0]} sentences and "
        f"{tmp_path / 'r.txt'} has {counts[1]}: the first suspicious line is {lost + 1}."
    )


def test_several_lines_lost_in_one_place(tmp_path: Path) -> None:
    whole = [f"word{place} and other{place} things" for place in range(40)]
    hypotheses = read_hypotheses(write(tmp_path / "h.txt", "\n".join(whole[:10] + whole[14:])))
    references = read_references(write(tmp_path / "r.txt", "\n".join(whole)))
    with pytest.raises(ValueError, match=r"has 36 sentences and .* has 40: the first suspicious line is 11\."):
        align(hypotheses, references)


def test_parallel_files_of_different_length(tmp_path: Path) -> None:
    paths = [write(tmp_path / "r0", "a b\nc d\ne f\n"), write(tmp_path / "r1", "a b\ne f\n")]
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        read_references(paths)
    assert str(raised.value) == (
        f"The files must have as many lines, but {paths[0]} has 3 and {paths[1]} has 2: the first suspicious line is 2."
    )


@pytest.mark.parametrize(
    ("name", "held", "sentence"),
    [
        (
            "h.jsonl",
            '{"id": 1, "text": "a"}\n{"id": 2, "te',
            "`hypotheses` must be whole JSON, but PATH is not in line 2.",
        ),
        ("h.jsonl", '{"id": 1, "txt": "a"}', '`line 1 of PATH` must be an object with "id" and "text" or "tokens" or '),
        ("h.jsonl", '{"id": 1, "text": "a"}\n{"text": "b"}', '`line 2 of PATH` must be an object with "id" and '),
        (
            "h.jsonl",
            "[1]",
            '`line 1 of PATH` must be an object with "id" and "text" or "tokens" or "hypotheses"; it is [1]',
        ),
        ("h.jsonl", '{"id": 1, "hypotheses": [{"score": 1}]}', "`line 1 of PATH` must be an object with a sentence, "),
        ("h.jsonl", '{"id": 1, "text": 5}', "`line 1 of PATH` must be an object with a sentence, a string or "),
        ("h.jsonl", '{"id": 1.5, "text": "a"}', "`line 1 of PATH` must be an object whose id is a whole number or a "),
        (
            "h.jsonl",
            '{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}',
            "An id must be there once, but '1' is in line 1 of PATH and in line 2 of PATH.",
        ),
        ("h.jsonl", "\n", "`PATH` must be a file with at least one hypothesis; it is empty."),
        ("h.txt", "", "`PATH` must be a file with a sentence a line; it is empty."),
        ("h.txt", b"good\nb\xe4d\n", "`hypotheses` must be text in UTF-8, but PATH is not in line 2."),
        ("h.json", '[{"image_id": 4', "`hypotheses` must be whole JSON; PATH is damaged at line 1, column "),
        ("h.json", {"a": 1}, '`PATH` must be a list of {"image_id": ..., "caption": ...}; it is a dict.'),
        ("h.json", [{"image_id": 4}], '`entry 1 of PATH` must be an object with "image_id" and "caption"; it is '),
    ],
)
def test_wrong_hypotheses_are_one_sentence(tmp_path: Path, name: str, held: Any, sentence: str) -> None:
    path = write(tmp_path / name, held)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        read_hypotheses(path)
    assert str(raised.value).startswith(sentence.replace("PATH", str(path)))
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        (
            [1],
            '`references` must be Karpathy\'s json (with "images") or COCO\'s annotations (with "annotations"), but ',
        ),
        ({"images": []}, "`references` must be a file with images; it is PATH, which has none."),
        ({"images": [{"cocoid": 1}]}, 'Image 1 of PATH must be an image with "split" and "sentences", each with '),
        ({"images": ["x"]}, 'Image 1 of PATH must be an image with "split" and "sentences", each with '),
        (
            {"images": [{"cocoid": 1, "split": "test", "sentences": []}]},
            "`image 1 of PATH` must be an image with sentences; it is one without.",
        ),
        ({"annotations": [{"image_id": 1}]}, 'Annotation 1 of PATH must be an object with "image_id" and "caption"'),
    ],
)
def test_wrong_references_are_one_sentence(tmp_path: Path, held: Any, sentence: str) -> None:
    path = write(tmp_path / "r.json", held)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        read_references(path)
    assert str(raised.value).startswith(sentence.replace("PATH", str(path)))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`hypotheses` must be a file that is there; it is .*none.txt"):
        read_hypotheses(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"must be one json or several files of plain text; it is a.json, b.json"):
        read_references(["a.json", "b.json"])
    with pytest.raises(ValueError, match="`references` must be at least one file; it is none"):
        read_references([])
