"""What kind of piece each token of a subword vocabulary is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from seqsmooth.ops import checks
from seqsmooth.text.pieces import join

STARTS, CONTINUES, SIGNS, ALONE = 0, 1, 2, -1
"""Begins a word; goes on with one; holds no letter; is special, and has no company."""
BEGINS = ("▁", "Ġ", "")
"""Marks of pieces that begin a word; others mark pieces that do not, or not alone, make one."""


def subword_kinds(tokens: Sequence[str | None] | Mapping[str, int]) -> Tensor:  # (V,) int64
    """Return a kind for each token, for `Similarity(kinds=...)`: pieces share mass only with pieces of their kind.

    The convention is the one that most tokens of the vocabulary keep: WordPiece ("##ing" goes on), SentencePiece
    ("▁the" begins), byte-level BPE ("Ġthe" begins), subword-nmt ("th@@" is not the end of a word, a kind of its own);
    without any of these, every token is a word. Tokens in brackets, "<s>", "[CLS]", "<|end|>", "<0x0A>", are special.

    Args:
        tokens: the vocabulary in the order of its ids, as `tokenizer.convert_ids_to_tokens(range(V))` gives it, or from
            tokens to ids, as `tokenizer.get_vocab()` does. An id without a token (None) is special.

    Examples:
        >>> subword_kinds(["<s>", "▁the", "s", "▁2"]).tolist()
        [-1, 0, 1, 2]
    """
    listed = _by_id(tokens) if isinstance(tokens, Mapping) else list(tokens)
    for token in listed:
        words = token is None or isinstance(token, str)
        checks.must(words, "tokens", "strings, or None where an id has no token", checks.describe(token))
    mark = _convention([token for token in listed if token is not None])
    return torch.tensor([_kind(token, mark) for token in listed], dtype=torch.long)


def _kind(token: str | None, mark: str) -> int:
    if token is None or _special(token):
        return ALONE
    if not _has_letter(token, mark):
        return SIGNS
    return STARTS if _has_mark(token, mark) == (mark in BEGINS) else CONTINUES


def _convention(tokens: list[str]) -> str:
    """Return the mark that most tokens carry: a language model also knows "##" as a heading and "@@" from diffs."""
    counts = {
        mark: sum(_has_mark(token, mark) and _has_letter(token, mark) for token in tokens)
        for mark in ("##", "▁", "Ġ", "@@")
    }
    most = max(counts, key=lambda mark: counts[mark])
    return most if counts[most] else ""


def _has_mark(token: str, mark: str) -> bool:
    return token.endswith(mark) if mark == "@@" else token.startswith(mark)


def _has_letter(token: str, mark: str) -> bool:
    """Return whether a piece holds a letter or a part of one, which is bytes that are no text by themselves."""
    return any(letter.isalpha() or letter == "\ufffd" for word in join([token], mark) for letter in word)


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
