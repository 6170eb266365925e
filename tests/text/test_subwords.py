from __future__ import annotations

from typing import Any

import pytest

from seqsmooth.text import subword_kinds


@pytest.mark.parametrize(
    ("tokens", "kinds"),
    [
        (["[CLS]", "play", "##ing", "##s", "7", "##7", "un"], [-1, 0, 1, 1, 2, 2, 0]),
        (["<s>", "▁the", "s", "▁", "▁3", ",", "<0x0A>"], [-1, 0, 1, 2, 2, 2, -1]),
        (["<|endoftext|>", "Ġthe", "ing", "Ġ12", "!"], [-1, 0, 1, 2, 2]),
        (["<unk>", "th@@", "e", "3@@", "dog"], [-1, 1, 0, 2, 0]),
        (["<pad>", "a", "dog", ".", "<"], [-1, 0, 0, 2, 2]),
    ],
)
def test_each_convention(tokens: list[str], kinds: list[int]) -> None:
    assert subword_kinds(tokens).tolist() == kinds
    assert subword_kinds({token: place for place, token in reversed(list(enumerate(tokens)))}).tolist() == kinds


def test_an_id_without_a_token_is_alone() -> None:
    assert subword_kinds(["▁a", None, "b"]).tolist() == [0, -1, 1]
    assert subword_kinds({"b": 2, "▁a": 0}).tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ({"a": 0, "b": 0}, "`tokens` must be of different ids; it is 0 for 'a' and 'b'."),
        ({"a": -1}, "`tokens` must be 0 or more; it is -1."),
        ({"a": "0"}, "`tokens` must be a whole number; it is '0'."),
    ],
)
def test_wrong_ids_are_one_sentence(ids: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        subword_kinds(ids)
    assert str(raised.value) == sentence


@pytest.mark.parametrize("stray", ["##", "####", "@@", "##a"])
def test_a_sign_of_another_convention_does_not_decide(stray: str) -> None:
    """Vocabularies of language models hold headings of Markdown and marks of diffs."""
    tokens = ["Ġthe", "Ġa", "ing", "!"]
    assert subword_kinds([*tokens, stray]).tolist()[:4] == [0, 0, 1, 2]
    assert subword_kinds([stray, *(token.replace("Ġ", "▁") for token in tokens)]).tolist()[1:] == [0, 0, 1, 2]


def test_bytes_that_are_written_as_letters() -> None:
    """In GPT-2's vocabulary a line break is Ċ, é is Ã©, and a part of a letter may be a token."""
    assert subword_kinds(["Ġa", "Ċ", "ĠĊĊ", "ĉ", "Ã©", "ĠÃ", "âĢĻ"]).tolist() == [0, 2, 2, 2, 1, 0, 2]


@pytest.mark.parametrize(("token", "kind"), [(b"a", "a bytes"), (3, "an int")])
def test_what_is_no_string_is_one_sentence(token: Any, kind: str) -> None:
    """As the vocabulary of tiktoken, which is bytes."""
    sentence = f"`tokens` must be strings, or None where an id has no token; it is {kind}."
    for tokens in (["a", token], {"a": 0, token: 1}):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
            subword_kinds(tokens)
        assert str(raised.value) == sentence
