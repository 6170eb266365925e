"""Token-level and sequence-level loss smoothing for anything that generates sequences."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from seqsmooth import rewards
from seqsmooth.distillation import TopK, forward_kl
from seqsmooth.ops import Philox, SoftTarget, cross_entropy, linear_cross_entropy
from seqsmooth.smoothing import (
    Candidates,
    Dirac,
    Edit,
    GroundTruth,
    Hamming,
    Loss,
    Objective,
    Refresh,
    Rewarded,
    Similarity,
    Specials,
    Teacher,
    Uniform,
    label_smoothing,
    mle,
    seq,
    tok,
    tok_seq,
)
from seqsmooth.version import __version__

if TYPE_CHECKING:
    from types import ModuleType

    from seqsmooth import integrations, metrics

__all__ = [
    "Candidates",
    "Dirac",
    "Edit",
    "GroundTruth",
    "Hamming",
    "Loss",
    "Objective",
    "Philox",
    "Refresh",
    "Rewarded",
    "Similarity",
    "SoftTarget",
    "Specials",
    "Teacher",
    "TopK",
    "Uniform",
    "__version__",
    "cross_entropy",
    "forward_kl",
    "integrations",
    "label_smoothing",
    "linear_cross_entropy",
    "metrics",
    "mle",
    "rewards",
    "seq",
    "tok",
    "tok_seq",
]

_LATER = ("integrations", "metrics")  # rooms that are imported when they are asked for


def __getattr__(name: str) -> ModuleType:
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
