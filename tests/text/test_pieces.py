"""Pieces of words become words again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqsmooth.text import SubwordNmtTokeniser, Vocabulary, WordCounts, tokeniser
from seqsmooth.text.pieces import MARKS, join, mark_of

TEXTS = ["a man is riding a snowboard .", "zwei Männer fahren Ski", "the café 's owner , and 12 dogs", "snow boarders"]
words = st.lists(
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P"], exclude_characters="@#<▁"), min_size=1)
)


def pieces_of(sentence: list[str], mark: str, source: random.Random) -> list[str]:
    """Cut words anywhere and mark them by the rule of each tokeniser, as its paper or manual states it."""
    found = []
    for word in sentence:
        cuts = sorted(place for place in range(1, len(word)) if source.random() < 0.5)
        parts = [word[first:last] for first, last in zip([0, *cuts], [*cuts, len(word)], strict=True)]
        if mark == "##":
            parts[1:] = [f"##{part}" for part in parts[1:]]
        elif mark == "@@":
            parts[:-1] = [f"{part}@@" for part in parts[:-1]]
        elif mark == "</w>":
            parts[-1] += "</w>"
        else:
            parts[0] = f"▁{parts[0]}"
        found += parts
    return found


@pytest.mark.parametrize("mark", ["##", "@@", "</w>", "▁"])
@given(sentence=words, seed=st.integers(0, 99))
def test_words_that_were_cut_anywhere_come_back(mark: str, sentence: list[str], seed: int) -> None:
    assert join(pieces_of(sentence, mark, random.Random(seed)), mark) == sentence


def test_bytes_that_are_written_as_letters_are_read() -> None:
    # From GPT-2's own vocabulary: a blank is Ġ, and é is the two bytes Ã and ©.
    assert join(["a", "Ġcaf", "Ã©", "Ġ's", "Ġdog"], "Ġ") == ["a", "café", "'s", "dog"]
    assert join(["Ġ", "Ã"], "Ġ") == ["\ufffd"], "half a letter, as a model may write it"


def test_bytes_that_sentencepiece_falls_back_on_are_read() -> None:
    assert join(["▁caf", "<0xC3>", "<0xA9>", "▁a"], "▁") == ["café", "a"]


def test_what_is_not_known_spoils_no_other_word() -> None:
    assert join(["a</w>", "<unk>", "dog</w>"], "</w>") == ["a", "<unk>", "dog"]
    assert join(["a", "<unk>", "dog"], "##") == ["a", "<unk>", "dog"]


def test_pieces_that_break_the_rules_are_joined_all_the_same() -> None:
    assert join(["##board", "a"], "##") == ["board", "a"]
    assert join(["a", "skate@@"], "@@") == ["a", "skate"]
    assert join(["skate"], "</w>") == ["skate"]
    for mark in MARKS:
        assert join([], mark) == []


def test_the_signature_says_how() -> None:
    assert mark_of("hf:x|pieces:9|join:##") == "##"
    assert mark_of("moses:de:lower|sacremoses:0.1") == mark_of("") == ""
    with pytest.raises(ValueError, match=r"`join` must be one of ## @@ </w> ▁ Ġ; it is %%\."):
        mark_of("own|join:%%")


def test_a_vocabulary_of_pieces_knows_how_to_join_them(tmp_path: Path) -> None:
    split = tokeniser("subword-nmt")
    assert isinstance(split, SubwordNmtTokeniser)
    made = WordCounts.of([split("a snow@@ board")]).vocabulary(min_count=1, tokeniser=split.signature)
    made.save(tmp_path / "vocabulary.json")
    vocabulary = Vocabulary.load(tmp_path / "vocabulary.json")
    ids = vocabulary.encode(split("a snow@@ board snow@@ board"), eos=True)
    assert vocabulary.decode(ids) == ["a", "snow@@", "board", "snow@@", "board"]
    assert vocabulary.sentence(ids) == ["a", "snowboard", "snowboard"]
    assert tokeniser(vocabulary.tokeniser).signature == split.signature
    plain = WordCounts.of([["a", "snow@@"]]).vocabulary(min_count=1, tokeniser="whitespace")
    assert plain.join(["snow@@", "a"]) == ["snow@@", "a"]


def trained(kind: str) -> Any:
    """A small tokeniser of Hugging Face, learned on the spot."""
    tokenizers = pytest.importorskip("tokenizers")
    models, before, after, learn = (
        getattr(tokenizers, name) for name in ("models", "pre_tokenizers", "decoders", "trainers")
    )
    alphabet: list[str] = []
    if kind == "wordpiece":
        made, teacher = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]")), learn.WordPieceTrainer
        made.pre_tokenizer, made.decoder = before.WhitespaceSplit(), after.WordPiece(cleanup=False)
    elif kind == "bytes":
        made, teacher = tokenizers.Tokenizer(models.BPE()), learn.BpeTrainer
        made.pre_tokenizer, made.decoder = before.ByteLevel(add_prefix_space=True), after.ByteLevel()
        alphabet = before.ByteLevel.alphabet()
    elif kind == "metaspace":
        made, teacher = tokenizers.Tokenizer(models.BPE(unk_token="[UNK]")), learn.BpeTrainer
        made.pre_tokenizer, made.decoder = before.Metaspace(), after.Metaspace()
    elif kind == "llama":
        made, teacher = tokenizers.Tokenizer(models.BPE(unk_token="[UNK]")), learn.BpeTrainer
        made.pre_tokenizer = before.Metaspace()
        made.decoder = after.Sequence(
            [after.Replace("▁", " "), after.ByteFallback(), after.Fuse(), after.Strip(" ", 1, 0)]
        )
    else:
        made = tokenizers.Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
        made.pre_tokenizer, made.decoder = before.WhitespaceSplit(), after.BPEDecoder()
        special = learn.BpeTrainer(
            vocab_size=60, end_of_word_suffix="</w>", special_tokens=["[UNK]"], show_progress=False
        )
        made.train_from_iterator(TEXTS, special)
        return made
    options = {"special_tokens": ["[UNK]"], "show_progress": False, "initial_alphabet": alphabet}
    made.train_from_iterator(TEXTS, teacher(vocab_size=60 + len(alphabet), **options))
    return made


@pytest.mark.parametrize(
    ("kind", "mark"), [("wordpiece", "##"), ("bytes", "Ġ"), ("metaspace", "▁"), ("llama", "▁"), ("suffix", "</w>")]
)
def test_tokenisers_of_hugging_face_are_joined_as_they_do_it_themselves(kind: str, mark: str, tmp_path: Path) -> None:
    made = trained(kind)
    made.save(str(tmp_path / "tokenizer.json"))
    split = tokeniser(f"hf:{tmp_path / 'tokenizer.json'}")
    assert mark_of(split.signature) == mark
    assert sum(len(split(text)) for text in TEXTS) > sum(len(text.split()) for text in TEXTS), "words are cut"
    for text in [*TEXTS, "dogs riding men", "a"]:
        pieces = split(text)
        assert join(pieces, mark) == text.split() == made.decoder.decode(pieces).split()


def test_what_a_tokeniser_does_not_know_is_our_unk(tmp_path: Path) -> None:
    made = trained("wordpiece")
    made.save(str(tmp_path / "tokenizer.json"))
    split = tokeniser(f"hf:{tmp_path / 'tokenizer.json'}")
    assert "<unk>" in split("a ☃ man")
    vocabulary = WordCounts.of([split("a ☃ man")]).vocabulary(min_count=1, tokeniser=split.signature)
    assert 3 in vocabulary.encode(split("a ☃ man"))
    assert vocabulary.join(split("a ☃ man")) == ["a", "<unk>", "man"]


def test_a_tokeniser_that_forgets_where_words_end_is_refused(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1}, []))
    made.save(str(tmp_path / "t.json"))
    with pytest.raises(ValueError, match=r"`name` must be a tokeniser whose pieces can become words again, marked by "):
        tokeniser(f"hf:{tmp_path / 't.json'}")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    made.save(str(tmp_path / "w.json"))
    assert mark_of(tokeniser(f"hf:{tmp_path / 'w.json'}").signature) == ""
