from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from seqsmooth.text import Vocabulary, WordVectors


@pytest.fixture
def vectors() -> WordVectors:
    generator = torch.Generator().manual_seed(0)
    return WordVectors(("cat", "dog", "<eos>", "<unk>", "Katze-ß"), torch.randn(5, 3, generator=generator))


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.build({"dog": 9, "okapi": 8, "cat": 7}, sentences=9)


def test_what_is_saved_comes_back_bit_for_bit(vectors: WordVectors, tmp_path: Path) -> None:
    vectors.save(tmp_path / "v.txt")
    again = WordVectors.load(tmp_path / "v.txt")
    assert again.words == vectors.words
    assert torch.equal(again.values, vectors.values)
    assert [path.name for path in tmp_path.iterdir()] == ["v.txt"]


def test_the_format_is_that_of_glove(tmp_path: Path) -> None:
    WordVectors(("a", "b"), torch.tensor([[0.5, -1.0], [2.0, 1e-8]])).save(tmp_path / "v.txt")
    assert (tmp_path / "v.txt").read_bytes() == b"a 0.5 -1\nb 2 9.99999994e-09\n"


def test_the_header_of_word2vec_is_skipped_and_words_may_hold_spaces(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("3 2\n. . 1 2\n7 3 4\n7 5 6\n", encoding="utf-8")
    held = WordVectors.load(path)
    assert held.words == (". .", "7")  # of a word that is there twice, the first
    assert held.values.tolist() == [[1, 2], [3, 4]]


def test_vectors_are_aligned_to_a_vocabulary(vectors: WordVectors, vocabulary: Vocabulary) -> None:
    table, known = vectors.align(vocabulary)
    assert known.tolist() == [False, False, True, False, True, False, True]
    assert torch.equal(table[4], vectors.values[1])
    assert torch.equal(table[6], vectors.values[0])
    assert torch.equal(table[2], vectors.values[2])
    assert table[[0, 1, 3, 5]].abs().sum() == 0  # the <unk> of the file is not taken
    assert not vectors.align(vocabulary, eos=False)[1][2]


def test_only_the_words_of_a_vocabulary_are_read(vectors: WordVectors, vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    vectors.save(path)
    path.write_text(f"5 3\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    held = WordVectors.load(path, only=vocabulary)
    assert held.words == ("cat", "dog", "<eos>")
    assert all(torch.equal(a, b) for a, b in zip(held.align(vocabulary), vectors.align(vocabulary), strict=True))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"a 1 2\nb 1\n", "a text file of words and 2 numbers each, but line 2 of"),
        (b"a 1 2\nb 1 x\n", "line 2 of"),
        (b"a 1 2\nb 1 nan\n", "line 2 of"),
        (b"a 1 2\n\n", "line 2 of"),
        (b"justaword\n", "line 1 of"),
        (b"", "which is empty"),
        (b"3 2\na 1 2\nb 1 2\n", "cut short"),
    ],
)
def test_a_damaged_file_is_refused_with_the_line(text: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(text)
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        WordVectors.load(path)
    assert str(refused.value).startswith("`path` must be a")
    assert told in str(refused.value)


@pytest.mark.parametrize("header", ["", "2 3\n"])
def test_a_byte_order_mark_and_gzip(header: str, tmp_path: Path) -> None:
    text = f"\ufeff{header}cat 1 2 3\nKatze-ß 4 5 6\n".encode()
    (tmp_path / "v.txt").write_bytes(text)
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(text))
    for name in ("v.txt", "v.txt.gz"):
        held = WordVectors.load(tmp_path / name)
        assert held.words == ("cat", "Katze-ß")
        assert held.values.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_what_is_saved_as_gzip_is_gzip(vectors: WordVectors, tmp_path: Path) -> None:
    for name in ("v.txt", "v.txt.gz", "w.txt.gz"):
        vectors.save(tmp_path / name)
    packed = (tmp_path / "v.txt.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "v.txt").read_bytes()
    assert packed == (tmp_path / "w.txt.gz").read_bytes()
    assert torch.equal(WordVectors.load(tmp_path / "v.txt.gz").values, vectors.values)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, held, told in (
        ("v.txt", b"a 1 2\n\xff 1 2\n", "text in UTF-8, but PATH is not in line 2."),
        ("v.gz", gzip.compress(b"a 1 2\n" * 99)[:-9], "a whole gzip file; PATH is damaged."),
    ):
        (tmp_path / name).write_bytes(held)
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            WordVectors.load(tmp_path / name)
        assert str(refused.value) == "`path` must be " + told.replace("PATH", str(tmp_path / name))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`path` must be a file that is there; it is .*none\.txt\."):
        WordVectors.load(tmp_path / "none.txt")


def test_words_with_white_space_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`words` must be without white space; it is 'a b'"):
        WordVectors(("a b",), torch.zeros(1, 2)).save(tmp_path / "v.txt")


def test_neighbours_are_those_of_the_greatest_cosine() -> None:
    held = WordVectors(("a", "b", "c", "d"), torch.tensor([[1.0, 0.0], [5.0, 5.0], [-1.0, 0.1], [2.0, 0.1]]))
    assert [word for word, _ in held.nearest("a", 9)] == ["d", "b", "c"]
    assert held.nearest("a", 2)[1][1] == pytest.approx(0.5**0.5)
    with pytest.raises(ValueError, match="`word` must be one that has a vector; it is 'x'"):
        held.nearest("x")
