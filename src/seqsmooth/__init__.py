"""Token-level and sequence-level loss smoothing for anything that generates sequences."""

from seqsmooth import rewards
from seqsmooth.ops import SoftTarget, cross_entropy, linear_cross_entropy
from seqsmooth.smoothing import (
    Candidates,
    Dirac,
    Edit,
    GroundTruth,
    Hamming,
    Loss,
    Objective,
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

__all__ = [
    "Candidates",
    "Dirac",
    "Edit",
    "GroundTruth",
    "Hamming",
    "Loss",
    "Objective",
    "Rewarded",
    "Similarity",
    "SoftTarget",
    "Specials",
    "Teacher",
    "Uniform",
    "__version__",
    "cross_entropy",
    "label_smoothing",
    "linear_cross_entropy",
    "mle",
    "rewards",
    "seq",
    "tok",
    "tok_seq",
]
