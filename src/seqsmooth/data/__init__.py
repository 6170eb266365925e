"""Prepared corpora, batches and features: the input of training."""

from seqsmooth.data.batch import Batch
from seqsmooth.data.batches import Batches
from seqsmooth.data.corpus import Corpus, open_corpus
from seqsmooth.data.features import FeatureStore
from seqsmooth.data.sides import Side
from seqsmooth.data.tokens import TokenStore
from seqsmooth.data.writing import write_captions, write_pairs

__all__ = [
    "Batch",
    "Batches",
    "Corpus",
    "FeatureStore",
    "Side",
    "TokenStore",
    "open_corpus",
    "write_captions",
    "write_pairs",
]
