"""Words: tokenisers, vocabularies, counts, vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqsmooth.lazy import lazy_names

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

_HOMES = {
    "seqsmooth.text.cooccurrence": ("Cooccurrence",),
    "seqsmooth.text.counts": (
        "WordCounts",
        "document_frequencies",
    ),
    "seqsmooth.text.glove": ("GloVe",),
    "seqsmooth.text.ptb": ("PtbTokeniser",),
    "seqsmooth.text.subwords": ("subword_kinds",),
    "seqsmooth.text.tokenisers": (
        "HuggingFaceTokeniser",
        "MosesTokeniser",
        "SubwordNmtTokeniser",
        "Tokeniser",
        "WhitespaceTokeniser",
        "tokeniser",
    ),
    "seqsmooth.text.vectors": ("WordVectors",),
    "seqsmooth.text.vocabulary": ("Vocabulary",),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
