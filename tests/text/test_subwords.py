from __future__ import annotations

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
        ({"a": 0, "b": 0}, "`tokens` must be of different ids, but is 0 for 'a' and 'b' instead."),
        ({"a": -1}, "`tokens` must be 0 or more, but is -1 instead."),
        ({"a": "0"}, "`tokens` must be a whole number, but is '0' instead."),
    ],
)
def test_wrong_ids_are_one_sentence(ids: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        subword_kinds(ids)
    assert str(raised.value) == sentence
