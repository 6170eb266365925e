from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqsmooth as ss
from seqsmooth.rewards import DocumentFrequencies
from seqsmooth.text import Vocabulary, WordCounts, document_frequencies

TEXTS = [["a", "dog", "and", "a", "cat"], ["a", "dog"], ["the", "okapi", "and", "a", "dog"]]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return WordCounts.of(TEXTS).vocabulary(min_count=2, tokeniser="whitespace")


def test_frequent_words_come_first_and_the_alphabet_decides_among_equals(vocabulary: Vocabulary) -> None:
    assert vocabulary.words == ("<pad>", "<bos>", "<eos>", "<unk>", "a", "dog", "and")
    assert WordCounts.of(TEXTS).vocabulary(min_count=1).words[7:] == ("cat", "okapi", "the")


def test_counts_are_kept_and_specials_have_theirs(vocabulary: Vocabulary) -> None:
    assert vocabulary.counts == (0, 3, 3, 3, 4, 3, 2)  # three sentences; cat, the and okapi left out
    assert vocabulary.frequencies().tolist() == list(vocabulary.counts)
    assert sum(vocabulary.counts[3:]) == sum(map(len, TEXTS))


def test_the_specials_are_those_of_a_loss(vocabulary: Vocabulary) -> None:
    assert vocabulary.specials() == ss.Specials(pad=0, bos=1, eos=2, unk=3)


def test_no_more_words_than_asked() -> None:
    kept = WordCounts.of(TEXTS).vocabulary(min_count=1, most_words=2)
    assert kept.words[4:] == ("a", "dog")
    assert kept.counts[3] == 5


def test_encoding(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode(TEXTS[2]) == [3, 3, 6, 4, 5]
    assert vocabulary.encode(TEXTS[2], bos=True, eos=True, max_words=3) == [1, 3, 3, 6, 2]
    assert vocabulary.decode([1, 4, 5, 3, 2, 4, 0]) == ["a", "dog", "<unk>"]
    with pytest.raises(ValueError, match=r"`ids` must be ids in \[0, 7\); it is 7"):
        vocabulary.decode([7])


def test_names_of_specials_have_no_meaning_in_text() -> None:
    kept = WordCounts.of([["<eos>", "<pad>", "a"]] * 9).vocabulary()
    assert kept.words[4:] == ("a",)
    assert kept.encode(["<eos>", "<pad>", "<unk>", "a"]) == [3, 3, 3, 4]
    assert kept.counts[3] == 18
    assert "<eos>" not in kept


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), max_size=5), st.booleans())
def test_all_sentences_at_once_are_the_sentences(texts: list[list[str]], eos: bool) -> None:
    kept = Vocabulary.build(dict.fromkeys("abcd", 9), sentences=1)
    flat, offsets = kept.encode_all(iter(texts), eos=eos)
    assert flat.dtype == np.int32
    parts = [flat[start:end].tolist() for start, end in pairwise(offsets.tolist())]
    assert parts == [kept.encode(text, eos=eos) for text in texts]
    flat, offsets = kept.encode_all(texts, eos=eos, unk=False)
    parts = [flat[start:end].tolist() for start, end in pairwise(offsets.tolist())]
    assert parts == [[word for word in kept.encode(text, eos=eos) if word != 3] for text in texts]


def test_what_is_saved_comes_back(vocabulary: Vocabulary, tmp_path: Path) -> None:
    kept = Vocabulary.build({"é": 9, 'quo"te': 8, "\u2028": 7}, sentences=3, tokeniser="ptb")
    for held in (vocabulary, kept):
        held.save(tmp_path / "vocabulary.json")
        again = Vocabulary.load(tmp_path / "vocabulary.json")
        assert again == held
        assert again.signature() == held.signature()
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.json"]


def test_signatures_tell_vocabularies_apart(vocabulary: Vocabulary) -> None:
    assert vocabulary.signature().startswith("words:7|min:2|tok:whitespace|sha:")
    words = list(vocabulary.words)
    words[4:6] = words[5], words[4]
    assert Vocabulary(tuple(words), vocabulary.counts).checksum != vocabulary.checksum


def test_a_damaged_file_is_refused_in_one_sentence(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    vocabulary.save(path)
    whole = path.read_text(encoding="utf-8")
    held = json.loads(whole)
    damaged = [
        whole[:-20],
        "",
        "[]",
        "7",
        json.dumps(held | {"kind": "seqsmooth vocabulary 2"}),
        json.dumps(held | {"words": [*held["words"][:-1], "ant"]}),
        json.dumps(held | {"counts": held["counts"][1:]}),
        json.dumps({name: value for name, value in held.items() if name != "counts"}),
    ]
    for text in damaged:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(
            ValueError, match=r"`path` must be a file written by `Vocabulary.save`; .* is damaged or something else\.$"
        ):
            Vocabulary.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is damaged or something else"):
        Vocabulary.load(path)


def test_a_failed_save_leaves_what_was_there(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    vocabulary.save(path)
    before = path.read_bytes()
    broken = Vocabulary((*vocabulary.words, "\ud800"), (*vocabulary.counts, 1))  # half a character: no UTF-8
    with pytest.raises(UnicodeEncodeError):
        broken.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("words", "counts", "sentence"),
    [
        (("a",), (1,), "`words` must be a list that starts with <pad> <bos> <eos> <unk>; it is a."),
        (("<pad>", "<bos>", "<eos>", "<unk>", "a"), (0,) * 4, "`counts` must be one for each of the 5 words"),
        (("<pad>", "<bos>", "<eos>", "<unk>", "a", "a"), (0,) * 6, "`words` must be all different"),
        (("<pad>", "<bos>", "<eos>", "<unk>"), (0, 0, 0, -1), "`counts` must be 0 or more everywhere"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], counts: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        Vocabulary(words, counts)
    assert str(refused.value).startswith(sentence)


def test_document_frequencies_are_those_of_the_ids(vocabulary: Vocabulary) -> None:
    documents = [[TEXTS[0], TEXTS[1]], [TEXTS[2]]]
    ours = document_frequencies(documents, vocabulary, order=2)
    ids = [[[4, 5, 6, 4, 3], [4, 5]], [[3, 3, 6, 4, 5]]]
    wanted = DocumentFrequencies.build(ids, order=2)
    assert ours.documents == 2
    assert all((a == b).all() for a, b in zip(ours.keys + ours.counts, wanted.keys + wanted.counts, strict=True))
