"""Words: tokenisers, vocabularies, counts, vectors."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqsmooth.text.cooccurrence import Cooccurrence
    from seqsmooth.text.counts import WordCounts, document_frequencies
    from seqsmooth.text.glove import GloVe
    from seqsmooth.text.ptb import PtbTokeniser
    from seqsmooth.text.subwords import subword_kinds
    from seqsmooth.text.tokenisers import (
        HuggingFaceTokeniser,
        MosesTokeniser,
        SubwordNmtTokeniser,
        Tokeniser,
        WhitespaceTokeniser,
        tokeniser,
    )
    from seqsmooth.text.vectors import WordVectors
    from seqsmooth.text.vocabulary import Vocabulary

__all__ = [
    "Cooccurrence",
    "GloVe",
    "HuggingFaceTokeniser",
    "MosesTokeniser",
    "PtbTokeniser",
    "SubwordNmtTokeniser",
    "Tokeniser",
    "Vocabulary",
    "WhitespaceTokeniser",
    "WordCounts",
    "WordVectors",
    "document_frequencies",
    "subword_kinds",
    "tokeniser",
]

# A name is imported when it is first used, so that a process which only splits texts does not wait for torch.
_HOMES = {
    "Cooccurrence": "cooccurrence",
    **dict.fromkeys(("WordCounts", "document_frequencies"), "counts"),
    "GloVe": "glove",
    "PtbTokeniser": "ptb",
    "subword_kinds": "subwords",
    **dict.fromkeys(
        (
            "HuggingFaceTokeniser",
            "MosesTokeniser",
            "SubwordNmtTokeniser",
            "Tokeniser",
            "WhitespaceTokeniser",
            "tokeniser",
        ),
        "tokenisers",
    ),
    "WordVectors": "vectors",
    "Vocabulary": "vocabulary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # so the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
