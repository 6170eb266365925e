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
