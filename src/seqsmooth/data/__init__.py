"""Prepared corpora, batches and features: the input of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqsmooth.lazy import lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "seqsmooth.data.batch": ("Batch",),
    "seqsmooth.data.batches": ("Batches",),
    "seqsmooth.data.corpus": (
        "Corpus",
        "open_corpus",
    ),
    "seqsmooth.data.features": ("FeatureStore",),
    "seqsmooth.data.sides": ("Side",),
    "seqsmooth.data.tokens": ("TokenStore",),
    "seqsmooth.data.writing": (
        "write_captions",
        "write_pairs",
    ),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
