"""Words: tokenisers, vocabularies, counts, vectors."""

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
