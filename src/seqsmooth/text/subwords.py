"""What kind of piece each token of a subword vocabulary is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from seqsmooth.ops import checks

STARTS, CONTINUES, SIGNS, ALONE = 0, 1, 2, -1
"""Begins a word; goes on with one; holds no letter; is special, and has no company."""


def subword_kinds(tokens: Sequence[str | None] | Mapping[str, int]) -> Tensor:  # (V,) int64
    """A kind for each token, for `Similarity(kinds=...)`: a piece then shares its mass with pieces that fit its place.

    The convention is read off the vocabulary: WordPiece ("##ing" goes on), SentencePiece ("▁the" begins), byte-level
    BPE ("Ġthe" begins), subword-nmt ("th@@" is not the end of a word, a kind of its own); without any of these, every
    token is a word. Tokens in brackets, "<s>", "[CLS]", "<|end|>", "<0x0A>", are special.

    Args:
        tokens: the vocabulary in the order of its ids, as `tokenizer.convert_ids_to_tokens(range(V))` gives it, or from
            tokens to ids, as `tokenizer.get_vocab()` does. An id without a token (None) is special.

    Examples:
        >>> subword_kinds(["<s>", "▁the", "s", "▁2"]).tolist()
        [-1, 0, 1, 2]
    """
    listed = _by_id(tokens) if isinstance(tokens, Mapping) else tokens
    known = [token for token in listed if token is not None]
    if any(token.startswith("##") for token in known):
        marked, mark, start = str.startswith, "##", False
    elif any(token.startswith("▁") for token in known):
        marked, mark, start = str.startswith, "▁", True
    elif any(token.startswith("Ġ") for token in known):
        marked, mark, start = str.startswith, "Ġ", True
    elif any(token.endswith("@@") for token in known):
        marked, mark, start = str.endswith, "@@", False
    else:
        marked, mark, start = str.startswith, "", True
    kinds = []
    for token in listed:
        if token is None or _special(token):
            kinds.append(ALONE)
        elif not any(letter.isalpha() for letter in token.strip("▁Ġ").removeprefix("##").removesuffix("@@")):
            kinds.append(SIGNS)
        else:
            kinds.append(STARTS if marked(token, mark) == start else CONTINUES)
    return torch.tensor(kinds, dtype=torch.long)


def _by_id(ids: Mapping[str, int]) -> list[str | None]:
    tokens: dict[int, str] = {}
    for token, place in ids.items():
        checks.at_least("tokens", place, 0)
        twice = f"{place} for {tokens.get(place)!r} and {token!r}"
        checks.must(place not in tokens, "tokens", "of different ids", twice)
        tokens[place] = token
    return [tokens.get(place) for place in range(max(tokens, default=-1) + 1)]


def _special(token: str) -> bool:
    return len(token) > 2 and (token[0], token[-1]) in (("<", ">"), ("[", "]"))
